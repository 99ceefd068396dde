"""Checks of the options of one submission, as `SubmitOptions` declares them.

All refusals name the job's type and say what to write.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from headgate.jobs.core.limits import COST_HINT
from headgate.jobs.core.retention import Keep
from headgate.jobs.core.tenant import Tenant
from headgate.jobs.core.topology import (
    MAX_DELAY,
    MAX_VISIBILITY,
    Priority,
    PriorityName,
    QueueSpec,
    Topology,
    how_to_have,
)
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.definitions.options.job_options import LONGEST_EXPIRY, LONGEST_TIMEOUT
from headgate.jobs.definitions.options.submit_options import SubmitOptions
from headgate.jobs.definitions.options.uniqueness import Unique
from headgate.jobs.definitions.policies import uses_claims
from headgate.jobs.errors import (
    CostInvalid,
    DelayInvalid,
    OptionInvalid,
    UnknownQueue,
    did_you_mean,
)
from headgate.jobs.messages.envelope import Envelope, Options, UniqueBy
from headgate.jobs.messages.job_options import (
    LONGEST_KEPT,
    ExponentialBackoff,
    JobKeep,
    StepsBackoff,
    job_backoff,
)
from headgate.jobs.messages.outgoing import is_group_id
from headgate.jobs.retry.backoff import Backoff
from headgate.jobs.submission.set_order import in_order
from headgate.jobs.submission.unique_keys import unique_by
from headgate.jobs.values.durations import Duration, duration
from headgate.jobs.values.json_values import is_utf8
from headgate.jobs.values.texts import text_of, type_of


def check_names(job: JobType[Any, Any], overrides: SubmitOptions) -> None:
    """Refuse options that no submission has."""
    known = SubmitOptions.__annotations__
    for name in overrides:
        if name == "retry":
            raise OptionInvalid(
                f"{job.name!r}: which errors are retried is up to the job's type, so a submission "
                "has no option 'retry': write max_attempts=... and backoff=..."
            )
        if name not in known:
            hint = COST_HINT if name == "cost" else did_you_mean(name, known)
            raise OptionInvalid(f"{job.name!r}: a submission has no option {name!r}: {hint}")


def queue_of(
    job: JobType[Any, Any], topology: Topology, wanted: Priority | PriorityName | None
) -> QueueSpec:
    """Return the queue of the job's group for the wanted priority, or for the type's own."""
    try:
        return topology.queue(job.queue, _priority(job, wanted))
    except UnknownQueue as error:
        told = f"{job.name!r}: {error}"
        if wanted is not None:
            told += f". {how_to_have(wanted)}"
        raise UnknownQueue(told) from error


def _priority(job: JobType[Any, Any], wanted: Priority | PriorityName | None) -> Priority:
    try:
        return job.priority if wanted is None else Priority(wanted)
    except ValueError as error:
        raise OptionInvalid(
            f"{job.name!r}: {wanted!r} is not a priority; there are {', '.join(Priority)}"
        ) from error


def due_time(
    app: App, job: JobType[Any, Any], overrides: SubmitOptions, queue: QueueSpec, now: datetime
) -> datetime | None:
    """Return the time at which the job is due; None for at once."""
    delay, at = overrides.get("delay"), overrides.get("at")
    if delay is not None and at is not None:
        raise DelayInvalid(f"{job.name!r}: give delay or at, not both")
    if at is not None:
        delay = _until(job, at, now)
    if delay is None:
        return None
    delay = duration(f"{job.name!r}: delay", delay, error=DelayInvalid)
    if not app.long_delays and (delay > MAX_DELAY or (delay and queue.fifo)):
        raise DelayInvalid(
            f"{job.name!r}: a delay of {delay} on {queue.name!r} takes a one-time schedule, since "
            f"SQS itself delays by {MAX_DELAY} at most, and no single message of a FIFO queue; the "
            f"app {app.name!r} is declared with long_delays=False"
        )
    try:
        # Rounded up, so that it never runs early.
        return now + timedelta(seconds=math.ceil(delay.total_seconds())) if delay else None
    except OverflowError as error:
        raise DelayInvalid(f"{job.name!r}: a delay of {delay} ends after the year 9999") from error


def expiry(job: JobType[Any, Any], overrides: SubmitOptions, due: datetime) -> datetime | None:
    """Return the time by which a job that is due then has to start; None for any time."""
    expires = overrides.get("expires")
    if expires is None:
        expires = job.expires
    if expires is None:
        return None
    where = f"{job.name!r}: expires"
    if isinstance(expires, datetime):
        return _expiry_at(where, expires, due)
    length = duration(where, expires, positive=True, error=OptionInvalid)
    if length > LONGEST_EXPIRY:
        raise OptionInvalid(f"{where} must be at most {LONGEST_EXPIRY.days} days, got {length}")
    try:
        return due + length
    except OverflowError as error:
        raise OptionInvalid(f"{where} ends after the year 9999") from error


def _expiry_at(where: str, expires: datetime, due: datetime) -> datetime:
    if expires.utcoffset() is None:
        raise OptionInvalid(
            f"{where}={expires.isoformat()} has no time zone: write datetime(..., tzinfo=UTC)"
        )
    if expires <= due:
        raise OptionInvalid(
            f"{where}={expires.isoformat()} is not after {due.isoformat()}, when the job is due, "
            "so that it could never run: write a later time, or a shorter delay"
        )
    return expires


def delay_by_sqs(queue: QueueSpec, not_before: datetime | None, now: datetime) -> int:
    """Return the seconds that SQS itself delays; 0 also if a one-time schedule holds the job."""
    if not_before is None or queue.fifo or not_before - now > MAX_DELAY:
        return 0
    return int((not_before - now).total_seconds())


def _until(job: JobType[Any, Any], at: datetime, now: datetime) -> timedelta:
    if not isinstance(at, datetime):
        raise DelayInvalid(
            f"{job.name!r}: at must be a datetime, got {at!r}: write datetime(..., tzinfo=UTC)"
        )
    if at.utcoffset() is None:
        raise DelayInvalid(
            f"{job.name!r}: at={at.isoformat()} has no time zone, so it could mean "
            "any of 24 hours: write datetime(..., tzinfo=UTC)"
        )
    return max(timedelta(0), at - now)  # aware times of different zones subtract correctly


def tenant_of(job: JobType[Any, Any], tenant: str | Tenant | None) -> Tenant | None:
    """Return the tenant, its name checked."""
    if tenant is None:
        return None
    named = tenant if isinstance(tenant, Tenant) else Tenant(org=tenant)
    if not is_group_id(named.org):
        raise OptionInvalid(
            f"{job.name!r}: tenant must be 1 to 128 ASCII characters without spaces (it becomes "
            f"SQS's MessageGroupId), got {named.org!r}"
        )
    workspace: object = named.workspace
    if workspace is not None and not (isinstance(workspace, str) and is_utf8(workspace)):
        raise OptionInvalid(
            f"{job.name!r}: the tenant's workspace must be a string, got {workspace!r}"
        )
    return named


def fifo_group(
    job: JobType[Any, Any],
    payload: Any,
    overrides: SubmitOptions,
    queue: QueueSpec,
    tenant: str | None,
) -> str | None:
    """Return the message group of a job on a FIFO queue; None on any other."""
    given = overrides.get("group")
    if not queue.fifo:
        if given is not None:
            raise OptionInvalid(
                f"{job.name!r}: group orders the jobs of a FIFO queue, and {queue.name!r} is not "
                "one"
            )
        return None
    group = given
    if given is None:
        group = job.group_by(payload) if job.group_by else tenant
    if not is_group_id(group):
        raise OptionInvalid(
            f"{job.name!r}: {queue.name!r} is FIFO, so each job needs a group, of 1 to 128 ASCII "
            f"characters without spaces, got {group!r}: submit with group=..., or declare the type "
            "with group_by=..."
        )
    return group


def options_of(
    job: JobType[Any, Any], overrides: SubmitOptions, queue: QueueSpec, unique: UniqueBy | None
) -> Options | None:
    """Return the options that the envelope keeps for the worker; None if there are none."""
    attempts, timeout = overrides.get("max_attempts"), overrides.get("timeout")
    backoff, keep = overrides.get("backoff"), overrides.get("keep")
    if attempts is None and timeout is None and unique is None and backoff is None and keep is None:
        return None
    if attempts is not None:
        _check_attempts(job, attempts, queue)
    return Options(
        attempts=attempts,
        timeout_s=None if timeout is None else _timeout_s(job, timeout),
        unique=unique,
        backoff=None if backoff is None else _backoff(job, backoff, attempts, queue),
        keep=None if keep is None else _keep(job, keep),
    )


def unique_of(
    app: App,
    job: JobType[Any, Any],
    payload: Any,
    dumped: Any,
    overrides: SubmitOptions,
    tenant: Tenant | None,
) -> UniqueBy | None:
    """Return the uniqueness key of the job by its submission, or by its type; None: neither."""
    unique = overrides.get("unique")
    if unique is False:
        return None
    if not isinstance(unique, Unique | None):
        raise OptionInvalid(
            f"{job.name!r}: unique must be a Unique or False, got {unique!r}: write "
            "unique=Unique(within=timedelta(hours=1))"
        )
    chosen = unique or job.unique
    if chosen is None:
        return None
    has_end = overrides.get("expires") is not None or job.expires is not None
    if (chosen.keep == "last" or has_end) and not uses_claims(app):
        what = "expires" if has_end else 'Unique(keep="last")'
        raise OptionInvalid(
            f"{job.name!r}: {what} of a unique job would have no effect: the app {app.name!r} "
            "keeps no records, and no type of it has unique= or once=True, so that no worker looks "
            "at its key: declare the type with unique=Unique(...), too"
        )
    if chosen.key is None:
        dumped = in_order(job.dump_python(payload), dumped)
    try:
        return unique_by(chosen, job.name, payload, dumped, tenant)
    except OptionInvalid as error:
        raise OptionInvalid(f"{job.name!r}: {error}") from error


def check_costs(app: App, job: JobType[Any, Any], dumped: Any) -> None:
    """Refuse a job that costs more than a rate limit has: it could never start.

    Args:
        app: the app.
        job: the job's type.
        dumped: the payload as JSON values; the functions get what a worker reads of it.

    Raises:
        CostInvalid: it does, or a limit's function can't tell the cost.
    """
    for owner in (app, app.queues[job.queue], job):
        if (rate := owner.limits.rate_limit) is None or isinstance(rate.cost, int):
            continue
        limit = f"the rate limit of {owner!r}"
        try:
            cost = rate.cost_of(job.load(dumped))
        except Exception as error:
            raise CostInvalid(
                f"{job.name!r}: the cost function of {limit} raised {type_of(error)}: "
                f"{text_of(error)}"
            ) from error
        if cost > rate.limit:
            raise CostInvalid(
                f"{job.name!r}: this job costs {cost:,}, and {limit} has {rate.limit:,}, so it "
                "could never start: split the job, or raise the limit"
            )


def _check_attempts(job: JobType[Any, Any], attempts: object, queue: QueueSpec) -> None:
    if not isinstance(attempts, int) or isinstance(attempts, bool):
        raise OptionInvalid(f"{job.name!r}: max_attempts must be a whole number, got {attempts!r}")
    if not 1 <= attempts < queue.max_receive_count:
        raise OptionInvalid(
            f"{job.name!r}: max_attempts must lie between 1 and {queue.max_receive_count - 1}, got "
            f"{attempts}: SQS itself dead-letters a message after {queue.max_receive_count} "
            "receives"
        )


def _backoff(
    job: JobType[Any, Any], backoff: object, attempts: int | None, queue: QueueSpec
) -> ExponentialBackoff | StepsBackoff:
    if not isinstance(backoff, Backoff):
        raise OptionInvalid(
            f"{job.name!r}: backoff must be a Backoff, such as Backoff.fixed(30), got {backoff!r}"
        )
    try:
        carried = job_backoff(backoff)
    except OptionInvalid as error:
        raise OptionInvalid(f"{job.name!r}: {error}") from error
    waits = islice(backoff.bounds(), (attempts or job.retry.max_attempts) - 1)
    longest = timedelta(seconds=max((most for _, most in waits), default=0))
    if queue.fifo and longest > MAX_VISIBILITY:
        raise OptionInvalid(
            f"{job.name!r}: {backoff!r} may wait {longest}, and on the FIFO queue {queue.name!r} "
            f"no retry can wait longer than {MAX_VISIBILITY}: lower its cap"
        )
    return carried


def bundle_bytes(app: App, job: JobType[Any, Any], envelope: Envelope) -> int:
    """Return the most bytes of a message that a job may share; 0 if it travels alone, as those that
    are delayed, and those that a later submission may replace."""
    if job.bundle is None or envelope.not_before is not None:
        return 0
    unique = envelope.options.unique if envelope.options is not None else None
    if unique is not None and unique.mode == "replace":
        return 0
    return min(job.bundle.bytes, app.max_message_bytes)


def _keep(job: JobType[Any, Any], keep: Keep | Duration) -> JobKeep:
    where = f"{job.name!r}: keep"
    if not isinstance(keep, Keep):
        completed = duration(where, keep, error=OptionInvalid)
        return JobKeep(completed_s=_kept_s(where, completed))
    for name, count in ("last", keep.last), ("last_failed", keep.last_failed):
        if count is not None:
            raise OptionInvalid(
                f"{where}: Keep({name}={count}) bounds the number of a type's jobs, and this is "
                "one of them: declare it on the type, and give times here"
            )
    return JobKeep(completed_s=_kept_s(where, keep.completed), failed_s=_kept_s(where, keep.failed))


def _kept_s(where: str, length: timedelta) -> float:
    if length > LONGEST_KEPT:
        raise OptionInvalid(f"{where} must be at most {LONGEST_KEPT.days:,} days, got {length}")
    return length.total_seconds()


def _timeout_s(job: JobType[Any, Any], timeout: Duration) -> float:
    length = duration(f"{job.name!r}: timeout", timeout, positive=True, error=OptionInvalid)
    if length > LONGEST_TIMEOUT:
        raise OptionInvalid(
            f"{job.name!r}: timeout must be at most {LONGEST_TIMEOUT}, got {length}"
        )
    return length.total_seconds()
