"""``/dead``: dead letters in groups, or one by one, by a filter that is all in the address."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from datetime import timedelta

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headgate.jobs.client.dead_letters.answers import LetterPage
from headgate.jobs.dead_letters.counting import CountBy, LetterCount, LetterCounter, read_by
from headgate.jobs.dead_letters.letter import DeadLetter
from headgate.jobs.dead_letters.reading import REASONS
from headgate.jobs.dead_letters.search import LOOKING
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.ops.console.context import Console
from headgate.ops.console.forms import Fields, query_of
from headgate.ops.console.pages.dead.filters import letter_filter, narrowed, wanted_letters
from headgate.ops.console.pages.wanted import Wanted
from headgate.ops.console.reader import Seen
from headgate.ops.console.rendering import console_of, render

GROUPS: Sequence[tuple[CountBy, ...]] = (
    *(("type", "reason"), ("type", "error"), ("queue",), ("tenant",), ("hour",)),
)
"""The groups that the page offers."""

ONE_BY_ONE = "none"
"""Stands in ``group`` for letters one by one."""

AGES = ("15m", "1h", "6h", "1d", "7d")

_MOST = 1_000
_WITHIN = timedelta(seconds=5)
_SHOWN = 100
_FRESH_S = 15.0
_REQUESTS_PER_MINUTE = 300
"""Requests for the letters that people look at that the console sends at most."""

_RENEWED_S = 2
"""Seconds after which a page looks for the letters of a look that is under way."""

_KIND = "dead"


@light_dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """One group of the list."""

    counted: LetterCount
    query: str | None
    """The query that lists its letters; None if no filter selects them."""


def dead(request: Request) -> Response:
    """Show dead letters, in groups or one by one."""
    console, query = console_of(request), query_of(request)
    wanted = wanted_letters(query)
    by = _by(query, wanted)
    seen = _look(console, wanted)
    letters = seen.value.letters if seen.value else []
    return render(
        request,
        "dead.html",
        title="Dead letters",
        active="/dead",
        every_s=_RENEWED_S if seen.renewing else 0,
        seen=seen,
        wanted=wanted,
        by=by,
        rows=_rows(letters, wanted, by) if by else [],
        letters=[] if by else letters[:_SHOWN],
        is_cut=seen.value is not None and (len(letters) >= _MOST or not seen.value.look.complete),
        unseen=sum(seen.value.look.unseen.values()) if seen.value else 0,
        within=_WITHIN,
        hidden=_WITHIN + LOOKING,
        groups=GROUPS,
        reasons=sorted(REASONS),
        ages=AGES,
    )


def looks(*filters: Wanted) -> tuple[Hashable, ...]:
    """Return the questions that letters of these filters, and of none, are the answers to."""
    return tuple((_KIND, each) for each in (Wanted(), *filters))


def _look(console: Console, wanted: Wanted) -> Seen[LetterPage]:
    """Look at a bounded number of letters for a bounded time, and less often if that costs more.

    A repeated look returns the letters seen before at once, and new ones when they are there.
    """
    chosen, key = letter_filter(wanted), (_KIND, wanted)
    before = console.reader.peek(key).value
    requests = before.look.requests if isinstance(before, LetterPage) else 0
    in_use = max(1, console.reader.in_use(_KIND))
    return console.reader.read_behind(
        key,
        lambda: console.client.dead_letters.list(chosen, limit=_MOST, within=_WITHIN),
        fresh_s=max(_FRESH_S, requests * in_use * 60 / _REQUESTS_PER_MINUTE),
        wait_first=True,
    )


def _by(query: Fields, wanted: Wanted) -> tuple[CountBy, ...]:
    """Return what to group by; nothing if letters are listed one by one."""
    text = query.text("group", most=60)
    if text == ONE_BY_ONE or (not text and wanted.given):
        return ()
    return read_by([each.strip() for each in text.split(",")]) if text else GROUPS[0]


def _rows(
    letters: Sequence[DeadLetter], wanted: Wanted, by: Sequence[CountBy]
) -> Sequence[GroupRow]:
    counter = LetterCounter(by)
    for each in letters:
        counter.add(each)
    return [
        GroupRow(counted=each, query=narrow.query(group=ONE_BY_ONE) if narrow else None)
        for each in counter.counts()
        for narrow in [narrowed(wanted, each.group)]
    ]


ROUTES = [Route("/dead", dead)]
