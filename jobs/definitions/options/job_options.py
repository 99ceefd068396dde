"""Options of a job type, besides its name and payload."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, TypedDict, get_args

from headgate.jobs.core.limits import COST_HINT, Breaker, Concurrency, RateLimit, RetryBudget
from headgate.jobs.core.naming import check_name
from headgate.jobs.core.retention import Keep, RecordsLevel
from headgate.jobs.core.topology import MAX_VISIBILITY, Priority, PriorityName
from headgate.jobs.definitions.options.batch import Batch
from headgate.jobs.definitions.options.bundle import Bundle
from headgate.jobs.definitions.options.replay import Replay
from headgate.jobs.definitions.options.uniqueness import Unique
from headgate.jobs.definitions.schedules.schedule import Schedule
from headgate.jobs.errors import ConfigurationError, did_you_mean
from headgate.jobs.messages.foreign_formats import Accepts
from headgate.jobs.messages.schema_upgrades import Upgrade, check_upgrade_from, check_upgrades
from headgate.jobs.retry.policy import Retry
from headgate.jobs.values.durations import Duration, duration
from headgate.jobs.values.kinds import check_kind

Isolation = Literal["worker", "process"]


LONGEST_TIMEOUT = MAX_VISIBILITY - timedelta(minutes=10)
"""The longest timeout of an attempt. SQS makes a message visible again 12 h after its receive in
any case; the ten minutes are for its wait in the worker and for its settlement."""

LONGEST_EXPIRY = timedelta(days=366)
"""The longest time for which a job may wait for its start and still expire."""


_ELSEWHERE = {
    "cost": COST_HINT,
    "key": "what a limit counts apart is said there: write rate_limit=RateLimit(..., key=...) or "
    "concurrency=Concurrency(..., key=...)",
    "max_attempts": "write retry=Retry(max_attempts=...)",
    "backoff": "write retry=Retry(backoff=...)",
}
"""Options that a job type doesn't have, and what to write instead."""


class JobOptions(TypedDict, total=False):
    """Options of a job type: the keywords of ``job`` and ``define`` of an app, queue or router."""

    priority: Priority | PriorityName | None
    """The priority of its jobs, which selects their queue; None takes NORMAL, or the group's only
    one."""
    other_priorities: Sequence[Priority | PriorityName]
    """Further priorities that submissions of its jobs may take. A queue group that has the
    priorities of its types has these as well; any other has to list them."""
    timeout: Duration | None
    """The timeout of one attempt, in seconds or as a timedelta. If left out, it is the app's (15
    minutes, unless ``App(timeout=...)`` sets another); None explicitly sets none but SQS's limit of
    12 h."""
    expires: Duration | None
    """The time from when a job is due within which it has to start, in seconds or as a timedelta;
    it is dropped without a run otherwise. None lets jobs wait for any time."""
    retry: Retry | None
    """The retry policy; None takes the queue's."""
    schedule: Schedule | None
    """The schedule on which jobs are submitted, with ``schedule_payload``; `JobType.add_schedule`
    declares further ones."""
    schedule_payload: Any
    """The payload of the schedule's jobs. If left out, or None, it is the model's defaults, as they
    are when the job runs."""
    unique: Unique | None
    """The submissions that count as the same job; None has each submission count by itself."""
    bundle: bool | Bundle
    """True, or a `Bundle`, to have jobs that are submitted together share messages: for many small,
    short jobs. One that fails goes on in a message of its own. Not on a FIFO queue, nor with
    ``Unique(keep="last")``; delayed jobs travel singly."""
    once: bool
    """True if a job that is done must never run again, however often it is delivered, and has only
    one runner at a time: it is claimed in the app's table, which costs two requests."""
    rate_limit: RateLimit | None
    """The number of jobs that may start in a time; None sets no limit, as for the next three."""
    concurrency: Concurrency | None
    """The number of jobs that may run at once."""
    breaker: Breaker | None
    """The rate of failures at which its jobs are held back for a while."""
    retry_budget: RetryBudget | None
    """The number of its retries in a time."""
    batch: Batch | None
    """The number of jobs that one call of its handler takes, which then takes a list of payloads
    and a `BatchContext`; None has each job run in a call of its own."""
    isolation: Isolation
    """``worker`` runs the handler in the worker's own process: an ``async def`` in its event loop,
    a synchronous function in a thread. ``process`` runs it in a child process, which is killed at
    the timeout, and whose death is a crash of this one job."""
    memory_mib: int | None
    """The resident memory, in MiB, at which a child process is killed; None sets no limit."""
    records: RecordsLevel | None
    """The level of records that workers write of its jobs into the table; None takes the app's."""
    keep: Keep | Duration | None
    """The retention of records: a `Keep`, or the time for completed jobs, in seconds or as a
    timedelta, 0 for nothing of jobs that simply complete; None takes the app's."""
    alert_at_once: bool
    """True to alert at once when one of its jobs is given up, instead of in a summary."""
    replay: Replay | None
    """The policy by which the sweep sends its dead letters back. If left out, it is the app's; None
    leaves them to people, whatever the app's is."""
    group_by: Callable[[Any], str] | None
    """On a FIFO queue: a function from a payload to the name of the group within which jobs keep
    their order and run one at a time, such as an account's id. None leaves it to each submission.
    """
    schema: int
    """The version of the payload, from 1. Increase it when old workers can't read the new payload;
    they then leave it to newer workers."""
    upgrade: Mapping[int, Upgrade]
    """Upgrades of older payloads: by version, a function from its JSON values to those of the next,
    without a gap up to ``schema``. A type without upgrades reads older payloads as they are."""
    upgrade_from: Mapping[str, Upgrade]
    """Upgrades of other types' payloads, for replays of their dead letters as this type: by the
    other type's name, a function from its JSON values to this one's."""
    accepts: Accepts | None
    """The format of messages from other senders than Headgate: `Accepts.json` and its siblings.
    None leaves such messages to other types, or to the dead-letter queue."""
    accepts_from: list[str] | tuple[str, ...]
    """Names of other queue groups whose messages may run as this type. Without it only those of its
    own group do, so that permission to write to one queue doesn't allow running types of another.
    """


def check_options(name: str, options: Mapping[str, Any]) -> None:
    """Check the names and types of options, as a type checker would, and their combination.

    Raises:
        ConfigurationError: one is unknown, of the wrong type, or contradicts another.
    """
    if "queue" in options:
        raise ConfigurationError(
            f"the type {name!r}: a job type is declared on its queue, and has no option 'queue': "
            f'write orders = app.queue("orders") once, and then @orders.job({name!r})'
        )
    known = JobOptions.__annotations__
    for option in options:
        if option not in known:
            hint = _ELSEWHERE.get(option) or did_you_mean(option, known)
            raise ConfigurationError(
                f"the type {name!r}: a job type has no option {option!r}: {hint}"
            )
    _check_kinds(name, options)
    check_upgrades(name, options.get("schema", 1), options.get("upgrade", {}))
    check_upgrade_from(name, options.get("upgrade_from", {}))
    _check_isolation(name, options)


def check_schedule(name: str, schedule: object) -> None:
    """Check that a type's schedule is one.

    Raises:
        ConfigurationError: it is not a Schedule.
    """
    if not isinstance(schedule, Schedule):
        raise ConfigurationError(
            f"the type {name!r}: schedule must be made by cron(...) or Schedule.rate(...), got "
            f"{schedule!r}"
        )


def _check_kinds(name: str, options: Mapping[str, Any]) -> None:
    retry, schedule = options.get("retry"), options.get("schedule")
    if not isinstance(retry, Retry | None):
        raise ConfigurationError(
            f"the type {name!r}: retry must be a Retry, got {retry!r}: write Retry(max_attempts=5)"
        )
    if schedule is not None:
        check_schedule(name, schedule)
    if schedule is None and options.get("schedule_payload") is not None:
        raise ConfigurationError(
            f"the type {name!r}: schedule_payload is what a schedule submits, and it has none: add "
            'schedule=cron("0 8 * * ? *")'
        )
    if not isinstance(accepts := options.get("accepts"), Accepts | None):
        raise ConfigurationError(
            f"the type {name!r}: accepts must be made by Accepts.json(), .s3(), .sns() or "
            f".eventbridge(), got {accepts!r}"
        )
    if not isinstance(unique := options.get("unique"), Unique | None):
        raise ConfigurationError(
            f"the type {name!r}: unique must be a Unique, got {unique!r}: write "
            "unique=Unique(within=timedelta(hours=1))"
        )
    _check_other_priorities(name, options.get("other_priorities", ()))
    _check_accepts_from(name, options.get("accepts_from", ()))
    check_kind(f"the type {name!r}: schema", schema := options.get("schema", 1), int)
    if schema < 1:
        raise ConfigurationError(f"the type {name!r}: schema counts from 1, got {schema}")
    for flag in ("once", "alert_at_once"):
        if not isinstance(given := options.get(flag, False), bool):
            raise ConfigurationError(
                f"the type {name!r}: {flag} must be True or False, got {given!r}"
            )


def _check_other_priorities(name: str, priorities: object) -> None:
    """Check that they are a list; their queue knows whether it has each."""
    if not isinstance(priorities, list | tuple) or not all(isinstance(p, str) for p in priorities):
        raise ConfigurationError(
            f"the type {name!r}: other_priorities must be a list of priorities, got "
            f"{priorities!r}: write other_priorities=[Priority.HIGH]"
        )


def _check_accepts_from(name: str, queues: object) -> None:
    if not isinstance(queues, list | tuple) or not all(isinstance(each, str) for each in queues):
        raise ConfigurationError(
            f"the type {name!r}: accepts_from must be a list of queue groups' names, got "
            f'{queues!r}: write accepts_from=["uploads"]'
        )
    for queue in queues:
        check_name(f"accepts_from of the type {name!r}", queue)


def _check_isolation(name: str, options: Mapping[str, Any]) -> None:
    isolation, memory_mib = options.get("isolation", "worker"), options.get("memory_mib")
    if isolation not in get_args(Isolation):
        raise ConfigurationError(
            f"the type {name!r}: isolation must be 'worker' or 'process', got {isolation!r}"
        )
    check_kind(f"the type {name!r}: memory_mib", memory_mib, int | None)
    if memory_mib is None:
        return
    if isolation != "process":
        raise ConfigurationError(
            f"the type {name!r}: memory_mib bounds a process of its own: add isolation='process'"
        )
    if memory_mib < 1:
        raise ConfigurationError(
            f"the type {name!r}: memory_mib must be positive, got {memory_mib}"
        )


def check_timeout(where: str, timeout: Duration | None) -> timedelta:
    """Return a checked timeout; None means the longest that SQS allows.

    Args:
        where: the name of its owner in errors.
        timeout: the timeout as declared.

    Raises:
        ConfigurationError: it is not positive, or longer than SQS lets a message be held.
    """
    if timeout is None:
        return LONGEST_TIMEOUT
    length = duration(f"{where}: timeout", timeout, positive=True, error=ConfigurationError)
    if length > LONGEST_TIMEOUT:
        raise ConfigurationError(
            f"{where}: timeout must be at most {LONGEST_TIMEOUT} (SQS holds a message for 12 h at "
            f"most), got {length}"
        )
    return length


def check_expires(name: str, expires: Duration | None) -> timedelta | None:
    """Return the checked time within which a type's jobs have to start; None: any time.

    Raises:
        ConfigurationError: it is not positive, or longer than `LONGEST_EXPIRY`.
    """
    if expires is None:
        return None
    where = f"the type {name!r}: expires"
    length = duration(where, expires, positive=True, error=ConfigurationError)
    if length > LONGEST_EXPIRY:
        raise ConfigurationError(
            f"{where} must be at most {LONGEST_EXPIRY.days} days, got {length}: leave it out for "
            "jobs that may wait for any time"
        )
    return length
