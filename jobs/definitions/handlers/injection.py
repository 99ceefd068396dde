"""Parameters that get a job's context or a resource, by the annotations of a user's function."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from headgate.jobs.definitions.handlers.batch_context import AnyContext, BatchContext
from headgate.jobs.definitions.handlers.context import JobContext
from headgate.jobs.errors import ConfigurationError
from headgate.jobs.values.kinds import bare
from headgate.jobs.values.light_dataclass import light_dataclass

Shared = Mapping[Any, Any]
"""Open resources by kind: their type, or the ``Annotated`` type that tells two of a type apart."""

NOTHING: Shared = {}

ContextType = type[JobContext] | type[BatchContext]
"""The class of the context that a function gets."""


@light_dataclass(frozen=True, slots=True)
class Injected:
    """The parameters of a function that are injected."""

    context: str | None
    """The name of the context's parameter; None if the function takes none."""
    wanted: Mapping[str, Any]
    """The kinds of the resources that it takes, by the names of their parameters."""

    def arguments(self, ctx: AnyContext | None, opened: Shared) -> dict[str, Any]:
        """Return the arguments for one call."""
        arguments = {name: opened[kind] for name, kind in self.wanted.items()}
        if self.context is not None:
            arguments[self.context] = ctx
        return arguments


def injected(
    owner: str,
    function: Callable[..., Any],
    *,
    payload: bool = False,
    context: ContextType = JobContext,
) -> Injected:
    """Return the parameters of a function that are injected: those without default.

    Args:
        owner: the name of the function in errors.
        function: the function.
        payload: True if a job's payload, or a batch's items, are passed first.
        context: the class of its context.

    Raises:
        ConfigurationError: a parameter can't get a value, or an annotation can't be resolved.
    """
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())[1 if payload else 0 :]
    required = _required(parameters)
    try:
        signature.bind(*([None] if payload else []), **dict.fromkeys(required))
    except TypeError as error:
        first = "the payload first, and whatever else" if payload else "no payload, and what"
        raise ConfigurationError(
            f"{owner} must take {first} it needs by named parameters; its signature is {signature}"
        ) from error
    hints = hints_of(owner, function)
    takes_context: str | None = None
    wanted: dict[str, Any] = {}
    for parameter in parameters:
        kind = hints.get(parameter.name, parameter.annotation)
        _check_context(owner, parameter, kind, context)
        if _is_context(parameter, kind, context, first=takes_context is None):
            takes_context = parameter.name
        elif parameter.name in required:
            wanted[parameter.name] = _resource(owner, parameter, kind)
    return Injected(takes_context, wanted)


def hints_of(owner: str, function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations of a function, with the metadata of ``Annotated``.

    Args:
        owner: the name of the function in errors.
        function: the function.

    Raises:
        ConfigurationError: one can't be resolved.
    """
    try:
        return typing.get_type_hints(function, include_extras=True)
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        raise ConfigurationError(
            f"{owner} has an annotation that can't be resolved: {error}. Define or import it at "
            "module level, not inside a function and not under TYPE_CHECKING"
        ) from error


def names_context(kind: Any, context: ContextType = JobContext) -> bool:
    """Return True if an annotation is that of the job's context, or of another one."""
    kind = bare(kind)
    return kind is context or any(bare(each) is context for each in typing.get_args(kind))


def checked_kind(owner: str, kind: Any) -> Any:
    """Return the kind of a resource.

    Raises:
        ConfigurationError: the metadata that tells it apart can't be compared with another's.
    """
    try:
        hash(kind)
    except TypeError as error:
        raise ConfigurationError(
            f"{owner} has a resource of {kind}, whose metadata is not hashable: tell resources "
            'apart by a text, as in Annotated[Pool, "replica"]'
        ) from error
    return kind


def name_of(kind: Any) -> str:
    """Return the name of a resource's kind in errors."""
    return getattr(kind, "__qualname__", None) or str(kind)


def _required(parameters: Iterable[inspect.Parameter]) -> list[str]:
    """Return the names of the parameters without default."""
    return [
        parameter.name
        for parameter in parameters
        if parameter.default is inspect.Parameter.empty
        and parameter.kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    ]


def _check_context(
    owner: str, parameter: inspect.Parameter, kind: Any, context: ContextType
) -> None:
    """Refuse a parameter for the context that the function doesn't get."""
    if context is JobContext and names_context(kind, BatchContext):
        raise ConfigurationError(
            f"{owner} takes a BatchContext as {parameter.name!r}, and is called for one job: "
            "annotate it with JobContext, or declare the type with batch=Batch(...)"
        )
    if context is BatchContext and names_context(kind, JobContext):
        raise ConfigurationError(
            f"{owner} takes a JobContext as {parameter.name!r}, and is called for a batch of jobs: "
            "annotate it with BatchContext, whose .jobs has the context of each"
        )


def _is_context(
    parameter: inspect.Parameter, kind: Any, context: ContextType, *, first: bool
) -> bool:
    """Return True for the context's parameter: annotated so, or the first one not annotated."""
    if names_context(kind, context):
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


def _resource(owner: str, parameter: inspect.Parameter, kind: Any) -> Any:
    # A number or a text is no shared resource: such a parameter is meant for a job's data.
    is_bare = typing.get_origin(kind) is not typing.Annotated
    if kind is inspect.Parameter.empty or (
        is_bare and getattr(kind, "__module__", None) == "builtins"
    ):
        raise ConfigurationError(
            f"{owner} has a parameter {parameter.name!r} that nothing can be passed to: annotate "
            "it with JobContext, or with the type of a resource. All of a job's data goes into "
            "the payload"
        )
    return checked_kind(owner, kind)
