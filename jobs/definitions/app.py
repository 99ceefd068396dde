"""The `App`: the single description of a job system, which all other packages read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Unpack, get_args

from headgate.jobs.core.existing.resources import NOTHING, Existing, read_existing
from headgate.jobs.core.keys.encryption import Encryption
from headgate.jobs.core.limits import LimitOptions, Limits, check_limit_names
from headgate.jobs.core.naming import check_name, physical_name
from headgate.jobs.core.retention import (
    DEFAULT_KEEP,
    DEFAULT_KEEP_AUDIT,
    Keep,
    RecordsLevel,
    check_keep,
    check_keep_audit,
    check_level,
)
from headgate.jobs.core.settings import Settings
from headgate.jobs.core.topology import MAX_MESSAGE_BYTES, Lane, Priority, PriorityName, Topology
from headgate.jobs.definitions.declares import Declares
from headgate.jobs.definitions.handlers.hooks import Hooks
from headgate.jobs.definitions.handlers.provides import Provides
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.definitions.options.job_options import check_timeout
from headgate.jobs.definitions.options.replay import Replay, check_replay
from headgate.jobs.definitions.queue import DEFAULT_QUEUE, Priorities, Queue, Used
from headgate.jobs.definitions.router import Router
from headgate.jobs.errors import ConfigurationError, UnknownJobType, did_you_mean
from headgate.jobs.messages.signing import Signing, check_signing
from headgate.jobs.retry.backoff import Backoff
from headgate.jobs.retry.policy import DEFAULT_CRASH_LIMIT, DEFAULT_RETRY, CrashLimit, Retry
from headgate.jobs.values.durations import Duration
from headgate.jobs.values.kinds import check_kind
from headgate.jobs.values.redaction import Redaction

if TYPE_CHECKING:  # most apps have no event rule
    from headgate.jobs.definitions.event_rules.event_rule import EventRule

DEFAULT_PARKING = Retry(max_attempts=5, backoff=Backoff.steps(10, 60, 300, 600))
"""The retries of a message that this worker can't read, which may be meant for a newer one. It is
parked in the dead-letter queue after about 16 minutes, enough for a rolling deploy."""

DEFAULT_TIMEOUT = timedelta(minutes=15)
"""The timeout of a type that declares none: Lambda's maximum, so that a type can move between
workers and functions. A handler that hangs frees its slot by then."""

_LEAST_PAYLOAD_LIMIT = 1_024  # about the size of a message without any payload

DEFAULT_PAYLOAD_LIMIT = 262_144
"""Default of ``max_message_bytes``; a batch of four such messages fills SQS's 1 MiB."""

BACKSTOP_MARGIN = 10
"""Deliveries beyond its attempts that a job without records has, for releases and crashes, before
it is assumed to kill its workers."""


class App(Declares, Provides, Hooks):
    """A job system: its queues, its job types and their policies.

    Args:
        name: lower-case words joined by hyphens; the first part of every physical name.
        stage: such as ``prod``; the second part of every physical name. None takes
            ``HEADGATE_STAGE``, or no stage if that is unset.
        handlers: modules that attach handlers; imported by workers, but not by submitters.
        default_queue: ``Queue("jobs", ...)``, with other options for the queue group of the types
            that are declared on the app itself; None takes those of a plain ``Queue("jobs")``.
        priorities: the priorities of queue groups that list none: ``used`` for those of their types
            (``priority=`` and ``other_priorities=``), ``all`` for all four. Each is an SQS queue,
            and only these take jobs. An app that was deployed with four keeps them with ``all``.
        parking: the number of tries, and the delays between them, of a message that can't be run
            here, before it is parked in the dead-letter queue.
        timeout: the timeout of one attempt of a type without ``timeout=``, in seconds or as a
            timedelta; None bounds these only by SQS's limit of 12 h.
        crash_limit: the number of a job's attempts that may kill the process running them before
            the job is put into quarantine.
        records: the records that workers write into the app's DynamoDB table: ``outcomes`` (how
            jobs ended, with their results, and that they run, once they have for a second),
            ``failures`` (only jobs that did not simply complete), ``full`` (submissions and every
            start as well) or ``off``. With records an attempt is a failure or a crash; without them
            every delivery counts as one, and a job that kills its process is stopped late; see
            `jobs.core.retention.RecordsLevel`.
        keep: the retention of records: a `Keep`, or the time for completed jobs, in seconds or as a
            timedelta; 0 keeps nothing of jobs that simply complete.
        keep_audit: the retention of the audit's entries, in seconds or as a timedelta; see
            `headgate.Client.audit`.
        long_delays: use one-time schedules of EventBridge Scheduler for delays over 15 minutes, and
            for retries beyond the 12 hours that SQS can hide a message. False: such delays are
            refused, such retries come sooner, and no permissions for schedules are needed.
        max_message_bytes: the maximum size of a message, 1,024 to SQS's 1 MiB. A payload that
            exceeds it is stored in the app's S3 bucket, and the message has a reference to it.
        redact: regular expressions, as texts or compiled. What they match in the text and traceback
            of a handler's error, or in the reason that it gives for its job's end, is replaced by
            ``[redacted]`` before it is logged, recorded or sent anywhere; so are the values of
            `SecretStr` and `SecretBytes` in the payload, without any pattern.
        encryption: ``Encryption()`` seals payloads, results and progress with keys of KMS, so that
            no queue, table, bucket or schedule holds them open; see
            `jobs.core.keys.encryption.Encryption`.
        signing: a `Signing` signs every message, and refuses those that are not signed by whoever
            has the key; None: anyone who may send to a queue may submit the jobs that it takes.
        replay: a `Replay`, by which the sweep sends dead letters back, for the types that have none
            of their own; None leaves all of them to people.
        existing: the queues, the table and the bucket that something else created; None takes
            ``HEADGATE_EXISTING``, or none if that is unset. All others are the app's own.
        limits: ``rate_limit=``, ``concurrency=``, ``retry_budget=`` and ``breaker=`` for all of
            its jobs together; see `jobs.core.limits`.

    Raises:
        ConfigurationError: a name is not valid on AWS, or a value is out of range.
    """

    def __init__(
        self,
        name: str,
        *,
        stage: str | None = None,
        handlers: Iterable[str] = (),
        default_queue: Queue | None = None,
        priorities: Priorities = "used",
        timeout: Duration | None = DEFAULT_TIMEOUT,
        parking: Retry = DEFAULT_PARKING,
        crash_limit: CrashLimit = DEFAULT_CRASH_LIMIT,
        records: RecordsLevel = "outcomes",
        keep: Keep | Duration = DEFAULT_KEEP,
        keep_audit: Duration = DEFAULT_KEEP_AUDIT,
        long_delays: bool = True,
        max_message_bytes: int = DEFAULT_PAYLOAD_LIMIT,
        redact: Iterable[str | re.Pattern[str]] = (),
        encryption: Encryption | None = None,
        signing: Signing | None = None,
        replay: Replay | None = None,
        existing: Existing | None = None,
        **limits: Unpack[LimitOptions],
    ) -> None:
        super().__init__()
        check_limit_names(limits, f"the app {name!r}", App.__init__.__kwdefaults__ or ())
        self.limits = Limits.of(limits)
        self.name = check_name("the app", name)
        stage = stage if stage is not None else Settings.from_env().stage
        self.stage = check_name("the stage", stage) if stage else None
        if isinstance(handlers, str) or not isinstance(handlers, Iterable):
            raise ConfigurationError(
                "App(handlers=...) takes a list of modules' names, such as "
                f'["shop.handlers"], got {handlers!r}'
            )
        self.handler_modules = tuple(handlers)
        for option, given, kind in (
            ("handlers", self.handler_modules, tuple[str, ...]),
            ("parking", parking, Retry),
            ("crash_limit", crash_limit, CrashLimit),
            ("long_delays", long_delays, bool),
            ("max_message_bytes", max_message_bytes, int),
            ("encryption", encryption, Encryption | None),
            ("existing", existing, Existing | None),
        ):
            check_kind(f"App({option}=...)", given, kind)
        self._priorities = _checked_priorities(priorities)
        self.timeout = check_timeout(f"the app {name!r}", timeout)
        self.parking = parking
        self.crash_limit = crash_limit
        self.records = check_level(records)
        self.keep = check_keep(f"the app {name!r}", keep) or DEFAULT_KEEP
        self.keep_audit = check_keep_audit(f"the app {name!r}", keep_audit)
        self.long_delays = long_delays
        self.max_message_bytes = _checked_limit(max_message_bytes)
        self.redaction = Redaction(redact)
        self.encryption = encryption
        self.signing = check_signing(signing)
        self.replay = check_replay(f"the app {name!r}", replay)
        self.existing = existing if existing is not None else _existing_by_environment()
        self._bucket_name = Settings.from_env().bucket
        self._types: dict[str, JobType[Any, Any]] = {}
        self._queues: dict[str, Queue] = {}
        self._event_rules: dict[str, EventRule] = {}
        self._topologies: dict[tuple[int, int], Topology] = {}
        self._default_queue = _checked_default(default_queue)
        self.include(self._default_queue)

    def __repr__(self) -> str:
        return f"<App {self.name}: {len(self._types)} job types>"

    @property
    def _queue_name(self) -> str:
        return self._default_queue.name

    def _adopt(self, declared: JobType[Any, Any]) -> None:
        self._default_queue.adopt(declared)

    def queue(
        self,
        name: str,
        *,
        priorities: Iterable[Priority | PriorityName | Used] | None = None,
        lanes: Mapping[Priority, Lane] | None = None,
        retry: Retry = DEFAULT_RETRY,
        fifo: bool = False,
        **limits: Unpack[LimitOptions],
    ) -> Queue:
        """Declare a queue group; the arguments are those of `Queue`."""
        declared = Queue(name, priorities=priorities, lanes=lanes, retry=retry, fifo=fifo, **limits)
        self.include(declared)
        return declared

    def include(self, *parts: Queue | Router) -> None:
        """Add queues and routers that were declared in other modules, with their types.

        A router needs its queue: one that the app has already, or that is among the arguments, in
        any order.

        Raises:
            ConfigurationError: the app has a queue of that name, or none for a router.
            DuplicateJobType: the app has a type of that name.
        """
        for part in parts:
            if not isinstance(part, Queue | Router):
                raise ConfigurationError(f"app.include takes queues and routers, got {part!r}")
        for queue in (part for part in parts if isinstance(part, Queue)):
            self._include_queue(queue)
        for router in (part for part in parts if isinstance(part, Router)):
            self._include_router(router)

    def _include_queue(self, queue: Queue) -> None:
        if queue.name in self._queues:
            raise ConfigurationError(
                f"the app {self.name!r} has two queues {queue.name!r}: rename one (every app has a "
                f"queue {DEFAULT_QUEUE!r} from the start; App(default_queue=...) sets its options)"
            )
        queue.settle(self.name, self._priorities)
        queue.join(self._types)
        self._queues[queue.name] = queue

    def _include_router(self, router: Router) -> None:
        if (name := router.queue) not in self._queues:
            raise ConfigurationError(
                f"the app {self.name!r} has no queue {name!r}, to which {router!r} belongs: "
                f"{did_you_mean(name, self._queues)} Otherwise declare it before, with "
                f"app.queue({name!r}), or include both: app.include(Queue({name!r}), router)"
            )
        router.join(self._queues[name])

    def event_rule(
        self,
        name: str,
        *,
        pattern: Mapping[str, Any],
        job: JobType[Any, Any],
        fields: Mapping[str, str] | None = None,
        group: str | None = None,
        bus: str = "default",
    ) -> None:
        """Submit a job for each EventBridge event that matches a pattern.

        Args:
            name: the rule's name; lower-case words joined by hyphens.
            pattern: the event pattern, in EventBridge's syntax.
            job: the job type to submit, one of this app's.
            fields: the payload's fields with their paths in the event, as in
                ``{"order": "$.detail.order_id"}``; None takes the event's ``detail``.
            group: for a FIFO queue, the path of the group's name; None puts all jobs of the rule
                into one group.
            bus: the name of the event bus.

        Raises:
            ConfigurationError: a name, the pattern or a path is not valid, or the app has a rule of
                that name.
        """
        from headgate.jobs.definitions.event_rules.event_rule import event_rule

        rule = event_rule(name, pattern, job, fields=fields, group=group, bus=bus)
        if self._types.get(job.name) is not job:
            raise ConfigurationError(
                f"event_rule({name!r}): {job!r} was not declared on the app {self.name!r}"
            )
        if group is not None and not self._queues[job.queue].fifo:
            raise ConfigurationError(
                f"event_rule({name!r}): group orders the jobs of a FIFO queue, and {job.queue!r} "
                "is not one: leave it out, or declare the queue with fifo=True"
            )
        if name in self._event_rules:
            raise ConfigurationError(f"the app {self.name!r} has two event rules {name!r}")
        self._event_rules[name] = rule

    @property
    def event_rules(self) -> Mapping[str, EventRule]:
        """The rules of `event_rule` by name."""
        return self._event_rules

    @property
    def queues(self) -> Mapping[str, Queue]:
        """Every queue group by name, the default one included."""
        return self._queues

    @property
    def types(self) -> Mapping[str, JobType[Any, Any]]:
        """Every job type by name."""
        return self._types

    def find_type(self, name: str) -> JobType[Any, Any]:
        """Return the job type of that name.

        Raises:
            UnknownJobType: the app has no such type.
        """
        if name not in self._types:
            raise UnknownJobType(_missing(self, name))
        return self._types[name]

    @property
    def topology(self) -> Topology:
        """The app's resources on AWS, as far as they are declared so far."""
        declared = len(self._queues), len(self._types)  # neither ever shrinks
        if declared not in self._topologies:
            self._topologies = {declared: self._describe()}
        return self._topologies[declared]

    def _describe(self) -> Topology:
        queues = tuple(
            spec
            for queue in self._queues.values()
            if queue is not self._default_queue or self._runs_from(queue)
            for spec in queue.specs(self.name, self.stage, self.existing)
        )
        having = {spec.group for spec in queues}
        return Topology(
            app=self.name,
            stage=self.stage,
            queues=queues,
            quarantine_name=physical_name(self.name, self.stage, "quarantine"),
            table_name=self.existing.table_name or physical_name(self.name, self.stage, "records"),
            bucket_name=self.existing.bucket_name or self._bucket_name,
            existing=self.existing,
            unused_groups=tuple(name for name in self._queues if name not in having),
        )

    def use_existing(self, existing: Existing) -> None:
        """Take resources that something else created in place of the app's own.

        ``cdk.json`` names them so, after the app is declared; its code says `App(existing=...)`.

        Raises:
            ConfigurationError: the app names other ones itself.
        """
        if self.existing and self.existing != existing:
            raise ConfigurationError(
                f"the app {self.name!r} names its existing resources itself, with existing= or "
                "HEADGATE_EXISTING, and cdk.json names other ones: name them in one place"
            )
        self.existing = existing
        self._topologies = {}

    def _runs_from(self, queue: Queue) -> bool:
        """Return True if a type may run from a queue group."""
        return any(queue.name in declared.runs_from for declared in self._types.values())


def _existing_by_environment() -> Existing:
    text = Settings.from_env().existing
    return read_existing(text) if text else NOTHING


def _checked_limit(limit: int) -> int:
    if not _LEAST_PAYLOAD_LIMIT <= limit <= MAX_MESSAGE_BYTES:
        raise ConfigurationError(
            f"App(max_message_bytes=...) must lie between {_LEAST_PAYLOAD_LIMIT:,} and "
            f"{MAX_MESSAGE_BYTES:,} bytes (SQS's limit), got {limit:,}"
        )
    return limit


def _checked_priorities(priorities: Priorities) -> Priorities:
    if priorities not in get_args(Priorities):
        raise ConfigurationError(
            "App(priorities=...) is 'used' or 'all', for queue groups that list none, got "
            f"{priorities!r}: list those of one group with Queue(..., priorities=[...])"
        )
    return priorities


def _checked_default(queue: object) -> Queue:
    if queue is None:
        return Queue(DEFAULT_QUEUE)
    if not isinstance(queue, Queue) or queue.name != DEFAULT_QUEUE:
        raise ConfigurationError(
            f"App(default_queue=...) takes a Queue({DEFAULT_QUEUE!r}, ...), got {queue!r}: declare "
            "a queue of another name with app.queue(...)"
        )
    return queue


def _missing(app: App, name: str) -> str:
    known = did_you_mean(name, app.types)
    if app.handler_modules and not known.endswith("?"):  # no slip of the pen
        known += ". Only workers import the modules of handlers=: declare types where the app is"
    return f"the app {app.name!r} has no job type {name!r}: {known}"
