"""Answers to forms that are carried out once."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from headgate.ops.console.forms import form_of
from headgate.ops.console.rendering import base_of, console_of
from headgate.ops.console.sent_forms import FIELD, LONGEST_ID


def led_once(request: Request, carry_out: Callable[[], str]) -> Response:
    """Carry out the form that a request sends, unless that was done, and lead to where it led.

    Args:
        request: the request; a form without an id, as a program sends it, is always carried out.
        carry_out: does it; returns the path, within the console, that it leads to.
    """
    form_id = form_of(request).text(FIELD, most=LONGEST_ID)
    path = console_of(request).sent.once(form_id, carry_out) if form_id else carry_out()
    return RedirectResponse(f"{base_of(request)}{path}", status_code=303)
