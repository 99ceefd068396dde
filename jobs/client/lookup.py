"""The look-ups behind the handles of a client's jobs.

Records are interpreted in `jobs.records.history` and `jobs.client.waiting`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from headgate.jobs.client.sealed_records import opened_record, with_opened_result
from headgate.jobs.client.services import ClientServices
from headgate.jobs.client.waiting import (
    LookupPacing,
    check_result_ref,
    check_type,
    longest_in_queue,
    reading_result,
    require_outcomes,
    require_records,
    result_of,
    with_result,
)
from headgate.jobs.core.ports.table import Item
from headgate.jobs.core.topology import MAX_VISIBILITY
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.definitions.policies import job_keep_of, records_of
from headgate.jobs.errors import MessageSchemaNewer, MessageUnreadable, Throttled, TransportError
from headgate.jobs.messages.envelope import parse
from headgate.jobs.messages.job_options import JobKeep
from headgate.jobs.messages.large_payloads import max_packed
from headgate.jobs.records.audit.entry import AuditAction
from headgate.jobs.records.history import JobRecord, read_job
from headgate.jobs.records.items import read_partitions
from headgate.jobs.records.state import JobState
from headgate.jobs.records.writes import put_patiently
from headgate.jobs.values.durations import Duration
from headgate.jobs.values.light_dataclass import light_dataclass

if TYPE_CHECKING:
    from headgate.jobs.schedules.delayed_job import DelayedJob
    from headgate.jobs.schedules.delayed_jobs import DelayedJobs

R = TypeVar("R")
T = TypeVar("T")


@light_dataclass(frozen=True, slots=True)
class Lookup:
    """The `jobs.handles.handle.JobLookup` behind the handles of one client's jobs."""

    services: ClientServices
    delayed: Callable[[], DelayedJobs | None]
    """Returns the jobs that wait in one-time schedules; None if the app uses none."""

    async def opened(
        self, job_id: str, declared: JobType[Any, Any] | None, keep: JobKeep | None
    ) -> JobRecord:
        """`JobHandle.history`."""
        return await opened_record(self.services.seals, await self.history(job_id, declared, keep))

    async def history(
        self, job_id: str, declared: JobType[Any, Any] | None, keep: JobKeep | None = None
    ) -> JobRecord:
        """Return a job's record, in which sealed values stay sealed; ``keep`` is the retention that
        its submission has set, as far as that is known."""
        record = await self.recorded(job_id, declared)
        if record.state is not JobState.UNKNOWN:
            return record
        due, unasked = await self._due(job_id)
        record = self._inferred(record, declared, keep, due)
        if not unasked:
            return record
        return replace(record, explanation=f"{record.explanation}; {unasked}")

    def _inferred(
        self,
        record: JobRecord,
        declared: JobType[Any, Any] | None,
        keep: JobKeep | None,
        due: datetime | None = None,
    ) -> JobRecord:
        from headgate.jobs.client.inference import inferred  # few who submit look up at once

        now = self.services.clock.now()
        return inferred(self.services.app, record, declared, now=now, due=due, keep=keep)

    async def _due(self, job_id: str) -> tuple[datetime | None, str]:
        """Return until when a schedule holds a job, or None; and why that could not be asked."""
        if (delayed := self.delayed()) is None:
            return None, ""
        try:
            return await delayed.due(job_id), ""
        except TransportError as error:  # must not keep what the table tells from being shown
            return None, f"whether a schedule holds it could not be asked: {error}"

    async def recorded(self, job_id: str, declared: JobType[Any, Any] | None) -> JobRecord:
        """Return what the table tells of a job; nothing is inferred."""
        require_records(self.services.app, declared, job_id)
        items = await read_partitions(self.services.table, job_id)
        name = declared.name if declared is not None else None
        return read_job(job_id, items, name, now=self.services.clock.now())

    async def finished(
        self,
        job_id: str,
        declared: JobType[Any, Any] | None,
        within: Duration | None,
        keep: JobKeep | None,
    ) -> JobRecord:
        """Return the record of a job once it is in a final state; raises as `JobHandle.wait`."""
        patience = LookupPacing(
            job_id,
            within,
            clock=self.services.clock,
            rng=self.services.rng,
            unworked_wait_s=self.services.unworked_wait_s,
        )
        while True:
            record = await self.recorded(job_id, declared)
            check_type(record, declared)
            if record.state.is_final:
                return record
            require_outcomes(self.services.app, declared, job_id, keep)
            seen = self._inferred(record, declared, keep)
            await self.services.sleep(patience.pause_s(seen.state))

    async def result(
        self,
        job_id: str,
        declared: JobType[Any, R] | None,
        within: Duration | None,
        keep: JobKeep | None,
    ) -> R:
        """`JobHandle.result`."""
        record = await self.finished(job_id, declared, within, keep)
        if (ref := record.result_ref) is None:
            return self._result_of(declared, await self._open(record))
        check_result_ref(record, ref)
        with reading_result(record):
            content = await self.services.store.get(ref.key, max_bytes=max_packed(ref))
        whole = await self._open(
            await self.services.concurrency.aside(lambda: with_result(record, ref, content))
        )
        return await self.services.concurrency.aside(lambda: self._result_of(declared, whole))

    async def _open(self, record: JobRecord) -> JobRecord:
        with reading_result(record):
            return await with_opened_result(self.services.seals, record)

    async def cancel(self, job_id: str, declared: JobType[Any, Any] | None, reason: str) -> None:
        """`JobHandle.cancel`."""
        from headgate.jobs.records.cancellation import check_reason  # few clients cancel

        check_reason(reason)
        state = (await self.recorded(job_id, declared)).state
        if state.is_final and state is not JobState.CANCELLED:
            return  # a request would outlive the end, and cancel the job once it is replayed
        async with self.services.auditor.action(AuditAction.CANCEL, "job", job_id, reason=reason):
            await self.request_cancellation(job_id, declared, reason)

    async def request_cancellation(
        self, job_id: str, declared: JobType[Any, Any] | None, reason: str
    ) -> None:
        """Request what has been entered into the audit; raises as `JobHandle.cancel`."""
        from headgate.jobs.records.cancellation import cancellation  # likewise

        require_records(self.services.app, declared, job_id)
        useful = longest_in_queue(self.services.app)
        at = self.services.clock.now()
        of = declared.name if declared is not None else None
        actor = self.services.auditor.actor
        for item in cancellation(job_id, reason, at, useful=useful, job_type=of, actor=actor):
            if not await self._is_put(item):
                raise Throttled(
                    f"the cancellation of the job {job_id} was not written: the table is too busy. "
                    "Ask again"
                )
        if (delayed := self.delayed()) is not None:
            await self.withdraw(delayed, job_id, of, reason)

    async def withdraw(
        self, delayed: DelayedJobs, job_id: str, job_type: str | None = None, reason: str = ""
    ) -> bool:
        """Cancel a job that waits in a one-time schedule, and record its end if its type has
        records; return True if the job will not be sent."""
        if (held := await delayed.cancel(job_id, job_type)) is None:
            return False
        end = _end_of(self.services.app, held, reason, self.services.clock.now())
        if end is not None and not await self._is_put(end):
            raise Throttled(
                f"the job {job_id} was cancelled and will not be sent, but its records don't say "
                "so: the table is too busy"
            )
        return True

    async def _is_put(self, item: Item) -> bool:
        # Alone, since a batch takes a permission that deletes as well.
        services = self.services
        return not await put_patiently(
            services.table, [item], sleep=services.sleep, rng=services.rng
        )

    def _result_of(self, declared: JobType[Any, R] | None, record: JobRecord) -> R:
        result: R = result_of(record, declared or self.services.app.types.get(record.type or ""))
        return result


def _end_of(app: App, held: DelayedJob, reason: str, at: datetime) -> Item | None:
    """Return the record of a job whose schedule was deleted; None if its type has no records."""
    from headgate.jobs.records.cancellation import never_sent  # few clients cancel

    declared = app.types.get(held.type)
    if (app.records if declared is None else records_of(app, declared)) == "off":
        return None
    try:
        envelope = parse(held.body)
    except (MessageUnreadable, MessageSchemaNewer):
        envelope = None  # the schedule itself names the job and its type
    keep = app.keep if declared is None else job_keep_of(app, declared, envelope)
    lasts = max(keep.failed, longest_in_queue(app) + MAX_VISIBILITY)
    return never_sent(held.job_id, held.type, reason, at, envelope=envelope, lasts=lasts)
