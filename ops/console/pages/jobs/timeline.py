"""A job's life as bars on one line, to scale: what it waited, ran and backed off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from headgate.jobs.records.history import AttemptRecord, JobRecord
from headgate.jobs.records.state import JobState
from headgate.jobs.values.light_dataclass import light_dataclass

WIDTH = 1000.0
"""Units of the whole line."""

_NARROWEST = 3.0
"""Units of the narrowest bar, so that a run of milliseconds within a day of waiting is seen."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A part of a job's life."""

    kind: str
    """``delayed``, ``waited``, ``backed-off``, or an attempt's outcome: ``completed``, ``failed``,
    ``crashed``, ``cancelled``, ``discarded`` or ``running``."""
    begin: datetime
    end: datetime
    attempt: int | None = None

    @property
    def length(self) -> timedelta:
        """Its length of time."""
        return self.end - self.begin


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A span on the line."""

    span: Span
    x: float
    width: float


@light_dataclass(frozen=True, slots=True, kw_only=True)
class JobTimeline:
    """A job's life."""

    bars: Sequence[Bar]
    begin: datetime
    end: datetime

    @property
    def length(self) -> timedelta:
        """The whole of it."""
        return self.end - self.begin

    @property
    def kinds(self) -> Sequence[str]:
        """The kinds of its spans, in the order in which they first come."""
        return list(dict.fromkeys(each.span.kind for each in self.bars))


def timeline(record: JobRecord, now: datetime) -> JobTimeline | None:
    """Return a job's life so far, and until its next attempt; None if no time of it is known."""
    spans = [each for each in _spans(record, now) if each.length > timedelta(0) or each.attempt]
    if not spans:
        return None
    begin, end = spans[0].begin, max(each.end for each in spans)
    whole_s = max((end - begin).total_seconds(), 1e-6)
    bars = [_bar(each, begin, whole_s) for each in spans]
    return JobTimeline(bars=bars, begin=begin, end=end)


def _bar(span: Span, begin: datetime, whole_s: float) -> Bar:
    width = max(_NARROWEST, WIDTH * span.length.total_seconds() / whole_s)
    x = WIDTH * (span.begin - begin).total_seconds() / whole_s
    return Bar(span=span, x=max(0.0, min(x, WIDTH - width)), width=min(width, WIDTH))


def _spans(record: JobRecord, now: datetime) -> Iterator[Span]:
    attempts = [each for each in record.attempts if _begin(each) is not None]
    at = record.submitted_at or (_begin(attempts[0]) if attempts else None)
    if at is None:
        return
    if record.not_before is not None and record.not_before > at:
        due = record.not_before
        yield Span(kind="delayed", begin=at, end=due)
        at = due
    before: AttemptRecord | None = None
    for each in attempts:
        begin = max(_begin(each) or at, at)
        yield from _gap(at, begin, before)
        end = max(each.ended_at or (now if each.outcome is None else begin), begin)
        yield Span(kind=each.outcome or "running", begin=begin, end=end, attempt=each.number)
        at, before = end, each
    yield from _rest(record, at, before, now)


def _rest(
    record: JobRecord, at: datetime, before: AttemptRecord | None, now: datetime
) -> Iterator[Span]:
    """Yield what comes after the last attempt."""
    if record.state.is_final:
        end = record.finished_at or at
    elif record.state is JobState.RETRYING and before is not None and before.retry_in_s:
        end = max(now, at + timedelta(seconds=before.retry_in_s))
    elif before is not None and before.outcome is None:
        return  # it runs
    else:
        end = now
    yield from _gap(at, end, before)


def _gap(begin: datetime, end: datetime, before: AttemptRecord | None) -> Iterator[Span]:
    """Yield what lies between two attempts: the backoff that was planned, and the wait after it."""
    if end <= begin:
        return
    if before is not None and before.retry_in_s:
        due = min(end, begin + timedelta(seconds=before.retry_in_s))
        yield Span(kind="backed-off", begin=begin, end=due)
        begin = due
    if end > begin:
        yield Span(kind="waited", begin=begin, end=end)


def _begin(attempt: AttemptRecord) -> datetime | None:
    return attempt.started_at or attempt.ended_at
