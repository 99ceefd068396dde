"""The `App`: the one description of a job system, which everything else reads."""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from types import ModuleType
from typing import Any, Protocol, TypeVar, overload

from jobs.backoff import Backoff
from jobs.context import JobContext
from jobs.errors import (
    AppImportError,
    ConfigurationError,
    DuplicateJobType,
    HeadgateError,
    PayloadInvalid,
    UnknownJobType,
    did_you_mean,
)
from jobs.job import JobType, payload_type
from jobs.limits import RateLimit
from jobs.retry import DEFAULT_RETRY, Retry
from jobs.schedules import Schedule
from jobs.settings import Settings
from jobs.topology import (
    DEFAULT_LANES,
    Lane,
    Priority,
    QueueSpec,
    Topology,
    check_name,
    physical_name,
)

P = TypeVar("P")
R = TypeVar("R")

DEFAULT_QUEUE = "jobs"

DEFAULT_PARKING = Retry(attempts=5, backoff=Backoff.steps(10, 60, 300, 600))
"""A message that this worker can't read may be meant for a newer one: about 16 minutes of a
rolling deploy pass before it is parked in the dead-letter queue."""

MAX_RECEIVE_COUNT = 1000
"""SQS's limit for maxReceiveCount."""

BACKSTOP_MARGIN = 10
"""How many receives beyond the most attempts SQS's own redrive waits for, so that releases and
crashes don't trigger it before the worker has decided."""


class _Declare(Protocol):
    """What `Queue.job` returns: a decorator that turns a handler into its `JobType`."""

    @overload
    def __call__(self, function: Callable[[P, JobContext], Awaitable[R]], /) -> JobType[P, R]: ...
    @overload
    def __call__(self, function: Callable[[P], Awaitable[R]], /) -> JobType[P, R]: ...
    @overload
    def __call__(self, function: Callable[[P, JobContext], R], /) -> JobType[P, R]: ...
    @overload
    def __call__(self, function: Callable[[P], R], /) -> JobType[P, R]: ...


class Queue:
    """A queue group: one SQS queue a priority, and what its job types share.

    Args:
        name: lower-case words joined by hyphens; goes into the physical names.
        priorities: the priorities that exist; each is an SQS queue with its dead-letter queue.
        lanes: other numbers than `DEFAULT_LANES` for some priorities.
        retry: the policy of types that declare none.
        rate_limit: at most so many starts of this group's jobs in a while.
    """

    def __init__(
        self,
        name: str,
        *,
        priorities: Iterable[Priority] = tuple(Priority),
        lanes: Mapping[Priority, Lane] | None = None,
        retry: Retry = DEFAULT_RETRY,
        rate_limit: RateLimit | None = None,
    ) -> None:
        self.name = check_name("the queue", name)
        self.retry = retry
        self.rate_limit = rate_limit
        chosen = _priorities(name, priorities)
        self.lanes = {priority: DEFAULT_LANES[priority] for priority in chosen}
        for priority, lane in (lanes or {}).items():
            self._check_priority(priority)
            self.lanes[priority] = lane
        self._own: dict[str, JobType[Any, Any]] = {}
        self._registries = [self._own]

    def job(
        self,
        name: str,
        *,
        priority: Priority | None = None,
        timeout: timedelta | None = None,
        retry: Retry | None = None,
        schema: int = 1,
        schedule: Schedule | None = None,
    ) -> _Declare:
        """Declare a job type together with its handler; used as a decorator.

        Args:
            name: what messages call the type; lower-case words joined by hyphens.
            priority: the queue its jobs go to; None takes NORMAL, or the group's only one.
            timeout: the longest that one attempt may take; None leaves SQS's limit of 12 h.
            retry: None takes the queue's.
            schema: the version of the payload; raise it when old workers couldn't read the new one.
            schedule: when it is submitted by itself, with a payload of the model's defaults.

        Raises:
            DuplicateJobType: the app or queue has a type of that name.
            ConfigurationError: the handler's signature or an argument doesn't fit.
        """

        if not isinstance(name, str):
            raise ConfigurationError(
                f'a job type needs a name, got {name!r}: write @app.job("send-email")'
            )

        def declare(function: Callable[..., Any], /) -> JobType[Any, Any]:
            declared = self.define(
                name,
                payload_type(name, function),
                priority=priority,
                timeout=timeout,
                retry=retry,
                schema=schema,
                schedule=schedule,
            )
            declared.handler(function)
            return declared

        return declare

    @overload
    def define(
        self,
        name: str,
        payload: type[P],
        *,
        priority: Priority | None = ...,
        timeout: timedelta | None = ...,
        retry: Retry | None = ...,
        schema: int = ...,
        schedule: Schedule | None = ...,
    ) -> JobType[P, None]: ...
    @overload
    def define(
        self,
        name: str,
        payload: type[P],
        *,
        returns: type[R],
        priority: Priority | None = ...,
        timeout: timedelta | None = ...,
        retry: Retry | None = ...,
        schema: int = ...,
        schedule: Schedule | None = ...,
    ) -> JobType[P, R]: ...
    def define(
        self,
        name: str,
        payload: type[Any],
        *,
        returns: type[Any] | None = None,  # noqa: ARG002 - types the handler and the result
        priority: Priority | None = None,
        timeout: timedelta | None = None,
        retry: Retry | None = None,
        schema: int = 1,
        schedule: Schedule | None = None,
    ) -> JobType[Any, Any]:
        """Declare a job type without its handler, for code that only submits.

        The arguments and errors are `job`'s; ``payload`` is the model and ``returns`` what the
        handler returns, for the type checker.
        """
        check_name("the job type", name)
        _check_kinds(name, retry, schedule)
        declared: JobType[Any, Any] = JobType(
            name,
            payload,
            queue=self.name,
            priority=self._check_priority(priority or self._default_priority(name)),
            retry=retry or self.retry,
            timeout=timeout,
            schema=schema,
            schedule=schedule,
        )
        if schedule is not None:
            _check_defaults(declared)
        _register(self._registries, declared)
        return declared

    def join(self, registry: dict[str, JobType[Any, Any]]) -> None:
        """Keep this queue's types, present and future, in an app's registry.

        Raises:
            DuplicateJobType: the registry has a type of one of their names.
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

    def _check_priority(self, priority: Priority) -> Priority:
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


def _check_kinds(name: str, retry: object, schedule: object) -> None:
    if not isinstance(retry, Retry | None):
        raise ConfigurationError(
            f"the type {name!r}: retry must be a Retry, got {retry!r}: write Retry(attempts=5)"
        )
    if not isinstance(schedule, Schedule | None):
        raise ConfigurationError(
            f"the type {name!r}: schedule must be made by cron(...) or rate(...), got {schedule!r}"
        )


def _priorities(queue: str, wanted: Iterable[Priority]) -> list[Priority]:
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


class App:
    """A job system: its queues, its job types and their policies.

    Args:
        name: lower-case words joined by hyphens; the first part of every physical name.
        stage: such as ``prod``; the second part of every physical name. None takes
            ``HEADGATE_STAGE``, and without that there is none.
        handlers: modules that a worker imports, and a submitter doesn't, to attach handlers.
        parking: how often and how far apart a message that can't be run here is tried again
            before it is parked in the dead-letter queue.

    Raises:
        ConfigurationError: a name is not fit for AWS.
    """

    def __init__(
        self,
        name: str,
        *,
        stage: str | None = None,
        handlers: Iterable[str] = (),
        parking: Retry = DEFAULT_PARKING,
    ) -> None:
        self.name = check_name("the app", name)
        stage = stage if stage is not None else Settings.from_env().stage
        self.stage = check_name("the stage", stage) if stage else None
        if isinstance(handlers, str):
            raise ConfigurationError(f"App(handlers=...) takes a list: write [{handlers!r}]")
        self.handler_modules = tuple(handlers)
        self.parking = parking
        self._types: dict[str, JobType[Any, Any]] = {}
        self._queues: dict[str, Queue] = {}
        self._topologies: dict[tuple[int, int], Topology] = {}
        default = Queue(DEFAULT_QUEUE)
        self.include(default)
        self.job = default.job
        """`Queue.job` of the default queue, ``jobs``."""
        self.define = default.define
        """`Queue.define` of the default queue, ``jobs``."""

    def __repr__(self) -> str:
        return f"<App {self.name}: {len(self._types)} job types>"

    def queue(
        self,
        name: str,
        *,
        priorities: Iterable[Priority] = tuple(Priority),
        lanes: Mapping[Priority, Lane] | None = None,
        retry: Retry = DEFAULT_RETRY,
        rate_limit: RateLimit | None = None,
    ) -> Queue:
        """Declare a queue group; the arguments are `Queue`'s."""
        declared = Queue(
            name, priorities=priorities, lanes=lanes, retry=retry, rate_limit=rate_limit
        )
        self.include(declared)
        return declared

    def include(self, *queues: Queue) -> None:
        """Take in queues, with their types, that were declared in modules of their own.

        Raises:
            ConfigurationError: the app has a queue of that name.
            DuplicateJobType: the app has a type of that name.
        """
        for queue in queues:
            if queue.name in self._queues:
                raise ConfigurationError(
                    f"the app {self.name!r} has two queues {queue.name!r}: rename one "
                    f"(every app has a queue {DEFAULT_QUEUE!r} from the start)"
                )
            queue.join(self._types)
            self._queues[queue.name] = queue

    @property
    def queues(self) -> Mapping[str, Queue]:
        """Every queue group by name, the default one included."""
        return self._queues

    @property
    def types(self) -> Mapping[str, JobType[Any, Any]]:
        """Every job type by name."""
        return self._types

    def find_type(self, name: str) -> JobType[Any, Any]:
        """The job type of that name.

        Raises:
            UnknownJobType: the app has none of that name.
        """
        if name not in self._types:
            raise UnknownJobType(
                f"the app {self.name!r} has no job type {name!r}: {did_you_mean(name, self._types)}"
            )
        return self._types[name]

    @property
    def topology(self) -> Topology:
        """What this app has on AWS, as far as it is declared by now."""
        declared = len(self._queues), len(self._types)  # neither is ever taken back
        if declared not in self._topologies:
            self._topologies = {declared: self._describe()}
        return self._topologies[declared]

    def _describe(self) -> Topology:
        return Topology(
            app=self.name,
            stage=self.stage,
            queues=tuple(
                self._spec(queue, priority)
                for queue in self._queues.values()
                if queue.name != DEFAULT_QUEUE or self._types_of(queue)
                for priority in queue.lanes
            ),
            quarantine_name=physical_name(self.name, self.stage, "quarantine"),
        )

    def load_handlers(self) -> None:
        """Import the modules of ``handlers=``; what a worker does before it starts.

        Raises:
            AppImportError: a module can't be imported.
            HandlerMissing: a type still has no handler afterwards.
            ConfigurationError: pydantic can't read the payloads of a type.
        """
        for module in self.handler_modules:
            _import(module, f"App({self.name!r}, handlers=[{module!r}])")
        for declared in self._types.values():
            declared.require_runnable()

    def _types_of(self, queue: Queue) -> list[JobType[Any, Any]]:
        return [declared for declared in self._types.values() if declared.queue == queue.name]

    def _spec(self, queue: Queue, priority: Priority) -> QueueSpec:
        most = max((declared.retry.attempts for declared in self._types_of(queue)), default=1)
        parts = (self.name, self.stage, queue.name, str(priority))
        return QueueSpec(
            group=queue.name,
            priority=priority,
            name=physical_name(*parts),
            dlq_name=physical_name(*parts, "dlq"),
            lane=queue.lanes[priority],
            max_receive_count=min(
                max(most, self.parking.attempts) + BACKSTOP_MARGIN, MAX_RECEIVE_COUNT
            ),
        )


def load_app(path: str) -> App:
    """The `App` at ``module:attribute``, such as ``shop.app:app``.

    Raises:
        AppImportError: the path is malformed, the module doesn't import, it has no such attribute,
            or the attribute is no App.
    """
    module_name, _, attribute = path.partition(":")
    if not module_name or not attribute:
        raise AppImportError(f"{path!r} is no app path: write module:attribute, as in shop.app:app")
    module = _import(module_name, f"the app path {path!r}")
    if not hasattr(module, attribute):
        raise AppImportError(
            f"the module {module_name!r} was imported, but has no {attribute!r}: "
            f"{did_you_mean(attribute, _apps_of(module))}"
        )
    found = getattr(module, attribute)
    if not isinstance(found, App):
        raise AppImportError(f"{path!r} is a {type(found).__name__}, not a headgate App")
    return found


def _apps_of(module: ModuleType) -> list[str]:
    return [name for name, value in vars(module).items() if isinstance(value, App)]


def _import(module: str, wanted_by: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(error.name + ".")):
            raise AppImportError(
                f"{wanted_by}: there is no module {error.name!r}. "
                f"Looked in the current directory and the installed packages"
            ) from error
        raise AppImportError(
            f"{wanted_by}: the module {module!r} was found, but it imports {error.name!r}, "
            "which is not installed"
        ) from error
    except HeadgateError:
        raise
    except Exception as error:
        raise AppImportError(
            f"{wanted_by}: importing the module {module!r} raised {type(error).__name__}: {error}"
        ) from error
