"""Replaying dead letters and purging them: those chosen, or all that a filter selects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from headgate.jobs.client.dead_letters.looking import LettersPurged
from headgate.jobs.dead_letters.filters import DeadLetterFilter
from headgate.jobs.dead_letters.replaying.options import ReplaySettings
from headgate.jobs.dead_letters.replaying.report import ReplayReport
from headgate.ops.console.forms import Fields, form_of, refuse
from headgate.ops.console.outcomes import Outcome, OutcomeLine
from headgate.ops.console.pages.dead.filters import letter_filter, until_at_most, wanted_letters
from headgate.ops.console.pages.dead.listing import looks
from headgate.ops.console.pages.wanted import Wanted
from headgate.ops.console.rendering import base_of, console_of, render
from headgate.ops.console.words import plural

_MOST = 1_000
_PACE = ("limit", "rate", "spread", "canary")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A form: the letters that it is about, and whether that has been confirmed."""

    ids: tuple[str, ...]
    """The messages that are chosen."""
    wanted: Wanted
    all: bool
    """True: all that ``wanted`` selects, in place of ``ids``."""
    confirmed: bool

    @property
    def back(self) -> str:
        """The path of the list that it came from."""
        return f"/dead{self.wanted.query()}"

    @property
    def letters(self) -> str:
        """The letters in words, for the log."""
        if not self.all:
            return f"{plural(len(self.ids), 'dead letter')}: {', '.join(self.ids[:20])}"
        return f"all dead letters of {self.wanted.query() or 'the app'}"

    def filter(self) -> DeadLetterFilter:
        """Return the filter that selects them."""
        return letter_filter(self.wanted) if self.all else DeadLetterFilter(ids=self.ids)

    def fields(self) -> list[tuple[str, str]]:
        """Return the fields of a form that asks for the same."""
        chosen = [("all", "1")] if self.all else [("letter", each) for each in self.ids]
        return [*chosen, *self.wanted.given]


def replay(request: Request) -> Response:
    """Send dead letters back to their queues, once the number has been confirmed."""
    console, form = console_of(request), form_of(request)
    asked, settings = _asked(form), _settings(form)
    chosen, letters = asked.filter(), console.client.dead_letters
    if not asked.confirmed:
        return _confirm_replay(request, asked, letters.replay(chosen, dry_run=True, **settings))

    def carry_out(tell: Callable[[ReplayReport], None]) -> ReplayReport:
        return letters.replay(chosen, on_step=tell, **settings)

    begun = console.begin(
        request,
        f"replay {asked.letters}",
        carry_out,
        changes=(*looks(asked.wanted), "replays"),
    )
    return RedirectResponse(f"{base_of(request)}/replays/{begun.id}", status_code=303)


def purge(request: Request) -> Response:
    """Delete dead letters, once the number has been confirmed."""
    console, asked = console_of(request), _asked(form_of(request))
    if not asked.confirmed:
        return _confirm_purge(request, asked)
    chosen = asked.filter()
    done = console.act(
        request,
        lambda: console.client.dead_letters.purge(chosen),
        changes=looks(asked.wanted),
    )
    outcome = Outcome(title="Purge", lines=_purged(done, asked), back="/dead")
    return RedirectResponse(f"{base_of(request)}{console.outcomes.keep(outcome)}", status_code=303)


def _confirm_replay(request: Request, asked: _Asked, plan: ReplayReport) -> Response:
    form = form_of(request)
    pace = [(name, text) for name in _PACE if (text := form.text(name))]
    to = [f"{count:,} to {queue}" for queue, count in sorted(plan.by_queue.items())]
    left = [f"{each.job_id or each.message_id}: {each.why}" for each in plan.left]
    note = f"{plural(plan.refused, 'letter')} would be left where they are." if plan.refused else ""
    things = [*to, *(f"{name} {text}" for name, text in pace), *left]
    return _confirm(request, asked, "Replay", count=plan.sent, things=things, more=pace, note=note)


def _confirm_purge(request: Request, asked: _Asked) -> Response:
    """Ask with the number of what has died by now: what dies later stays."""
    console = console_of(request)
    if asked.all:
        until = until_at_most(asked.wanted, console.clock.now())
        asked = _Asked(ids=(), wanted=until, all=True, confirmed=False)
    counts = console.client.dead_letters.count(("queue", "type"), asked.filter())
    things = [
        f"{each.count:,} of {each.group['type'] or 'unknown type'} in {each.group['queue']}"
        for each in counts.groups
    ]
    kept = "Each is copied to the app's bucket before it is deleted."
    note = kept if counts.look.complete else f"At least that many: some were not seen. {kept}"
    return _confirm(request, asked, "Purge", count=counts.total, things=things, more=(), note=note)


def _confirm(
    request: Request,
    asked: _Asked,
    verb: str,
    *,
    count: int,
    things: Sequence[str],
    more: Sequence[tuple[str, str]],
    note: str,
) -> Response:
    return render(
        request,
        "confirm.html",
        title=f"{verb}: {plural(count, 'dead letter')}",
        active="/dead",
        verb=verb,
        count=count,
        things=things,
        noun="dead letter",
        is_danger=verb == "Purge",
        fields=[*asked.fields(), *more],
        action=str(request.url.path).removeprefix(base_of(request)),
        back=asked.back,
        has_reason=False,
        note=note,
    )


def _purged(done: LettersPurged, asked: _Asked) -> Sequence[OutcomeLine]:
    said = f"deleted, {done.copied:,} copied to the bucket"
    count = plural(done.purged, "dead letter")
    lines = [OutcomeLine(of=count, text=said, is_done=True, path=asked.back)]
    lines += [
        OutcomeLine(of="left", text=each, is_done=False, path=asked.back) for each in done.failures
    ]
    if not done.look.complete:
        text = "some letters were not seen: look again"
        lines.append(OutcomeLine(of="unseen", text=text, is_done=False, path=asked.back))
    return lines


def _asked(form: Fields) -> _Asked:
    asked = _Asked(
        ids=form.texts("letter", most=128),
        wanted=wanted_letters(form),
        all=form.flag("all"),
        confirmed=form.flag("confirmed"),
    )
    if not asked.ids and not asked.all:
        refuse("No dead letter is chosen: tick some in the list.")
    if len(asked.ids) > _MOST:
        refuse(f"At most {_MOST:,} dead letters are chosen at a time.")
    return asked


def _settings(form: Fields) -> ReplaySettings:
    return {
        "limit": _whole(form, "limit"),
        "rate": _rate(form),
        "spread": form.span("spread"),
        "canary": _whole(form, "canary"),
    }


def _whole(form: Fields, name: str) -> int | None:
    if not (text := form.text(name, most=12)):
        return None
    if not text.isdecimal():
        refuse(f"{name}: {text!r} is no whole number")
    return int(text)


def _rate(form: Fields) -> float | None:
    if not (text := form.text("rate", most=12)):
        return None
    try:
        return float(text)
    except ValueError:
        refuse(f"rate: {text!r} is no number of jobs a second")


ROUTES = [
    Route("/dead/replay", replay, methods=["POST"]),
    Route("/dead/purge", purge, methods=["POST"]),
]
