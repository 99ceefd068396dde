"""``/audit``: who did what, and when, by a filter that is all in the address."""

from __future__ import annotations

from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headgate.jobs.client.auditing.desk import AuditPage
from headgate.jobs.records.audit.entry import AuditAction, AuditEntry
from headgate.ops.console.context import Console
from headgate.ops.console.forms import query_of
from headgate.ops.console.pages.wanted import TIMES, Wanted
from headgate.ops.console.rendering import console_of, render

AGES = ("1h", "1d", "7d", "30d", "365d")

_NAMES = ("actor", "action", "target")
_LONGEST_NAME = 128
_LIMIT = 50
_MOST_PAGES = 10
_FRESH_S = 5.0


def audit(request: Request) -> Response:
    """List what was done, the latest first."""
    console, query = console_of(request), query_of(request)
    given = ((name, query.text(name, most=_LONGEST_NAME)) for name in (*_NAMES, *TIMES))
    wanted = Wanted(tuple((name, text) for name, text in given if text))
    after = query.text("after", most=2_000)
    seen = console.reader.read(
        ("audit", wanted, after), lambda: _page(console, wanted, after), fresh_s=_FRESH_S
    )
    return render(
        request,
        "audit.html",
        title="Audit",
        active="/audit",
        every_s=10,
        seen=seen,
        wanted=wanted,
        after=after,
        actions=[*AuditAction],
        path_to=path_to,
        ages=AGES,
    )


def path_to(entry: AuditEntry) -> str:
    """Return the path of the page that shows what an entry is about; empty if none does."""
    pages = {"job": "jobs", "replay": "replays", "queue": "queues", "schedule": "schedules"}
    page = pages.get(entry.target.kind)
    name = entry.target.name.partition("/")[0]  # a queue's priority has no page of its own
    return f"/{page}/{quote(name, safe='')}" if page else ""


def _page(console: Console, wanted: Wanted, after: str) -> AuditPage:
    """Read on until a page is full: few of the entries may be of the actor or the action."""
    found: list[AuditEntry] = []
    skipped = 0
    for _ in range(_MOST_PAGES):
        page = console.client.audit.list(
            since=wanted.time("since"),
            until=wanted.time("until"),
            actor=wanted.text("actor"),
            action=wanted.text("action"),
            target=wanted.text("target"),
            limit=_LIMIT - len(found),
            after=after,
        )
        found += page.entries
        skipped, after = skipped + page.skipped, page.next
        if len(found) >= _LIMIT or not after:
            break
    return AuditPage(entries=found, next=after, skipped=skipped)


ROUTES = [Route("/audit", audit)]
