"""Whatever is sent to the console gets an answer, and nothing of it becomes markup."""

from __future__ import annotations

import os
from collections.abc import Sequence
from urllib.parse import quote, urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.routing import Route

from headgate import Schedule
from headgate.ops.console.pages import ROUTES
from tests.support.console import MARKUP, Answer
from tests.unit.ops.console.conftest import Email, Shop, ended

EXAMPLES = max(1, int(os.environ.get("HOSTILE_EXAMPLES", "30")) // 10)
"""Requests to each route."""

NAMES = st.sampled_from(
    (
        *("q", "state", "type", "queue", "tenant", "since", "until", "after", "show", "id"),
        *("error", "expression", "token", "name", "x"),
        *("all", "confirmed", "reason", "payload", "priority", "lasts", "group", "letter", "jobs"),
        *("limit", "rate", "spread", "canary", "timezone"),
    )
)
REAL = "0196a2b4-0000-7000-8000-000000000001"
"""Stands for the id of a job that is there, and of its dead letter."""

VALUES = st.one_of(
    st.sampled_from([MARKUP, "dead", "payments", "1h", "9" * 400, "-1", "1e308d", "2026-13-01"]),
    st.sampled_from(["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59"]),
    st.sampled_from([REAL, "send-email", "{}", "[", "\x00", "reminder"]),
    st.text(max_size=40),
)
FIELDS = st.lists(st.tuples(NAMES, VALUES), max_size=4)


def encoded(fields: Sequence[tuple[str, str]]) -> str:
    return urlencode([(name, value.encode(errors="replace")) for name, value in fields])


def stocked() -> tuple[Shop, str]:
    """Return a shop with some of everything, and the id of a job that died."""
    shop = Shop()
    job = shop.client.submit(shop.send_email, Email(to=f"bad {MARKUP}"), tenant="<b>org")
    shop.harness.drain()
    shop.client.schedules.create(
        "reminder", shop.send_email, Email(to="a"), schedule=Schedule.rate(3_600)
    )
    return shop, job.id


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.path)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(segment=VALUES, query=FIELDS, form=FIELDS)
def test_every_request_gets_an_answer_that_reflects_no_markup(
    route: Route, segment: str, query: list[tuple[str, str]], form: list[tuple[str, str]]
) -> None:
    shop, real = stocked()
    browser = shop.browser()
    name = quote(segment.replace(REAL, real).encode(errors="replace"), safe="")
    path = route.path.format(**dict.fromkeys(route.param_convertors, name))
    if "POST" in (route.methods or ()):
        sent = {key: value.replace(REAL, real) for key, value in form}
        answer = browser.post(f"{path}?{encoded(query)}", sent)
    else:
        answer = browser.get(f"{path}?{encoded(query)}")
    ended()
    assert answer.status < 500
    if not is_file(answer):
        assert "<script>alert" not in answer.text
        assert not {"\x1b", "\u202e"} & set(answer.text)


def is_file(answer: Answer) -> bool:
    """Return True for what a browser keeps as a file and doesn't show."""
    return answer.headers.get("content-disposition", "").startswith("attachment;")
