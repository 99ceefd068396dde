"""Handlers, the functions that run jobs, and the parameters that their signatures ask for."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from typing import Any, get_args, get_origin

from headgate.jobs.definitions.handlers.batch_context import AnyContext, BatchContext
from headgate.jobs.definitions.handlers.batch_results import LISTS, result_of_one
from headgate.jobs.definitions.handlers.context import JobContext
from headgate.jobs.definitions.handlers.injection import (
    NOTHING,
    Shared,
    hints_of,
    injected,
    names_context,
)
from headgate.jobs.definitions.options.batch import Batch
from headgate.jobs.errors import ConfigurationError
from headgate.jobs.values.kinds import bare


class Handler:
    """A function that runs a job, or a batch of jobs, with the parameters that it asks for."""

    def __init__(
        self,
        job_type: str,
        function: Callable[..., Any],
        *,
        takes_payload: bool = True,
        batch: Batch | None = None,
    ) -> None:
        _check_function(job_type, function)
        self.function = function
        self.batch = batch
        """The jobs that one call takes; None if it takes one, and its payload alone."""
        self._takes_payload = takes_payload
        self.name = f"{function.__module__}.{function.__qualname__}"
        self.is_async = inspect.iscoroutinefunction(function)
        owner = _owner(job_type, function)
        if batch is not None:
            item_type(job_type, function)
        context = JobContext if batch is None else BatchContext
        self._injected = injected(owner, function, payload=takes_payload, context=context)
        self.takes_context = self._injected.context is not None
        """True if its signature asks for the context."""
        returns = hints_of(owner, function).get("return", Any)
        self.returns = returns if batch is None else result_of_one(owner, returns)
        """The annotated type of a job's result, as awaited if the function is async."""

    @property
    def wants(self) -> Collection[Any]:
        """The kinds of the resources that it takes."""
        return self._injected.wanted.values()

    def call(self, payload: Any, ctx: AnyContext | None, shared: Shared = NOTHING) -> Any:
        """Call the function; return a synchronous one's result, or an async one's coroutine.

        Args:
            payload: passed first, if its type has one; for a batch, the list of payloads.
            ctx: passed if the signature asks for it; may be None if it does not.
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


def item_type(job_type: str, function: Callable[..., Any]) -> type[Any]:
    """Return the type of the payloads that a batch handler takes as a list.

    Raises:
        ConfigurationError: it doesn't take a list and a `BatchContext` first, or an annotation
            can't be resolved; or the handler is not a function.
    """
    _check_function(job_type, function)
    owner = _owner(job_type, function)
    hints = hints_of(owner, function)
    items, ctx, *_ = [*map(hints.get, inspect.signature(function).parameters), None, None]
    items = bare(items)
    if get_origin(items) not in LISTS or not names_context(ctx, BatchContext):
        raise ConfigurationError(
            f"{owner} runs batches, so it takes the payloads of several jobs first, and their "
            "context: write (items: list[Email], ctx: BatchContext)"
        )
    found: type[Any] = get_args(items)[0]
    return found


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
