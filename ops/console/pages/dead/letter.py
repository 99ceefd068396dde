"""``/dead/{id}``: one dead letter; its payload on demand."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headgate.jobs.client.dead_letters.answers import LetterDetails
from headgate.jobs.dead_letters.letter import DeadLetter
from headgate.jobs.dead_letters.search import LOOKING
from headgate.ops.console.context import Console
from headgate.ops.console.forms import query_of, refuse
from headgate.ops.console.pages.revealed import LOOK, Revealed, revealed_payload
from headgate.ops.console.pages.wanted import Wanted
from headgate.ops.console.rendering import console_of, render

_FRESH_S = 60.0
_RENEWED_S = 2
"""Seconds after which the page looks for a letter that has not been read yet."""

_LONGEST_ID = 128
_LONGEST_VALUE = 2_000


def letter(request: Request) -> Response:
    """Show a dead letter."""
    console, name = console_of(request), _id(request)
    seen = console.reader.read(
        ("dead letter", name),
        lambda: console.client.dead_letters.show(name, within=LOOK),
        fresh_s=_FRESH_S,
    )
    details = seen.value
    if details is None and not seen.fault and not seen.renewing:
        refuse(_unseen(name), 404)
    has_asked = query_of(request).text("show", most=20) == "payload"
    return render(
        request,
        "letter.html",
        title=f"Dead letter {name}",
        active="/dead",
        every_s=_RENEWED_S if seen.renewing else 0,
        seen=seen,
        name=name,
        details=details,
        traceback=_traceback(details),
        attributes={} if details is None else _attributes(details),
        revealed=_payload(request, console, name) if has_asked else None,
        alike=Wanted() if details is None else _alike(details.letter),
        within=LOOK,
        hidden=LOOK + LOOKING,
    )


def _payload(request: Request, console: Console, name: str) -> Revealed:
    found = console.act(
        request,
        lambda: console.client.dead_letters.show(name, payload=True, within=LOOK),
        changes=(),
    )
    return revealed_payload(console.app, found, found.letter.job_type if found else None)


def _id(request: Request) -> str:
    name = str(request.path_params["id"])
    if len(name) > _LONGEST_ID:
        refuse("No dead letter has an id of that length.", 404)
    return name


def _unseen(name: str) -> str:
    return (
        f"No dead letter that can be seen has the id {name!r}. It may have been replayed or "
        f"purged, somebody else may hold it, or a look of {LOOK.seconds} seconds did not get to "
        "it: `headgate dead-letters show` looks for longer."
    )


def _traceback(details: LetterDetails | None) -> str:
    """Return the traceback of the last attempt that has one."""
    attempts = details.record.attempts if details and details.record else ()
    return next((each.traceback for each in reversed(attempts) if each.traceback), "")


def _alike(letter: DeadLetter) -> Wanted:
    """Return the filter for letters of the same type that failed in the same way."""
    told = (("type", letter.job_type), ("reason", letter.reason), ("error", letter.error_type))
    return Wanted(tuple((name, value) for name, value in told if value))


def _attributes(details: LetterDetails) -> dict[str, str]:
    return {name: text[:_LONGEST_VALUE] for name, text in sorted(details.attributes.items())}


ROUTES = [Route("/dead/{id}", letter)]
