"""Job types: the contracts that submitters and workers share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import (
    Any,
    Concatenate,
    Generic,
    Never,
    ParamSpec,
    TypeAlias,
    TypeVar,
    Unpack,
    overload,
)

from headgate.jobs.core.limits import Limits
from headgate.jobs.core.retention import check_keep, check_level
from headgate.jobs.core.topology import Priority
from headgate.jobs.definitions.handlers.batch_context import BatchContext
from headgate.jobs.definitions.handlers.batch_results import Results
from headgate.jobs.definitions.handlers.context import JobContext
from headgate.jobs.definitions.handlers.handler import Handler
from headgate.jobs.definitions.handlers.hooks import Hooks
from headgate.jobs.definitions.options.batch import check_batch
from headgate.jobs.definitions.options.bundle import check_bundle
from headgate.jobs.definitions.options.job_options import (
    Isolation,
    JobOptions,
    check_expires,
    check_options,
    check_schedule,
    check_timeout,
)
from headgate.jobs.definitions.options.place import Place
from headgate.jobs.definitions.options.replay import check_replay
from headgate.jobs.definitions.options.submit_options import SubmitOptions
from headgate.jobs.definitions.payload_format import PayloadFormat
from headgate.jobs.definitions.result_format import ResultFormat
from headgate.jobs.definitions.schedules.declared import (
    DeclaredSchedule,
    further_name,
    own_schedule,
)
from headgate.jobs.definitions.schedules.schedule import Schedule
from headgate.jobs.errors import ConfigurationError, HandlerMissing, PayloadInvalid
from headgate.jobs.messages.schema_upgrades import upgraded
from headgate.jobs.retry.policy import Retry
from headgate.jobs.values.round_trips import Loss

P = TypeVar("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
Rest = ParamSpec("Rest")

Given: TypeAlias = P | Callable[[P], Never]
"""A payload of the type that the `JobType` argument takes. No payload is a function that never
returns, but this alternative makes mypy infer ``P`` from the job alone before it checks the
payload. A TypedDict may thus be given as a dict display, and errors are about the payload."""


# Made for each job, unlike what `frozen_dataclass` is for: a constructor of its own takes less.
@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob(Generic[R_co]):
    """A job that has not been submitted yet: created by `JobType.new`, and accepted by `submit`
    and `submit_many`. ``R_co`` is the type that its handler returns."""

    type: JobType[Any, R_co]
    payload: Any
    overrides: SubmitOptions


class JobType(Hooks, Generic[P, R]):
    """The contract of one kind of job: its name, payload, queue and policy.

    Created by `Queue.job`, `Queue.define` and the same methods of `App`.
    """

    def __init__(
        self,
        name: str,
        payload: type[P] | None,
        *,
        queue: str,
        options: JobOptions,
        returns: Any = None,
    ) -> None:
        super().__init__()
        check_options(name, options)
        self.name = name
        self.payload = payload
        """The payload's type; None if its jobs have no payload."""
        self._payloads = PayloadFormat(name, payload)
        self.queue = queue
        self.place = Place(name, queue, options.get("priority"), options.get("retry"))
        self.other_priorities = tuple(options.get("other_priorities", ()))
        """Further priorities that submissions of its jobs may take."""
        own = "timeout" in options
        self.timeout = check_timeout(f"the type {name!r}", options["timeout"]) if own else None
        """The type's own timeout of one attempt; None takes the app's."""
        self.expires = check_expires(name, options.get("expires"))
        """The time from when a job is due within which it has to start; None: any time."""
        self.schema = options.get("schema", 1)
        self.upgrades = dict(options.get("upgrade", {}))
        self.upgrades_from = dict(options.get("upgrade_from", {}))
        self.accepts = options.get("accepts")
        self.runs_from = tuple(dict.fromkeys((queue, *options.get("accepts_from", ()))))
        """The queue groups whose messages may run as this type: its own, then ``accepts_from``."""
        self.schedule = options.get("schedule")
        self._schedules = own_schedule(
            name, options.get("schedule"), options.get("schedule_payload")
        )
        self.isolation: Isolation = options.get("isolation", "worker")
        self.memory_mib = options.get("memory_mib")
        self.group_by = options.get("group_by")
        self.batch = check_batch(name, options.get("batch"), payload, self.isolation)
        """The jobs that one call of its handler takes; None if it takes one."""
        records = options.get("records")
        self.records = None if records is None else check_level(records)
        """The type's own level of records; None takes the app's. Likewise ``keep``."""
        self.keep = check_keep(f"the type {name!r}", options.get("keep"))
        self.once = options.get("once", False)
        self.alert_at_once = options.get("alert_at_once", False)
        self.replay = check_replay(f"the type {name!r}", options.get("replay"))
        self.has_own_replay = "replay" in options
        """True if ``replay``, even None, counts in place of the app's."""
        self.unique = options.get("unique")
        self.bundle = check_bundle(f"the type {name!r}", options.get("bundle", False))
        """The bundles in which its jobs travel; None sends each in a message of its own."""
        self.limits = Limits.of(options)
        self._returns = returns
        self._results: ResultFormat[R] = ResultFormat(name, Any if returns is None else returns)
        self._handler: Handler | None = None

    def __repr__(self) -> str:
        return f"<JobType {self.name} on {self.place}>"

    @property
    def priority(self) -> Priority:
        """The priority of its jobs.

        Raises:
            ConfigurationError: it was declared on a router that is not included in an app.
        """
        return self.place.priority

    @property
    def retry(self) -> Retry:
        """The retry policy of its jobs; raises as `priority` does."""
        return self.place.retry

    @overload
    def handler(
        self: JobType[None, R], function: Callable[[], Awaitable[R]], /
    ) -> Callable[[], Awaitable[R]]: ...
    @overload
    def handler(
        self: JobType[None, R], function: Callable[Concatenate[JobContext, Rest], Awaitable[R]], /
    ) -> Callable[Concatenate[JobContext, Rest], Awaitable[R]]: ...
    @overload
    def handler(self: JobType[None, R], function: Callable[[], R], /) -> Callable[[], R]: ...
    @overload
    def handler(
        self: JobType[None, R], function: Callable[Concatenate[JobContext, Rest], R], /
    ) -> Callable[Concatenate[JobContext, Rest], R]: ...
    @overload
    def handler(  # type: ignore[overload-overlap]  # its P might be a list, and its R too
        self, function: Callable[Concatenate[list[P], BatchContext, Rest], Awaitable[Results[R]]], /
    ) -> Callable[Concatenate[list[P], BatchContext, Rest], Awaitable[Results[R]]]: ...
    @overload
    def handler(  # type: ignore[overload-overlap]  # likewise
        self, function: Callable[Concatenate[list[P], BatchContext, Rest], Results[R]], /
    ) -> Callable[Concatenate[list[P], BatchContext, Rest], Results[R]]: ...
    @overload
    def handler(
        self, function: Callable[Concatenate[P, Rest], Awaitable[R]], /
    ) -> Callable[Concatenate[P, Rest], Awaitable[R]]: ...
    @overload
    def handler(
        self, function: Callable[Concatenate[P, Rest], R], /
    ) -> Callable[Concatenate[P, Rest], R]: ...
    def handler(self, function: Callable[..., Any], /) -> Callable[..., Any]:
        """Attach the handler that runs the jobs; used as a decorator.

        It takes the payload first, if there is one. A parameter annotated with `JobContext` gets
        the context, and one annotated with the type of an app's resource gets that resource. With
        ``batch=`` it takes a list of payloads and a `BatchContext`, and returns None, or a list
        with the result of each job, where an exception is the failure of its job.

        Raises:
            ConfigurationError: the type has a handler already, or the function has a parameter
                without a possible value.
        """
        if self._handler is not None:
            raise ConfigurationError(
                f"the type {self.name!r} has two handlers: {self._handler.name} "
                f"and {function.__qualname__}"
            )
        takes_payload = self.payload is not None
        self._handler = Handler(self.name, function, takes_payload=takes_payload, batch=self.batch)
        if self._returns is None:
            self._results = ResultFormat(self.name, self._handler.returns)
        return function

    @overload
    def new(self: JobType[None, R], **overrides: Unpack[SubmitOptions]) -> NewJob[R]: ...
    @overload
    def new(self, payload: P, **overrides: Unpack[SubmitOptions]) -> NewJob[R]: ...
    def new(self, payload: Any = None, **overrides: Unpack[SubmitOptions]) -> NewJob[R]:
        """Return a job of this type, to be submitted alone or with jobs of other types.

        Args:
            payload: the job's payload; left out for a job that has none. It is checked when the job
                is submitted.
            overrides: see `jobs.definitions.options.submit_options.SubmitOptions`.
        """
        return NewJob(type=self, payload=payload, overrides=overrides)

    @property
    def schedules(self) -> tuple[DeclaredSchedule, ...]:
        """All of its schedules: that of ``schedule=``, and those of `add_schedule`."""
        return tuple(self._schedules.values())

    def add_schedule(
        self, name: str, payload: P | None = None, *, schedule: Schedule
    ) -> DeclaredSchedule:
        """Declare a further schedule, with a payload of its own.

        Args:
            name: its name among the type's schedules, as lower-case words joined by hyphens; on AWS
                and in `headgate schedules` it follows the type's: ``daily-report.berlin``.
            payload: the payload of its jobs; None is the model's defaults.
            schedule: its times.

        Raises:
            ConfigurationError: the name is taken or not valid, or the payload doesn't fit.
        """
        whole = further_name(self.name, name)
        if whole in self._schedules:
            raise ConfigurationError(f"the type {self.name!r} has a schedule {name!r} already")
        check_schedule(self.name, schedule)
        declared = DeclaredSchedule(name=whole, when=schedule, payload=payload)
        self.check_schedule_payload(declared)
        self._schedules[whole] = declared
        return declared

    def check_schedule_payload(self, declared: DeclaredSchedule) -> None:
        """Check the payload of a schedule's jobs.

        Raises:
            ConfigurationError: it doesn't fit the type's model.
        """
        try:
            self.scheduled_payload(declared)
        except PayloadInvalid as error:
            raise ConfigurationError(
                f"the type {self.name!r} has a schedule {declared.name!r}, which submits the "
                f"payload given with it or, without one, the model's defaults: {error}"
            ) from error

    @property
    def has_handler(self) -> bool:
        """True if a handler is attached in this process."""
        return self._handler is not None

    def require_handler(self) -> Handler:
        """Return the handler.

        Raises:
            HandlerMissing: none is attached in this process.
        """
        if self._handler is None:
            raise HandlerMissing(
                f"the type {self.name!r} has no handler in this process: decorate one with "
                f"its .handler, in a module that App(handlers=[...]) names"
            )
        return self._handler

    def require_runnable(self) -> None:
        """Check that a worker can run this type, before it receives any job.

        Raises:
            HandlerMissing: no handler is attached in this process.
            ConfigurationError: pydantic can't read payloads of this type.
        """
        self.require_handler()
        self._payloads.require_readable()

    def require_writable(self) -> None:
        """Check that the handler's results can be kept, before a worker receives any job.

        Raises:
            ConfigurationError: pydantic doesn't know the type that the handler returns.
        """
        self._results.require_writable()

    def payload_losses(self) -> list[Loss]:
        """Return the fields of its payload that may reach the handler as something else.

        Raises:
            ConfigurationError: pydantic can't read payloads of this type.
        """
        return self._payloads.losses

    def result_losses(self) -> list[Loss]:
        """Return the fields of its results that may be read as something else than was returned.

        Raises:
            ConfigurationError: pydantic doesn't know the type that the handler returns.
        """
        return self._results.losses

    def dump(self, payload: P) -> Any:
        """Check the payload and return it as JSON values.

        Raises:
            PayloadInvalid: it doesn't fit the type's model, or the model's output can't be read
                back, or is read back as something else; names each field at fault.
        """
        return self._payloads.dump(payload)

    def dump_python(self, payload: P) -> Any:
        """Return a payload as `dump` does, but as Python values, in which its sets are sets."""
        return self._payloads.dump_python(payload)

    def load(self, value: Any, schema: int | None = None) -> P:
        """Read the payload from a message's JSON values.

        Args:
            value: the JSON values.
            schema: their version; None is the type's own. Older versions are upgraded.

        Raises:
            PayloadInvalid: it doesn't fit the type's model, naming each field at fault, or it could
                not be upgraded.
        """
        if schema is not None and schema < self.schema:
            value = upgraded(
                self.name, value, version=schema, schema=self.schema, upgrades=self.upgrades
            )
        return self._payloads.load(value)

    def scheduled_payload(self, declared: DeclaredSchedule) -> Any:
        """Return the payload of the jobs of one of its schedules, as JSON values.

        Without one of its own it is empty, so that the worker fills in the model's defaults: one
        such as today's date is then that of the run, not of the deployment.

        Raises:
            PayloadInvalid: it doesn't fit the type's model, or the model has no such defaults.
        """
        if declared.payload is not None:
            return self.dump(declared.payload)
        self.load({})
        return {}

    @property
    def returns(self) -> Any:
        """The type that its handler returns, as declared or annotated; ``Any`` without either."""
        return self._results.type

    def write_result(self, value: Any) -> bytes:
        """Write what the handler returned as JSON, by its return type; see `ResultFormat.write`."""
        return self._results.write(value)

    def load_result(self, value: Any) -> R:
        """Read the handler's result from the JSON values in its record.

        Raises:
            ValueError: they don't fit the handler's return type; names each field at fault.
        """
        return self._results.load(value)
