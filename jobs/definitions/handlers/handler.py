"""Handlers, the functions that run jobs, and the parameters that their signatures ask for."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from typing import Any

from headgate.jobs.definitions.handlers.context import JobContext
from headgate.jobs.definitions.handlers.injection import (
    NOTHING,
    Shared,
    hints_of,
    injected,
    names_context,
)
from headgate.jobs.errors import ConfigurationError


class Handler:
    """A function that runs a job, with the parameters that its signature asks for."""

    def __init__(
        self, job_type: str, function: Callable[..., Any], *, takes_payload: bool = True
    ) -> None:
        _check_function(job_type, function)
        self.function = function
        self._takes_payload = takes_payload
        self.name = f"{function.__module__}.{function.__qualname__}"
        self.is_async = inspect.iscoroutinefunction(function)
        owner = _owner(job_type, function)
        self._injected = injected(owner, function, payload=takes_payload)
        self.returns = hints_of(owner, function).get("return", Any)
        """The annotated return type; for an async function, the type of the awaited result."""

    @property
    def wants(self) -> Collection[Any]:
        """The kinds of the resources that it takes."""
        return self._injected.wanted.values()

    def call(self, payload: Any, ctx: JobContext, shared: Shared = NOTHING) -> Any:
        """Call the function; return a synchronous one's result, or an async one's coroutine.

        Args:
            payload: passed first, if its type has one.
            ctx: passed if the signature asks for it.
            shared: open resources by kind; those that the signature asks for are passed.

        Raises:
            ConfigurationError: a synchronous function returned an awaitable. It would never be
                awaited, and the job would count as done without having run.
        """
        arguments = self._injected.arguments(ctx, shared)
        result = self.function(*([payload] if self._takes_payload else []), **arguments)
        if not self.is_async and inspect.isawaitable(result):
            if inspect.iscoroutine(result):
                result.close()
            raise ConfigurationError(
                f"the handler {self.name} returned an awaitable without being `async def`, as a "
                "plain wrapper around an async function does: make it, or the wrapper, async"
            )
        return result


def payload_type(job_type: str, function: Callable[..., Any]) -> type[Any] | None:
    """Return the annotation of a handler's first parameter; None if the handler takes no payload.

    A handler without payload has no parameters, or takes the context first.

    Raises:
        ConfigurationError: the parameter has no annotation, the annotation can't be resolved, or
            the handler is not a function.
    """
    _check_function(job_type, function)
    first = next(iter(inspect.signature(function).parameters.values()), None)
    if first is None:
        return None
    hints = hints_of(_owner(job_type, function), function)
    if first.name not in hints:
        raise ConfigurationError(
            f"the handler {function.__qualname__} of {job_type!r} must annotate its first "
            "parameter: with the payload's type, or with JobContext if the job has no payload"
        )
    found: type[Any] = hints[first.name]
    return None if names_context(found) else found


def _owner(job_type: str, function: Callable[..., Any]) -> str:
    return f"the handler {function.__qualname__} of {job_type!r}"


def _check_function(job_type: str, function: Callable[..., Any]) -> None:
    if not inspect.isroutine(function):
        raise ConfigurationError(
            f"the handler of {job_type!r} must be a function or a method, got {function!r}"
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigurationError(
            f"the handler {function.__qualname__} of {job_type!r} is a generator: calling it "
            "would run none of it. Remove the yield"
        )
