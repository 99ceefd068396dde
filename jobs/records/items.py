"""Items of a job's history: immutable entries in the table, one for each thing that happens to it.

    sk of an item                            written                                        by level
    submitted                                by the submitter, once SQS has it              full
    run#MESSAGE#00001#started                once a first delivery has run for a second     outcomes
    run#MESSAGE#00001#started                likewise, before it is run                     full
    run#MESSAGE#00002#started                before a later delivery is run                 failures
    run#MESSAGE#00002#failed                 before the message shows again: an attempt     failures
    run#MESSAGE#00002#crashed                by its next receiver, or a child's worker      failures
    run#MESSAGE#00002#deferred               before it shows again: no attempt was made     failures
    run#MESSAGE#00002#released               likewise, given back before it began           failures
    run#MESSAGE#00002#interrupted            likewise, after it had begun                   failures
    run#MESSAGE#00002#dead                   once it is in the dead-letter queue            failures
    run#MESSAGE#00002#quarantined            once it is in the quarantine queue             failures
    run#MESSAGE#00002#cancelled              when it was ended on request                   failures
    run#MESSAGE#00001#completed              when its handler has returned                  outcomes
    run#MESSAGE#00001#discarded              when its handler ended it                      outcomes
    run#MESSAGE#00001#dropped                when it ended without a run                    outcomes
    run#MESSAGE#00002#completed, ...         likewise, at a later delivery                  failures
    progress                                 while it runs; overwritten                     outcomes
    replayed#REPLAY                          once a replay has sent it anew                 failures

``submitted`` and ``replayed`` are in the partition ``asked#ID``, since no worker writes them, and
all others in ``job#ID``. ``outcomes`` writes what ``failures`` does, and ``full`` what ``outcomes``
does. Items of one delivery have one place each, so writing one again changes nothing, and the order
in which they are written doesn't matter. `jobs.execution.earlier_deliveries` evaluates them when
the message is delivered again. A short job's first delivery writes no ``started`` below ``full``,
so that the usual job costs one item, written in the background; nor does any first delivery where
nothing is kept of jobs that complete. So an end follows each ``started``, and one without an end
was cut off.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import asdict, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from headgate.jobs.core.naming import ASKED, JOB
from headgate.jobs.core.ports.table import AsyncTable, Item, ListLine
from headgate.jobs.core.retention import Keep, RecordsLevel
from headgate.jobs.core.topology import MAX_VISIBILITY
from headgate.jobs.messages.envelope import Envelope
from headgate.jobs.values.light_dataclass import light_dataclass

if TYPE_CHECKING:
    from headgate.jobs.core.events import JobProgress

_RANKS: Mapping[RecordsLevel, int] = {"off": 0, "failures": 1, "outcomes": 2, "full": 3}

SHARDS = 4
"""Parts of each list, chosen by job, since DynamoDB writes a list at 1,000 units a second at most.
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html"""

_SUMMARY_CHARS = 200

_NOT_OF_ITEM = {
    *("v", "id", "schema_", "payload", "payload_ref", "sealed", "submitted_at", "trace"),
    *("attempts_used", "options"),
}
"""Fields of an envelope that its item leaves out: they stand elsewhere in it, are large, or only
matter to who runs the job. All others are kept, those to come included."""

_USUAL_SOURCE = "sdk"

REPLAY_SOURCE = "replay:"
"""Prefix of a replayed job's source (`jobs.messages.envelope.Envelope.source`)."""

_RUN = "run#"
REPLAYED = "replayed"
"""The start of the places of a job's replays."""

_REPLAYED = f"{REPLAYED}#"
_OF_JOB = frozenset({"submitted", "progress", "cancel"})
"""The places of items that belong to no single delivery."""


class Mark(StrEnum):
    """A fact about one delivery."""

    STARTED = "started"
    FAILED = "failed"
    CRASHED = "crashed"
    DEFERRED = "deferred"
    RELEASED = "released"
    """It was given back before it began."""
    INTERRUPTED = "interrupted"
    """It was given back after it had begun."""
    UNRUNNABLE = "unrunnable"
    """It could not become a job where it was received; see `jobs.execution.outcome.Unrunnable`."""
    DEAD = "dead"
    QUARANTINED = "quarantined"
    COMPLETED = "completed"
    DISCARDED = "discarded"
    DROPPED = "dropped"
    """It ended without a run, for a reason of a `jobs.execution.outcome.DropKind`."""
    CANCELLED = "cancelled"


LISTS: Mapping[str, str] = {
    Mark.STARTED: "running",
    Mark.FAILED: "failed",
    Mark.CRASHED: "failed",
    Mark.DEAD: "dead",
    Mark.QUARANTINED: "quarantined",
    Mark.CANCELLED: "cancelled",
    Mark.COMPLETED: "recent",
    Mark.DISCARDED: "discarded",
    Mark.DROPPED: "dropped",
    REPLAYED: "replayed",
}
"""Lists by what happened. What ends well is listed at ``full``, after an attempt that is listed,
and if it completed where jobs are kept by count. A start stays listed once its job has ended."""

_WELL = frozenset({Mark.COMPLETED, Mark.DISCARDED, Mark.DROPPED})
"""Ends that most jobs have, so that listing each of them would double what records cost."""

_SUMMED_UP = (
    *("attempt", "error_type", "error_message", "reason", "detail", "ran_s"),
    *("queue", "tenant", "former"),
)


def keeps(level: RecordsLevel, least: RecordsLevel) -> bool:
    """Return True if a level writes all that ``least`` does."""
    return _RANKS[level] >= _RANKS[least]


def list_name(kind: str, job_type: str, shard: int) -> str:
    """Return the name of one part of a list, 0 to `SHARDS` - 1."""
    return f"{kind}#{job_type}#{shard}"


def partition(job_id: str) -> str:
    """Return the partition key of a job's items, which workers write."""
    return f"{JOB}{job_id}"


def asked_partition(job_id: str) -> str:
    """Return the partition key of what clients write about a job, who may write to no other.

    Earlier versions kept it among the job's own items.
    """
    return f"{ASKED}{job_id}"


def is_partition(pk: str) -> bool:
    """Return True if a partition key is that of a job's items."""
    return pk.startswith(JOB)


async def read_partitions(table: AsyncTable, job_id: str) -> list[Item]:
    """Return all that the table holds of a job.

    Raises:
        TransportError: the table could not be reached.
    """
    own = await table.query(partition(job_id))
    return [*own, *await table.query(asked_partition(job_id))]


def deliveries_of(message_id: str) -> str:
    """Return the prefix of the sort keys of a message's items."""
    return f"{_RUN}{message_id}#"


def is_record(sk: str) -> bool:
    """Return True if a place in a job's partition is one of its history.

    The others there are claims, which keep a job from running twice, and disappear when they
    expire.
    """
    return sk in _OF_JOB or sk.startswith((_RUN, _REPLAYED))


def delivery_of(sk: str) -> tuple[str, int] | None:
    """Return the message and the number of the delivery that an item is about, if it is one's."""
    message_id, _, rest = sk.removeprefix(_RUN).partition("#")
    number, _, _ = rest.partition("#")
    if not sk.startswith(_RUN) or not number.isdecimal():
        return None
    return message_id, int(number)


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Scribe:
    """Makes the items of one delivery."""

    job_id: str
    message_id: str
    """SQS's own id, since a job may travel in several messages."""
    receive: int
    """Number of the delivery of the message, from 1."""
    job_type: str
    queue: str
    """The queue group's name."""
    worker: str
    level: RecordsLevel
    keep: Keep
    retention: timedelta
    """The queue's: the time for which SQS keeps the message, and so may deliver it again."""
    submission: Mapping[str, Any] = field(default_factory=dict)
    """The facts about the job's submission that each item repeats; see `submission_of`."""
    goes_on: bool = False
    """True if the job was in another message before; see `jobs.messages.envelope.goes_on`."""
    has_died: bool = False
    """True if the job was dead before; see `jobs.execution.delivery.has_died`."""

    @property
    def has_past(self) -> bool:
        """True unless the delivery is its job's first."""
        return self.goes_on or self.has_died or self.receive > 1

    def mark(
        self,
        kind: Mark,
        at: datetime,
        data: Mapping[str, Any],
        *,
        receive: int | None = None,
        listed: bool = True,
    ) -> Item:
        """Return the item of one fact about the delivery.

        Args:
            kind: the fact.
            at: when; aware.
            data: more about it, as JSON values.
            receive: the number of an earlier delivery of the message, if the fact is about that.
            listed: False to leave it out of the list of such facts.
        """
        told = {**self.submission, **data}
        listed = listed and self._is_listed(kind, told)
        whole = _signed(at, self.worker, self.job_type, self.queue, told)
        return Item(
            pk=partition(self.job_id),
            sk=f"{deliveries_of(self.message_id)}{receive or self.receive:05d}#{kind}",
            data=whole,
            expires_at=at + self._lasting(kind),
            line=line_of(kind, self.job_id, at, whole) if listed else None,
        )

    def _lasting(self, kind: Mark) -> timedelta:
        done = kind in (Mark.COMPLETED, Mark.DISCARDED, Mark.DROPPED)
        if done and not self.has_past:
            return self.keep.completed or self.keep.failed
        # Earlier facts count attempts for as long as the message may be delivered again, and
        # must not outlive the outcome.
        again = self.retention + MAX_VISIBILITY
        if kind is Mark.STARTED and self.receive == 1:
            return max(self.keep.completed, again)  # or a completed job would seem to run
        failed = max(self.keep.failed, again)
        return max(self.keep.completed, failed) if done else failed

    def _is_listed(self, kind: Mark, told: Mapping[str, Any]) -> bool:
        if kind not in _WELL or self.level == "full":
            return kind in LISTS
        if kind is Mark.COMPLETED and self.keep.last is not None:
            return True
        return self.has_died or (told.get("attempt") or 1) > 1


def line_of(what: str, job_id: str, at: datetime, data: Mapping[str, Any]) -> ListLine:
    """Return the entry in the list of what has happened to a job.

    Args:
        what: one of `LISTS`.
        job_id: the job's id.
        at: when; aware.
        data: the data of its item, with the job's type.
    """
    shard = zlib.crc32(job_id.encode()) % SHARDS
    return ListLine(
        list=list_name(LISTS[what], data["type"], shard),
        place=f"{at.isoformat()}#{job_id}",
        summary={name: _brief(data[name]) for name in _SUMMED_UP if name in data},
    )


def submission_of(envelope: Envelope) -> dict[str, Any]:
    """Return what the items of a job's deliveries say of its submission.

    So each of them shows it, whether the submission itself was recorded or not.
    """
    told: dict[str, Any] = {
        "submitted_at": envelope.submitted_at.isoformat(),
        "priority": envelope.priority.value,
    }
    if (due := envelope.not_before) is not None:
        told["not_before"] = due.isoformat()
    if envelope.expires_at is not None:
        told["expires_at"] = envelope.expires_at.isoformat()
    if (tenant := envelope.tenant) is not None:
        told["tenant"] = {name: _brief(value) for name, value in asdict(tenant).items() if value}
    if envelope.source != _USUAL_SOURCE:
        told["source"] = _brief(envelope.source)
    if envelope.parent is not None:
        told["parent"] = str(envelope.parent)
    return told


def submitted_item(envelope: Envelope, keep: Keep) -> Item:
    """Return the item of a job that SQS has taken."""
    told = envelope.model_dump(mode="json", exclude=_NOT_OF_ITEM, exclude_none=True)
    return Item(
        pk=asked_partition(str(envelope.id)),
        sk="submitted",
        data={"at": envelope.submitted_at.isoformat(), **told},
        expires_at=envelope.submitted_at + max(keep.completed, keep.failed),
    )


def replayed_item(
    job_id: str,
    job_type: str,
    replay_id: str,
    *,
    replays: int,
    at: datetime,
    keep: Keep,
    former: str | None = None,
) -> Item:
    """Return the item of a dead job that a replay has sent to its queue again.

    Args:
        job_id: the job's id.
        job_type: the type that it was sent as.
        replay_id: the replay's id.
        replays: how often the job has been replayed by now.
        at: when; aware.
        keep: the retention of the job's records.
        former: the type that it died as, if that is another one.
    """
    data = {"at": at.isoformat(), "type": job_type, "replay": replay_id, "replays": replays}
    if former is not None:
        data["former"] = former
    return Item(
        pk=asked_partition(job_id),
        sk=f"{_REPLAYED}{replay_id}",
        data=data,
        expires_at=at + keep.failed,
        line=line_of(REPLAYED, job_id, at, data),
    )


def progress_words(event: JobProgress) -> dict[str, Any]:
    """Return what the handler has said of its job's progress, besides its percentage."""
    return {"note": event.note, "data": event.data}


def progress_item(event: JobProgress, words: Mapping[str, Any], *, worker: str, keep: Keep) -> Item:
    """Return the item of a job's progress; each replaces the one before.

    Args:
        event: the progress.
        words: its `progress_words`, or what stands for them.
        worker: the worker's name.
        keep: the retention of the job's records.
    """
    told = {"attempt": event.attempt, "percent": event.percent, **words}
    return Item(
        pk=partition(event.job_id),
        sk="progress",
        data=_signed(event.at, worker, event.job_type, event.queue, told),
        expires_at=event.at + keep.failed,
    )


def _signed(
    at: datetime, worker: str, job_type: str, queue: str, data: Mapping[str, Any]
) -> dict[str, Any]:
    return {"at": at.isoformat(), "worker": worker, "type": job_type, "queue": queue, **data}


def _brief(value: Any) -> Any:
    return value[:_SUMMARY_CHARS] if isinstance(value, str) else value
