"""Cancelling jobs and running them again: one, those chosen, or all that a filter selects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pydantic_core import from_json
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headgate.jobs.client.jobs.jobs import MOST_CANCELLED, JobsCancelled
from headgate.jobs.definitions.options.submit_options import SubmitOptions
from headgate.jobs.errors import HeadgateError
from headgate.jobs.records.cancellation import LONGEST_REASON
from headgate.jobs.records.state import JobState
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.jobs.values.texts import text_of
from headgate.ops.console.context import Console
from headgate.ops.console.forms import Fields, form_of, refuse
from headgate.ops.console.outcomes import Outcome, OutcomeLine
from headgate.ops.console.pages.jobs.filters import job_filter, wanted_jobs
from headgate.ops.console.pages.once import led_once
from headgate.ops.console.pages.wanted import Wanted
from headgate.ops.console.rendering import base_of, console_of, render
from headgate.ops.console.words import plural

_MOST_RERUN = 100
"""Jobs that run again at a time: for each that died, its dead letter is looked for."""

_LONGEST_PAYLOAD = 200_000

_LONGEST_GROUP = 128
"""https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html"""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A form: the jobs that it is about, and whether that has been confirmed."""

    ids: tuple[str, ...]
    wanted: Wanted
    all: bool
    """True: all that ``wanted`` selects; once confirmed, those of ``ids``, which were shown."""
    confirmed: bool
    reason: str

    @property
    def back(self) -> str:
        """The path of the list that it came from."""
        return f"/jobs{self.wanted.query()}"


def cancel(request: Request) -> Response:
    """Request the cancellation of jobs, once the number has been confirmed."""
    console, asked = console_of(request), _asked(request)
    if asked.all:
        return _cancel_all(request, asked)
    if not asked.confirmed:
        return _confirm(request, asked, "Cancel", asked.ids, has_reason=True)

    def one(job_id: str) -> OutcomeLine:
        job = console.client.handle(job_id)
        if (state := job.state()).is_final and state is not JobState.CANCELLED:
            # A request would outlive the end, and cancel the job once it is replayed.
            text = f"left: it is {state} already, and there is nothing to cancel"
            return OutcomeLine(of=job_id, text=text, is_done=False, path=f"/jobs/{job_id}")
        job.cancel(asked.reason)
        return OutcomeLine(of=job_id, text="cancellation requested", is_done=True)

    def carry_out() -> str:
        return _outcome_of(request, asked, "Cancellation", _each(request, asked, one))

    return led_once(request, carry_out)


def rerun(request: Request) -> Response:
    """Run jobs that have ended again, once the number has been confirmed."""
    console, asked = console_of(request), _asked(request)
    payload = _payload(form_of(request), asked.ids)
    options = _group(form_of(request), asked.ids)
    if len(asked.ids) > _MOST_RERUN:
        refuse(f"At most {_MOST_RERUN} jobs run again at a time, and {len(asked.ids)} are chosen.")
    if not asked.confirmed:
        return _confirm(request, asked, "Run again", asked.ids, has_reason=False)

    def one(job_id: str) -> OutcomeLine:
        new = console.client.jobs.rerun(job_id, payload=payload, **options)
        return OutcomeLine(
            of=job_id, text=f"runs again as {new.id}", is_done=True, path=f"/jobs/{new.id}"
        )

    def carry_out() -> str:
        return _outcome_of(request, asked, "Run again", _each(request, asked, one))

    return led_once(request, carry_out)


def _cancel_all(request: Request, asked: _Asked) -> Response:
    """Cancel all jobs that a filter selects, and that whoever confirms it has been shown."""
    console, chosen = console_of(request), job_filter(asked.wanted)
    if not asked.confirmed or not asked.ids:
        planned = console.client.jobs.cancel(chosen, dry_run=True)
        ids = [each.id for each in planned.jobs]
        note = (
            "" if planned.complete else f"These are the first {MOST_CANCELLED:,}; there are more."
        )
        return _confirm(request, asked, "Cancel", ids, has_reason=True, note=note)

    def carry_out() -> str:
        done = console.act(
            request,
            lambda: console.client.jobs.cancel(chosen, reason=asked.reason, among=asked.ids),
            changes=(),
        )
        return _outcome_of(request, asked, "Cancellation", _cancelled(done, asked))

    return led_once(request, carry_out)


def _cancelled(done: JobsCancelled, asked: _Asked) -> Sequence[OutcomeLine]:
    lines = [
        OutcomeLine(of=each.id, text="cancellation requested", is_done=True) for each in done.jobs
    ]
    requested = {each.id for each in done.jobs}
    lines += [
        OutcomeLine(of=each, text="left: the filter selects it no more", is_done=False)
        for each in asked.ids
        if each not in requested
    ]
    return lines


def _each(
    request: Request, asked: _Asked, one: Callable[[str], OutcomeLine]
) -> Sequence[OutcomeLine]:
    """Do something with each job; a fault of one doesn't keep the others from it."""
    console = console_of(request)

    def tried(job_id: str) -> OutcomeLine:
        try:
            return console.act(request, lambda: one(job_id), changes=(("job", job_id),))
        except HeadgateError as error:
            return OutcomeLine(of=job_id, text=text_of(error), is_done=False)

    return [tried(each) for each in asked.ids]


def _outcome_of(request: Request, asked: _Asked, title: str, lines: Sequence[OutcomeLine]) -> str:
    """Return the path of the one job, or of what became of all."""
    if len(lines) == 1 and lines[0].is_done and not asked.all:
        return lines[0].path or f"/jobs/{lines[0].of}"
    return console_of(request).outcomes.keep(Outcome(title=title, lines=lines, back=asked.back))


def _confirm(
    request: Request,
    asked: _Asked,
    verb: str,
    ids: Sequence[str],
    *,
    has_reason: bool,
    note: str = "",
) -> Response:
    chosen = [*([("all", "1")] if asked.all else ()), *(("id", each) for each in ids)]
    return render(
        request,
        "confirm.html",
        title=f"{verb}: {plural(len(ids), 'job')}",
        active="/jobs",
        verb=verb,
        count=len(ids),
        things=ids,
        noun="job",
        is_danger=has_reason,
        fields=[*chosen, *asked.wanted.given],
        action=str(request.url.path).removeprefix(base_of(request)),
        back=asked.back,
        has_reason=has_reason,
        longest_reason=LONGEST_REASON,
        note=note,
        at_least=bool(note),
    )


def _asked(request: Request) -> _Asked:
    form = form_of(request)
    asked = _Asked(
        ids=_ids(console_of(request), form),
        wanted=wanted_jobs(form),
        all=form.flag("all"),
        confirmed=form.flag("confirmed"),
        reason=form.text("reason", most=LONGEST_REASON),
    )
    if not asked.ids and not asked.all:
        refuse("No job is chosen: tick some in the list.")
    return asked


def _ids(console: Console, form: Fields) -> tuple[str, ...]:
    ids = form.texts("id", most=50)
    if len(ids) > MOST_CANCELLED:
        refuse(f"At most {MOST_CANCELLED:,} jobs are chosen at a time.")
    try:
        return tuple(console.client.handle(each).id for each in ids)
    except ValueError as error:
        refuse(str(error))


def _payload(form: Fields, ids: Sequence[str]) -> Any:
    """Return the payload that a form gives in place of the old one; None if it gives none."""
    if not (text := form.text("payload", most=_LONGEST_PAYLOAD)):
        return None
    if len(ids) != 1:
        refuse("A payload is given for one job at a time.")
    try:
        payload = from_json(text)
    except ValueError as error:
        refuse(f"The payload is not JSON: {error}")
    if payload is None:
        refuse("null replaces no payload: leave the field empty to keep the old one.")
    return payload


def _group(form: Fields, ids: Sequence[str]) -> SubmitOptions:
    """Return the group that a form gives for a FIFO queue, in place of the old one."""
    if not (group := form.text("group", most=_LONGEST_GROUP)):
        return {}
    if len(ids) != 1:
        refuse("A group is given for one job at a time.")
    return {"group": group}


ROUTES = [
    Route("/jobs/cancel", cancel, methods=["POST"]),
    Route("/jobs/rerun", rerun, methods=["POST"]),
]
