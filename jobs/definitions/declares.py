"""Declaring job types, on an app, a queue or a router."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, Unpack, overload

from headgate.jobs.core.naming import check_name
from headgate.jobs.definitions.handled_job import Declare, HandledJob
from headgate.jobs.definitions.handlers.handler import item_type, payload_type
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.definitions.options.job_options import JobOptions
from headgate.jobs.errors import ConfigurationError

P = TypeVar("P")
R = TypeVar("R")
J = TypeVar("J", bound=JobType[Any, Any])


class Declares(ABC):
    """The methods that declare job types, shared by `App`, `Queue` and `Router`."""

    @property
    @abstractmethod
    def _queue_name(self) -> str:
        """The queue group of the types declared here."""

    @abstractmethod
    def _adopt(self, declared: JobType[Any, Any]) -> None:
        """Take in a new type.

        Raises:
            ConfigurationError: it doesn't fit the queue, or its name is taken.
        """

    def job(self, name: str, **options: Unpack[JobOptions]) -> Declare:
        """Declare a job type together with its handler; used as a decorator.

        Args:
            name: the type's name in messages; lower-case words joined by hyphens.
            options: see `jobs.definitions.options.job_options.JobOptions`.

        Raises:
            DuplicateJobType: the app, queue or router has a type of that name.
            ConfigurationError: the handler's signature or an option doesn't fit.
        """

        if not isinstance(name, str):
            raise ConfigurationError(
                f'a job type needs a name, got {name!r}: write @app.job("send-email")'
            )

        def declare(function: Callable[..., Any], /) -> Any:
            def make(**declaration: Any) -> HandledJob[Any, Any, ..., Any]:
                return HandledJob(function, **declaration)

            payload = payload_type if options.get("batch") is None else item_type
            return self._declare(make, name, payload(name, function), options)

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
        declared = make(name=name, payload=payload, queue=self._queue_name, options=options)
        for schedule in declared.schedules:
            declared.check_schedule_payload(schedule)
        self._adopt(declared)
        return declared
