"""``/outcomes/{id}``: what became of an action on several things."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headgate.ops.console.forms import refuse
from headgate.ops.console.rendering import console_of, render


def outcome(request: Request) -> Response:
    """Show an outcome."""
    found = console_of(request).outcomes.get(request.path_params["id"])
    if found is None:
        refuse("The console keeps the last fifty outcomes, and this is not one of them.", 404)
    return render(request, "outcome.html", title=found.title, outcome=found)


ROUTES = [Route("/outcomes/{id}", outcome)]
