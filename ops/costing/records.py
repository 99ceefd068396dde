"""Requests to DynamoDB: records of jobs, claims, leases, and checks for cancellations.

    a job that                        items, by level
    completes at once                 1 outcomes, 3 full (submitted, started, completed)
    takes longer than a second        1 more (started) at outcomes
    each attempt that fails           1, of two units, and one of the index
    each later attempt                1 (started), and a read
    dies                              1, and one of the index
    completes at a later attempt      1, also where jobs that complete at once write nothing
    has a parent                      1, in the list of its parent's children

A batch of 25 items is billed as 25 items. Deletion of expired items is free of charge.
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/read-write-operations.html
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

from headgate.jobs.core.retention import Keep, RecordsLevel
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.policies import keep_of, keeps_records, records_of
from headgate.jobs.execution.calling.claimed_call import RENEWALS
from headgate.jobs.execution.calling.claims import LEASED_OF_VISIBILITY
from headgate.jobs.records.cancellations import POLL_S
from headgate.jobs.records.fleet.worker_status import EVERY_S, MOST_RUNNING
from headgate.jobs.records.items import keeps
from headgate.jobs.records.late_starts import AFTER_S
from headgate.jobs.records.lives import RENEW_S as BEAT_S
from headgate.jobs.records.results import MAX_RESULT_BYTES
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.ops.costing.bill import Charge
from headgate.ops.costing.fleet import Crew, Fleet
from headgate.ops.costing.load import Load, Stream
from headgate.ops.prices import MONTH_S, READS, RECOVERABLE, STORED, WRITES
from headgate.workers.limits.app_limits import all_limits
from headgate.workers.limits.lease import RENEW_S

SUBMITTED_BYTES, STARTED_BYTES, COMPLETED_BYTES, CHILD_BYTES = 300, 450, 500, 230
FAILED_BYTES, DEAD_BYTES = 1600, 800
"""Sizes of the items of a failure (with a traceback of a kilobyte) and of a dead job; tests compare
them with real ones."""

LIFE_BYTES = 200
"""Size of a worker's heartbeat item."""

STATUS_BYTES, RUNNING_BYTES = 460, 140
"""Size of a worker's status without running jobs, and with each of them the more."""

INDEXED_BYTES = 500
"""Size of an entry in the index."""

OVERHEAD_BYTES = 100
"""Bytes that DynamoDB stores in addition to each item.
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html"""

_WRITTEN, _READ, _GB = 1024, 4096, 2**30


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Average use of the table by one job."""

    writes: float = 0.0
    """Write request units."""
    reads: float = 0.0
    """Read request units."""
    byte_s: float = 0.0
    """Bytes stored, times the seconds that each is stored."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            writes=self.writes + other.writes,
            reads=self.reads + other.reads,
            byte_s=self.byte_s + other.byte_s,
        )

    def __mul__(self, times: float) -> Usage:
        return Usage(
            writes=self.writes * times, reads=self.reads * times, byte_s=self.byte_s * times
        )


NOTHING = Usage()
_READ_ONCE = Usage(reads=1)


def charges(app: App, fleet: Fleet, load: Load) -> Iterator[Charge]:
    """Yield a month's charges for DynamoDB."""
    for stream in fleet.streams:
        yield from _charged(of_job(app, stream, fleet, load) * stream.jobs, stream.job.name)
    yield from _charged(at_all_times(app, fleet), None)


def of_job(app: App, stream: Stream, fleet: Fleet, load: Load) -> Usage:
    """Return the average usage of one job of a type."""
    level, keep = records_of(app, stream.job), keep_of(app, stream.job)
    long = fleet.run_s[stream.job.name] > AFTER_S
    used = _records(stream, level, keep, load, long=long) if level != "off" else NOTHING
    used += _claims(stream, fleet) + _unique(stream)
    if keeps(level, "outcomes") and keep.completed and stream.jobs:
        children = load.children * stream.submitted / stream.jobs
        used += put(CHILD_BYTES, max(keep.completed, keep.failed)) * children
    by_bridge = (stream.fired + stream.delayed) / stream.jobs if stream.jobs else 0.0
    return used + put(100, timedelta(days=2)) * 2 * by_bridge  # two items: to be sent, and sent


def at_all_times(app: App, fleet: Fleet) -> Usage:
    """Return the workers' usage independent of jobs.

    It consists of checks for cancellations every few seconds, heartbeats with a look at the
    other workers', what workers show of themselves, and leases of limits.
    """
    processes = sum(crew.processes for crew in fleet.crews)
    looks = MONTH_S / POLL_S if keeps_records(app) else 0.0
    beats = MONTH_S / BEAT_S if keeps_records(app) else 0.0
    lives = Usage(writes=beats, reads=beats * math.ceil(processes * LIFE_BYTES / _READ))
    leased = sum(
        limit is not None and limit.scope == "fleet"
        for limits in all_limits(app)
        for limit in (limits.rate_limit, limits.concurrency, limits.retry_budget)
    )
    # With several processes the first try mostly finds what the others have written since.
    tries = 2 if processes > 1 else 1
    renewals = MONTH_S / RENEW_S * leased * tries
    each = Usage(reads=looks) + Usage(writes=renewals) + lives
    statuses = sum(map(_status_writes, fleet.crews)) if keeps_records(app) else 0.0
    return each * processes + Usage(writes=statuses)


def _status_writes(crew: Crew) -> float:
    """Return the write units of the statuses of a group's workers, with the jobs that run."""
    if not crew.processes:
        return 0.0
    busy = min(MOST_RUNNING, sum(crew.busy_s.values()) / MONTH_S / crew.processes)
    units = math.ceil((STATUS_BYTES + RUNNING_BYTES * busy) / _WRITTEN)
    return MONTH_S / EVERY_S * units * crew.processes


def put(size: int, kept: timedelta, *, indexed: bool = False) -> Usage:
    """Return the usage of writing a new item of ``size`` bytes that expires after ``kept``."""
    alone = Usage(
        writes=math.ceil(size / _WRITTEN), byte_s=(size + OVERHEAD_BYTES) * kept.total_seconds()
    )
    return alone + put(INDEXED_BYTES, kept) if indexed else alone


def _records(stream: Stream, level: RecordsLevel, keep: Keep, load: Load, *, long: bool) -> Usage:
    failures = stream.failures / stream.jobs if stream.jobs else 0.0
    failed = put(FAILED_BYTES, keep.failed, indexed=True) * failures
    later = (put(STARTED_BYTES, keep.failed, indexed=True) + _READ_ONCE) * (stream.attempts - 1)
    dead = put(DEAD_BYTES, keep.failed, indexed=True) * stream.dead
    ended = _ended(stream, level, keep, load)
    return failed + later + dead + ended + _begun(level, keep, long=long)


def _begun(level: RecordsLevel, keep: Keep, *, long: bool) -> Usage:
    """Return the usage of a submission and a first start; below ``full``, of a long job's start."""
    listed = NOTHING
    if long and keeps(level, "outcomes") and keep.completed:
        listed = put(STARTED_BYTES, keep.failed, indexed=True)
    if keeps(level, "full"):
        submitted = put(SUBMITTED_BYTES, max(keep.completed, keep.failed))
        at_once = replace(put(STARTED_BYTES, keep.failed), byte_s=0.0) if long else NOTHING
        return submitted + (listed + at_once if long else put(STARTED_BYTES, keep.failed))
    return listed


def _ended(stream: Stream, level: RecordsLevel, keep: Keep, load: Load) -> Usage:
    # A job that completes at a later attempt is listed, as its failures were.
    retried = max(0.0, min(1.0, stream.attempts - 1) - stream.dead)
    if keeps(level, "outcomes") and keep.completed:
        completed = _completed(stream, level, keep, load) * (1 - stream.dead)
        listed = put(INDEXED_BYTES, keep.failed) * retried
        return completed if _is_listed(level, keep) else completed + listed
    # One that completes at its first attempt writes nothing; an end follows each later start.
    return put(COMPLETED_BYTES, keep.failed, indexed=True) * retried


def _completed(stream: Stream, level: RecordsLevel, keep: Keep, load: Load) -> Usage:
    size = COMPLETED_BYTES + _result_bytes(stream, load)
    item = put(size, keep.completed, indexed=_is_listed(level, keep))
    if keep.last is None:
        return item
    # Records beyond the limit are read, and deleted from the table and the index.
    soon = replace(item, byte_s=0.0)
    return soon + Usage(reads=math.ceil(size / _READ)) + Usage(writes=soon.writes)


def _is_listed(level: RecordsLevel, keep: Keep) -> bool:
    """Return True if every completed job is listed."""
    return keeps(level, "full") or keep.last is not None


def _result_bytes(stream: Stream, load: Load) -> int:
    if stream.job.returns in (None, type(None)) or load.result_bytes > MAX_RESULT_BYTES:
        return 0
    return load.result_bytes


def _claims(stream: Stream, fleet: Fleet) -> Usage:
    """Return the usage of ``once=True``: a claim, renewals, and completion or release.

    A claim is renewed at a third of the lease. A later attempt is refused at first, which is
    billed too: the worker doesn't know the claim's state.
    """
    if not stream.job.once:
        return NOTHING
    lease_s = stream.queue.visibility_s * LEASED_OF_VISIBILITY
    renewals = fleet.run_s[stream.job.name] // (lease_s / RENEWALS)
    claimed = put(300, stream.queue.retention)
    writes = 2 + 3 * (stream.attempts - 1) + stream.attempts * renewals
    return replace(claimed, writes=writes)


def _unique(stream: Stream) -> Usage:
    unique = stream.job.unique
    if unique is None:
        return NOTHING
    kept = put(200, unique.within)
    if unique.keep == "last":
        return kept + _READ_ONCE * (1 + stream.attempts)
    return kept + Usage(writes=1)


def _charged(used: Usage, job_type: str | None) -> Iterator[Charge]:
    stored_gb = used.byte_s / MONTH_S / _GB
    yield Charge(price=WRITES, units=used.writes, job_type=job_type)
    yield Charge(price=READS, units=used.reads, job_type=job_type)
    yield Charge(price=STORED, units=stored_gb, job_type=job_type)
    yield Charge(price=RECOVERABLE, units=stored_gb, job_type=job_type)
