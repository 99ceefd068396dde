"""The rules of waiting for a job and its result. Pure, and shared by both kinds of handles."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.retention import RecordsLevel
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.definitions.policies import keep_of, records_of
from headgate.jobs.errors import (
    JobCancelled,
    JobDead,
    JobDiscarded,
    JobDropped,
    JobTypeWrong,
    PayloadLost,
    PayloadUnopenable,
    RecordsOff,
    ResultInvalid,
    ResultTimeout,
)
from headgate.jobs.messages.envelope import PayloadRef
from headgate.jobs.messages.job_options import JobKeep
from headgate.jobs.messages.large_payloads import LARGEST, unpacked
from headgate.jobs.records.history import JobRecord
from headgate.jobs.records.items import keeps
from headgate.jobs.records.result_keys import is_result_key
from headgate.jobs.records.state import JobState
from headgate.jobs.retry.backoff import Backoff
from headgate.jobs.values.durations import Duration, duration

_PAUSES = Backoff.exponential(base=0.2, factor=1.5, cap=5, jitter=0.2)
_LONGEST_AFTER = 12
"""Number of lookups after which the pauses grow no more."""

_UNWORKED = "a harness runs jobs in drain() alone: call it before you wait for them"


class LookupPacing:
    """The pauses between two lookups of a job, and the timeout.

    The first pause is 0.2 s, and each is half as long again as the one before, up to 5 s: a job of
    a second costs five reads, one of a minute twenty. A fifth of each pause is random, so that many
    waiters spread.

    Args:
        job_id: the job that is waited for.
        timeout: the timeout; None waits for ever.
        clock: tells the time.
        rng: spreads the lookups.
        unworked_wait_s: seconds after which a wait without a timeout is given up; see `Ports`.

    Raises:
        SettingsInvalid: the timeout is no duration.
    """

    def __init__(
        self,
        job_id: str,
        timeout: Duration | None,
        *,
        clock: Clock,
        rng: random.Random,
        unworked_wait_s: float | None = None,
    ) -> None:
        self._job_id = job_id
        own_s = None if timeout is None else duration("timeout", timeout).total_seconds()
        self._timeout_s = unworked_wait_s if own_s is None else own_s
        self._hint = "" if unworked_wait_s is None else _UNWORKED
        self._clock = clock
        self._rng = rng
        self._began = clock.monotonic()
        self._looks = 0

    def pause_s(self, seen: JobState) -> float:
        """Return the seconds before the next lookup; the last lookup is at the timeout.

        Raises:
            ResultTimeout: the last lookup has been made.
        """
        self._looks += 1
        pause_s = _PAUSES.delay_s(min(self._looks, _LONGEST_AFTER), self._rng)
        if self._timeout_s is None:
            return pause_s
        left_s = self._began + self._timeout_s - self._clock.monotonic()
        if left_s <= 0:
            raise ResultTimeout(
                self._job_id, state=seen, timeout_s=self._timeout_s, hint=self._hint
            )
        return min(pause_s, left_s)


def result_of(record: JobRecord, declared: JobType[Any, Any] | None) -> Any:
    """Return the result of a job in a final state.

    Args:
        record: the job's record.
        declared: its type, whose return annotation converts the JSON values; None leaves them as
            they are.

    Raises:
        JobDead, JobDiscarded, JobDropped, JobCancelled: it has no result.
        ResultInvalid: the kept result doesn't fit the handler's return annotation.
    """
    match record.state:
        case JobState.DISCARDED:
            raise JobDiscarded(record.id, record.reason)
        case JobState.DROPPED:
            raise JobDropped(record.id, kind=record.drop_kind, reason=record.reason)
        case JobState.CANCELLED:
            raise JobCancelled(record.id, record.reason)
        case JobState.DEAD | JobState.QUARANTINED:
            is_dead = record.state is JobState.DEAD
            raise JobDead(
                record.id,
                reason=record.reason if is_dead else JobState.QUARANTINED,
                error_type=record.error_type,
                error_message=record.error_message if is_dead else record.reason,
            )
    if record.result_fault:
        raise ResultInvalid(record.id, f"the job {record.id} has completed: {record.result_fault}")
    if declared is None:
        return record.result
    try:
        return declared.load_result(record.result)
    except ValueError as error:
        kept = "" if record.has_result else "; none was kept"
        raise ResultInvalid(
            record.id, f"the job {record.id} has completed: {error}{kept}"
        ) from None


def check_type(record: JobRecord, declared: JobType[Any, Any] | None) -> None:
    """Check that a record is that of the job that is asked for, whatever else has its id.

    Raises:
        JobTypeWrong: only jobs of other types are known by the id; or those of several types are,
            and none is asked for.
    """
    others = ", ".join(map(repr, record.other_types))
    if not others:
        return
    if declared is None:
        raise JobTypeWrong(
            record.id,
            f"jobs of several types have the id {record.id}: {record.type!r}, {others}. Name "
            "the type: client.handle(id, job_type)",
            found=[record.type or "", *record.other_types],
        )
    if not record.timeline:
        raise JobTypeWrong(
            record.id,
            f"the job {record.id} is of the type {others}, not of {declared.name!r}",
            found=record.other_types,
        )


def check_result_ref(record: JobRecord, ref: PayloadRef) -> None:
    """Check that a record's large result is its own job's, and no larger than results are.

    Raises:
        ResultInvalid: its address is not where the job's result can be, or it is too large.
    """
    if ref.size > LARGEST:
        raise ResultInvalid(
            record.id,
            f"the job {record.id} has completed; its record names a result of {ref.size:,} bytes, "
            f"and at most {LARGEST:,} are read",
        )
    if not is_result_key(ref.key, record.id, record.type):
        raise ResultInvalid(
            record.id,
            f"the job {record.id} has completed; its record names an object that is not its "
            f"result: {ref.key[:200]!r}",
        )


def with_result(record: JobRecord, ref: PayloadRef, content: bytes | None) -> JobRecord:
    """Return a record with the result from an object's content, which is None if there is none.

    Raises:
        ResultInvalid: the object is gone, or damaged.
    """
    with reading_result(record):
        return replace(record, result=unpacked(ref, content), result_ref=None)


@contextmanager
def reading_result(record: JobRecord) -> Iterator[None]:
    """Translate the loss of a large or sealed result.

    Raises:
        ResultInvalid: in place of a `PayloadLost` or a `PayloadUnopenable`.
    """
    try:
        yield
    except (PayloadLost, PayloadUnopenable) as error:
        raise ResultInvalid(
            record.id, f"the job {record.id} has completed; its result can't be read: {error}"
        ) from error


def keeps_outcomes(
    app: App, declared: JobType[Any, Any] | None, own: JobKeep | None = None
) -> bool:
    """Return True if a job's completion and its result are kept.

    Args:
        app: gives the defaults for its types.
        declared: the job's type; None if it is unknown.
        own: the retention that the job's submission has set; None leaves it to the type.
    """
    keep = app.keep if declared is None else keep_of(app, declared)
    if own is not None:
        keep = own.over(keep)
    return bool(keep.completed) and keeps(_level(app, declared), "outcomes")


def require_records(app: App, declared: JobType[Any, Any] | None, job_id: str) -> None:
    """Check that records are kept of a job.

    Raises:
        RecordsOff: none are kept.
    """
    if _level(app, declared) == "off":
        raise RecordsOff(
            job_id,
            f"nothing is known of the job {job_id}, since {_who(app, declared)} keeps no records: "
            "declare it with records='outcomes'",
        )


def require_outcomes(
    app: App, declared: JobType[Any, Any] | None, job_id: str, own: JobKeep | None = None
) -> None:
    """Check that a job's completion and its result are kept.

    Raises:
        RecordsOff: they are not kept.
    """
    require_records(app, declared, job_id)
    if not keeps_outcomes(app, declared, own):
        raise RecordsOff(
            job_id,
            f"the job {job_id} can't be waited for: {_who(app, declared)}, at "
            f"records={_level(app, declared)!r}, keeps no records of completed jobs. Declare it "
            "with records='outcomes', and without keep=0",
        )


def _level(app: App, declared: JobType[Any, Any] | None) -> RecordsLevel:
    return app.records if declared is None else records_of(app, declared)


def _who(app: App, declared: JobType[Any, Any] | None) -> str:
    return f"the app {app.name!r}" if declared is None else f"the type {declared.name!r}"


def longest_in_queue(app: App) -> timedelta:
    """Return the longest time for which a queue of the app may hold a job."""
    return max((queue.retention for queue in app.topology.queues), default=timedelta(0))
