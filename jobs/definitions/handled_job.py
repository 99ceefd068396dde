"""Job types that were declared together with their handlers, and are callable like these."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from functools import update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from headgate.jobs.definitions.handlers.batch_context import BatchContext
from headgate.jobs.definitions.handlers.batch_results import Results
from headgate.jobs.definitions.handlers.context import JobContext
from headgate.jobs.definitions.job_type import JobType

P = TypeVar("P")
R = TypeVar("R")
Returned = TypeVar("Returned")
Params = ParamSpec("Params")
Rest = ParamSpec("Rest")


class HandledJob(JobType[P, R], Generic[P, R, Params, Returned]):
    """The result of decorating a handler with ``@app.job(...)``: a job type, callable as before.

    A call runs the function directly, with the given arguments and nothing else: no queue, no
    retries, no timeout, and no injected context or resources.

    Example:
        >>> @app.job("greet")  # doctest: +SKIP
        ... async def greet(greeting: Greeting, ctx: JobContext) -> None: ...
        >>> client.submit(greet, Greeting(to="Ada"))
        >>> await greet(Greeting(to="Ada"), ctx)
    """

    def __init__(self, function: Callable[..., Any], **declaration: Any) -> None:
        super().__init__(**declaration)
        self.handler(function)
        update_wrapper(self, function, updated=())

    def __call__(self, *args: Params.args, **kwargs: Params.kwargs) -> Returned:
        """Call the handler."""
        returned: Returned = self.require_handler().function(*args, **kwargs)
        return returned


class Declare(Protocol):
    """The decorator returned by `Queue.job`, which turns a handler into its `HandledJob`."""

    # The narrower overloads come first: a handler of the context alone, or of nothing, has no
    # payload, and one of a `BatchContext` takes the payloads of several jobs.
    @overload
    def __call__(
        self, function: Callable[[], Awaitable[R]], /
    ) -> HandledJob[None, R, [], Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(self, function: Callable[[], R], /) -> HandledJob[None, R, [], R]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[JobContext, Rest], Awaitable[R]], /
    ) -> HandledJob[None, R, Concatenate[JobContext, Rest], Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[JobContext, Rest], R], /
    ) -> HandledJob[None, R, Concatenate[JobContext, Rest], R]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[list[P], BatchContext, Rest], Awaitable[None]], /
    ) -> HandledJob[
        P, None, Concatenate[list[P], BatchContext, Rest], Coroutine[Any, Any, None]
    ]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[list[P], BatchContext, Rest], None], /
    ) -> HandledJob[P, None, Concatenate[list[P], BatchContext, Rest], None]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[list[P], BatchContext, Rest], Awaitable[Results[R]]], /
    ) -> HandledJob[
        P, R, Concatenate[list[P], BatchContext, Rest], Coroutine[Any, Any, Results[R]]
    ]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[list[P], BatchContext, Rest], Results[R]], /
    ) -> HandledJob[P, R, Concatenate[list[P], BatchContext, Rest], Results[R]]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[P, Rest], Awaitable[R]], /
    ) -> HandledJob[P, R, Concatenate[P, Rest], Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[P, Rest], R], /
    ) -> HandledJob[P, R, Concatenate[P, Rest], R]: ...
