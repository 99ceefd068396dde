"""Queue groups, on which job types are declared, and the settings that these share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar, Unpack, overload

from headgate.jobs.core.limits import LimitOptions, Limits, check_limit_names
from headgate.jobs.core.topology import DEFAULT_LANES, Lane, Priority, PriorityName, check_name
from headgate.jobs.definitions.handled_job import Declare, HandledJob
from headgate.jobs.definitions.handler import payload_type
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.definitions.options import JobOptions
from headgate.jobs.errors import ConfigurationError, DuplicateJobType, PayloadInvalid
from headgate.jobs.retry.policy import DEFAULT_RETRY, Retry
from headgate.jobs.values.kinds import check_kind

P = TypeVar("P")
R = TypeVar("R")
J = TypeVar("J", bound=JobType[Any, Any])


class Queue:
    """A queue group: one SQS queue per priority, and the settings that its job types share.

    Args:
        name: lower-case words joined by hyphens; part of the physical names.
        priorities: the group's priorities; each is an SQS queue with its dead-letter queue.
        lanes: the numbers of priorities that differ from `DEFAULT_LANES`.
        retry: the retry policy of types that declare none.
        fifo: jobs of one group run one at a time, in the order of their submission; see ``group``
            of a submission and ``group_by`` of a type. SQS supports no delays on such a queue.
        limits: ``rate_limit=``, ``concurrency=``, ``retry_budget=`` and ``breaker=`` for all of
            this group's jobs together; see `jobs.core.limits`.
    """

    def __init__(
        self,
        name: str,
        *,
        priorities: Iterable[Priority | PriorityName] = tuple(Priority),
        lanes: Mapping[Priority, Lane] | None = None,
        retry: Retry = DEFAULT_RETRY,
        fifo: bool = False,
        **limits: Unpack[LimitOptions],
    ) -> None:
        self.name = check_name("the queue", name)
        check_kind(f"the queue {name!r}: retry", retry, Retry)
        check_kind(f"the queue {name!r}: fifo", fifo, bool)
        self.fifo = fifo
        self.retry = retry
        check_limit_names(limits, f"the queue {name!r}")
        self.limits = Limits.of(limits)
        chosen = _priorities(name, priorities)
        self.lanes = {priority: DEFAULT_LANES[priority] for priority in chosen}
        check_kind(f"the queue {name!r}: lanes", lanes, Mapping | None)
        for priority, lane in (lanes or {}).items():
            self._check_priority(priority)
            check_kind(f"the queue {name!r}: lanes[{priority!r}]", lane, Lane)
            self.lanes[priority] = lane
        self._own: dict[str, JobType[Any, Any]] = {}
        self._registries = [self._own]

    def job(self, name: str, **options: Unpack[JobOptions]) -> Declare:
        """Declare a job type together with its handler; used as a decorator.

        Args:
            name: the type's name in messages; lower-case words joined by hyphens.
            options: see `jobs.definitions.options.JobOptions`.

        Raises:
            DuplicateJobType: the app or queue has a type of that name.
            ConfigurationError: the handler's signature or an option doesn't fit.
        """

        if not isinstance(name, str):
            raise ConfigurationError(
                f'a job type needs a name, got {name!r}: write @app.job("send-email")'
            )

        def declare(function: Callable[..., Any], /) -> Any:
            def make(**declaration: Any) -> HandledJob[Any, Any, ..., Any]:
                return HandledJob(function, **declaration)

            return self._declare(make, name, payload_type(name, function), options)

        return declare

    @overload
    def define(
        self, name: str, payload: type[P], **options: Unpack[JobOptions]
    ) -> JobType[P, None]: ...
    @overload
    def define(
        self, name: str, payload: type[P], *, returns: type[R], **options: Unpack[JobOptions]
    ) -> JobType[P, R]: ...
    @overload
    def define(
        self, name: str, payload: type[P], *, returns: Any, **options: Unpack[JobOptions]
    ) -> JobType[P, Any]: ...
    @overload
    def define(
        self, name: str, payload: None = None, **options: Unpack[JobOptions]
    ) -> JobType[None, None]: ...
    @overload
    def define(
        self, name: str, payload: None = None, *, returns: type[R], **options: Unpack[JobOptions]
    ) -> JobType[None, R]: ...
    @overload
    def define(
        self, name: str, payload: Any = None, *, returns: Any = None, **options: Unpack[JobOptions]
    ) -> JobType[Any, Any]: ...
    def define(
        self, name: str, payload: Any = None, *, returns: Any = None, **options: Unpack[JobOptions]
    ) -> JobType[Any, Any]:
        """Declare a job type without its handler, for code that only submits.

        The options and errors are those of `job`. ``payload`` is the model, None for jobs without
        payload, and ``returns`` the handler's return type, for the type checker and for reading
        results. Both may be any type that pydantic can read; a type that is not a class, such as a
        Union, is unknown to the type checker.
        """
        return self._declare(partial(JobType, returns=returns), name, payload, options)

    def _declare(self, make: Callable[..., J], name: str, payload: Any, options: JobOptions) -> J:
        check_name("the job type", name)
        if options.get("group_by") is not None and not self.fifo:
            raise ConfigurationError(
                f"the type {name!r}: group_by orders the jobs of a FIFO queue, and {self.name!r} "
                "is none: declare it with app.queue(..., fifo=True)"
            )
        declared = make(
            name=name,
            payload=payload,
            queue=self.name,
            priority=self._check_priority(options.get("priority") or self._default_priority(name)),
            retry=self.retry,
            options=options,
        )
        if declared.schedule is not None:
            _check_defaults(declared)
        _check_accepting(declared, self._own.values(), fifo=self.fifo)
        _register(self._registries, declared)
        return declared

    def join(self, registry: dict[str, JobType[Any, Any]]) -> None:
        """Add this queue's types, present and future, to an app's registry.

        Raises:
            DuplicateJobType: the registry has a type with the name of one of them.
        """
        for declared in self._own.values():
            _register([registry], declared)
        self._registries.append(registry)

    def _default_priority(self, job_type: str) -> Priority:
        if len(self.lanes) == 1:
            return next(iter(self.lanes))
        if Priority.NORMAL not in self.lanes:
            raise ConfigurationError(
                f"the type {job_type!r} names no priority, and its queue {self.name!r} has no "
                f"'normal' to fall back on: write priority=, one of {', '.join(self.lanes)}"
            )
        return Priority.NORMAL

    def _check_priority(self, priority: Priority | PriorityName) -> Priority:
        if priority not in self.lanes:
            raise ConfigurationError(
                f"the queue {self.name!r} has no priority {str(priority)!r}: it was declared with "
                f"{', '.join(self.lanes)}"
            )
        return Priority(priority)


def _register(
    registries: Sequence[dict[str, JobType[Any, Any]]], declared: JobType[Any, Any]
) -> None:
    for registry in registries:
        if (other := registry.get(declared.name)) is not None:
            raise DuplicateJobType(
                f"two job types are called {declared.name!r}: one is on the queue {other.queue!r}, "
                f"the other on {declared.queue!r}. Rename one"
            )
    for registry in registries:
        registry[declared.name] = declared


def _check_accepting(
    declared: JobType[Any, Any], others: Iterable[JobType[Any, Any]], *, fifo: bool
) -> None:
    accepted = declared.accepts
    if accepted is not None and accepted.format == "s3" and fifo:
        # https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-how-to-event-types-and-destinations.html
        raise ConfigurationError(
            f"the type {declared.name!r} accepts S3's notifications, and its queue "
            f"{declared.queue!r} is FIFO, to which S3 sends none: declare it on a standard queue"
        )
    if accepted is None or accepted.format == "json":
        return  # several types may accept JSON, as each message names its type
    for other in others:
        if other.accepts is not None and other.accepts.format == accepted.format:
            raise ConfigurationError(
                f"the types {other.name!r} and {declared.name!r} of the queue {declared.queue!r} "
                f"both accept {accepted.format} messages, which don't say whose they are: declare "
                "one of them on a queue of its own"
            )


def _priorities(queue: str, wanted: Iterable[Priority | PriorityName]) -> list[Priority]:
    if not isinstance(wanted, Iterable):
        raise ConfigurationError(
            f"the queue {queue!r}: priorities must be a list, got {wanted!r}: "
            "write [Priority.NORMAL]"
        )
    try:
        chosen = {Priority(priority) for priority in wanted if not isinstance(wanted, str)}
    except ValueError as error:
        raise ConfigurationError(
            f"the queue {queue!r}: {error}; there are {', '.join(Priority)}"
        ) from error
    if not chosen:
        raise ConfigurationError(
            f"the queue {queue!r} needs at least one priority, in a list, got {wanted!r}"
        )
    return sorted(chosen, key=lambda priority: priority.rank)


def _check_defaults(declared: JobType[Any, Any]) -> None:
    try:
        declared.load({})
    except PayloadInvalid as error:
        raise ConfigurationError(
            f"the type {declared.name!r} has a schedule, which submits a payload of defaults, but "
            f"its model can't be made without arguments: {error}"
        ) from error
