"""Handlers, the functions that run jobs, and the parameters that their signatures ask for."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Collection, Iterable
from typing import Any

from headgate.jobs.core.context import JobContext
from headgate.jobs.definitions.resources import NOTHING, Shared
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
        self._context, self._wanted = _injected(job_type, function, takes_payload=takes_payload)
        self.returns = _hints(job_type, function).get("return", Any)
        """The annotated return type; for an async function, the type of the awaited result."""

    @property
    def wants(self) -> Collection[Any]:
        """The types of the resources that it takes."""
        return self._wanted.values()

    def call(self, payload: Any, ctx: JobContext, shared: Shared = NOTHING) -> Any:
        """Call the function; return a synchronous one's result, or an async one's coroutine.

        Args:
            payload: passed first, if its type has one.
            ctx: passed if the signature asks for it.
            shared: open resources by type; those that the signature asks for are passed.

        Raises:
            ConfigurationError: a synchronous function returned an awaitable. It would never be
                awaited, and the job would count as done without having run.
        """
        arguments = {name: shared[kind] for name, kind in self._wanted.items()}
        if self._context is not None:
            arguments[self._context] = ctx
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
    hints = _hints(job_type, function)
    if first.name not in hints:
        raise ConfigurationError(
            f"the handler {function.__qualname__} of {job_type!r} must annotate its first "
            "parameter: with the payload's type, or with JobContext if the job has no payload"
        )
    found: type[Any] = hints[first.name]
    return None if _names_context(found) else found


def _check_function(job_type: str, function: Callable[..., Any]) -> None:
    if not inspect.isroutine(function):
        raise ConfigurationError(
            f"the handler of {job_type!r} must be a function or a method, got {function!r}"
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigurationError(
            f"the handler {function.__qualname__} of {job_type!r} is a generator: calling it "
            "would run none of it. Take out the yield"
        )


def _injected(
    job_type: str, function: Callable[..., Any], *, takes_payload: bool
) -> tuple[str | None, dict[str, Any]]:
    """Return the name of the context's parameter, and those of resources with their types."""
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())[1 if takes_payload else 0 :]
    required = _required(parameters)
    try:
        signature.bind(*([None] if takes_payload else []), **dict.fromkeys(required))
    except TypeError as error:
        first = "the payload first, and whatever else" if takes_payload else "no payload, and what"
        raise ConfigurationError(
            f"the handler {function.__qualname__} of {job_type!r} must take {first} it needs by "
            f"parameters with a name; its signature is {signature}"
        ) from error
    hints = _hints(job_type, function)
    context: str | None = None
    wanted: dict[str, Any] = {}
    for parameter in parameters:
        kind = hints.get(parameter.name, parameter.annotation)
        if _is_context(parameter, kind, first=context is None):
            context = parameter.name
        elif parameter.name in required:
            wanted[parameter.name] = _resource(job_type, function, parameter, kind)
    return context, wanted


def _required(parameters: Iterable[inspect.Parameter]) -> list[str]:
    """Return the names of the parameters without default."""
    return [
        parameter.name
        for parameter in parameters
        if parameter.default is inspect.Parameter.empty
        and parameter.kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    ]


def _names_context(kind: Any) -> bool:
    return kind is JobContext or JobContext in typing.get_args(kind)


def _is_context(parameter: inspect.Parameter, kind: Any, *, first: bool) -> bool:
    """Return True for the context's parameter: annotated so, or the first one not annotated."""
    if _names_context(kind):
        return True
    bare = kind is inspect.Parameter.empty and parameter.default is inspect.Parameter.empty
    return (
        first
        and bare
        and parameter.kind
        in (
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            inspect.Parameter.KEYWORD_ONLY,
        )
    )


def _resource(
    job_type: str, function: Callable[..., Any], parameter: inspect.Parameter, kind: Any
) -> Any:
    # A number or a text is no shared resource: such a parameter is meant for a job's data.
    if kind is inspect.Parameter.empty or getattr(kind, "__module__", None) == "builtins":
        raise ConfigurationError(
            f"the handler {function.__qualname__} of {job_type!r} has a parameter "
            f"{parameter.name!r} that nothing can be handed to: annotate it with JobContext, or "
            "with the type of a resource. All of a job's data goes into the payload"
        )
    return kind


def _hints(job_type: str, function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        raise ConfigurationError(
            f"the handler {function.__qualname__} of {job_type!r} has an annotation that can't be "
            f"resolved: {error}. Define or import it at module level, not inside a function and "
            "not under TYPE_CHECKING"
        ) from error
