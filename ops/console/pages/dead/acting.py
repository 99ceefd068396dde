"""Replaying dead letters and purging them: those chosen, or all that a filter selects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headgate.jobs.client.dead_letters.answers import LettersPurged
from headgate.jobs.dead_letters.replaying.options import ReplaySettings
from headgate.jobs.dead_letters.replaying.report import ReplayReport
from headgate.ops.console.forms import Fields, form_of, refuse
from headgate.ops.console.outcomes import Outcome, OutcomeLine
from headgate.ops.console.pages.dead.asked import AskedLetters, asked_letters
from headgate.ops.console.pages.dead.filters import until_at_most
from headgate.ops.console.pages.dead.listing import looks
from headgate.ops.console.pages.once import led_once
from headgate.ops.console.rendering import base_of, console_of, render
from headgate.ops.console.words import plural

_COUNTED_WITHIN = timedelta(seconds=15)
"""The longest time for which letters are counted before somebody confirms it."""

_PACE = ("limit", "rate", "spread", "canary")


def replay(request: Request) -> Response:
    """Send dead letters back to their queues, once the number has been confirmed."""
    console, form = console_of(request), form_of(request)
    asked, settings = asked_letters(form), _settings(form)
    chosen, letters = asked.filter(), console.client.dead_letters
    if not asked.confirmed:
        plan = letters.replay(chosen, dry_run=True, within=_COUNTED_WITHIN, **settings)
        return _confirm_replay(request, asked, plan)

    def carry_out(tell: Callable[[ReplayReport], None]) -> ReplayReport:
        return letters.replay(chosen, on_step=tell, **settings)

    def begin() -> str:
        begun = console.begin(
            request,
            f"replay {asked.letters}",
            carry_out,
            changes=(*looks(asked.wanted), "replays"),
        )
        return f"/replays/{begun.id}"

    return led_once(request, begin)


def purge(request: Request) -> Response:
    """Delete dead letters, once the number has been confirmed."""
    console, asked = console_of(request), asked_letters(form_of(request))
    if not asked.confirmed:
        return _confirm_purge(request, asked)
    chosen = asked.filter()

    def carry_out() -> str:
        done = console.act(
            request,
            lambda: console.client.dead_letters.purge(chosen),
            changes=looks(asked.wanted),
        )
        lines = _purged(done, asked)
        return console.outcomes.keep(Outcome(title="Purge", lines=lines, back="/dead"))

    return led_once(request, carry_out)


def _confirm_replay(request: Request, asked: AskedLetters, plan: ReplayReport) -> Response:
    form = form_of(request)
    pace = [(name, text) for name in _PACE if (text := form.text(name))]
    to = [f"{count:,} to {queue}" for queue, count in sorted(plan.by_queue.items())]
    left = [f"{each.job_id or each.message_id}: {each.why}" for each in plan.left]
    refused = f"{plural(plan.refused, 'letter')} would be left where they are."
    unseen = f"At least that many. There are {plan.reason}; those that match go too."
    notes = [*([unseen] if plan.reason else ()), *([refused] if plan.refused else ())]
    things = [*to, *(f"{name} {text}" for name, text in pace), *left]
    return _confirm(
        request,
        asked,
        "Replay",
        count=plan.sent,
        things=things,
        more=pace,
        note=" ".join(notes),
        at_least=bool(plan.reason),
    )


def _confirm_purge(request: Request, asked: AskedLetters) -> Response:
    """Ask with the number of what has died by now: what dies later stays."""
    console = console_of(request)
    if asked.all:
        until = until_at_most(asked.wanted, console.clock.now())
        asked = AskedLetters(ids=(), wanted=until, all=True, confirmed=False)
    counts = console.client.dead_letters.count(
        ("queue", "type"), asked.filter(), within=_COUNTED_WITHIN
    )
    things = [
        f"{each.count:,} of {each.group['type'] or 'unknown type'} in {each.group['queue']}"
        for each in counts.groups
    ]
    kept = "Each is copied to the app's bucket before it is deleted."
    is_cut = not counts.look.complete
    note = f"At least that many: some were not seen. {kept}" if is_cut else kept
    return _confirm(
        request,
        asked,
        "Purge",
        count=counts.total,
        things=things,
        more=(),
        note=note,
        at_least=is_cut,
    )


def _confirm(
    request: Request,
    asked: AskedLetters,
    verb: str,
    *,
    count: int,
    things: Sequence[str],
    more: Sequence[tuple[str, str]],
    note: str,
    at_least: bool,
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
        at_least=at_least,
    )


def _purged(done: LettersPurged, asked: AskedLetters) -> Sequence[OutcomeLine]:
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
