"""A job type that was declared together with its handler, and is called as the handler is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from functools import update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from headgate.jobs.core.context import JobContext
from headgate.jobs.definitions.job_type import JobType

P = TypeVar("P")
R = TypeVar("R")
Returned = TypeVar("Returned")
Params = ParamSpec("Params")
Rest = ParamSpec("Rest")


class HandledJob(JobType[P, R], Generic[P, R, Params, Returned]):
    """What ``@app.job(...)`` makes of a handler: the type of its jobs, still called as a function.

    A call runs the function here and now, with the arguments that it is given and nothing else: no
    queue, no retries, no timeout, and neither context nor resources by themselves.

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
    """What `Queue.job` returns: a decorator that turns a handler into its `HandledJob`."""

    # The narrower come first: what takes the context alone, or nothing, has no payload.
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
        self, function: Callable[Concatenate[P, Rest], Awaitable[R]], /
    ) -> HandledJob[P, R, Concatenate[P, Rest], Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[P, Rest], R], /
    ) -> HandledJob[P, R, Concatenate[P, Rest], R]: ...
