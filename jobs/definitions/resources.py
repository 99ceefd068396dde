"""Resources that handlers share, such as database pools and HTTP clients, opened once per process.

    @app.resource
    async def database() -> AsyncIterator[Pool]:
        async with create_pool() as pool:
            yield pool

    @app.job("send-email")
    async def send_email(email: Email, ctx: JobContext, pool: Pool) -> None: ...

A handler gets a resource by annotating a parameter with its type. Resources are opened in the order
of their declaration, before anything is received, and closed in reverse order, after all has ended.
"""

from __future__ import annotations

import collections.abc
import inspect
import typing
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any, TypeVar, get_args, get_origin

from headgate.jobs.errors import ConfigurationError

F = TypeVar("F", bound=Callable[[], Any])

Shared = Mapping[Any, Any]
"""Open resources by their type."""

NOTHING: Shared = {}

_ASYNC = (collections.abc.AsyncIterator, collections.abc.AsyncGenerator)
_PLAIN = (collections.abc.Iterator, collections.abc.Generator)


class Resources:
    """An app's declared resources."""

    def __init__(self) -> None:
        self._factories: dict[Any, Callable[[], Any]] = {}

    def add(self, factory: F) -> F:
        """Declare a resource; see `headgate.App.resource`.

        Raises:
            ConfigurationError: it is not a generator function annotated with the type that it
                yields, or there is a resource of that type.
        """
        provided = _provided_by(factory)
        if provided in self._factories:
            raise ConfigurationError(
                f"two resources are of the type {_name(provided)}: {factory.__qualname__} and "
                f"{self._factories[provided].__qualname__}. Wrap one in a class of its own"
            )
        self._factories[provided] = factory
        return factory

    def require(self, handler: str, wanted: Iterable[Any]) -> None:
        """Check that there is a resource of each type that a handler takes.

        Raises:
            ConfigurationError: one of them is missing.
        """
        for kind in wanted:
            if kind not in self._factories:
                known = ", ".join(map(_name, self._factories)) or "none"
                raise ConfigurationError(
                    f"the handler {handler} wants a {_name(kind)}, and the app has no resource of "
                    f"that type (it has: {known}): declare one with @app.resource"
                )

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Shared]:
        """Open all resources; they are closed in reverse order when the context is left."""
        async with AsyncExitStack() as stack:
            shared: dict[Any, Any] = {}
            for kind, factory in self._factories.items():
                if inspect.isasyncgenfunction(factory):
                    shared[kind] = await stack.enter_async_context(asynccontextmanager(factory)())
                else:
                    shared[kind] = stack.enter_context(contextmanager(factory)())
            yield shared


def _provided_by(factory: Callable[[], Any]) -> Any:
    wanted = _ASYNC if inspect.isasyncgenfunction(factory) else _PLAIN
    try:
        annotated = typing.get_type_hints(factory).get("return")
    except NameError as error:
        raise ConfigurationError(
            f"the resource {factory.__qualname__} has an annotation that can't be resolved: {error}"
        ) from error
    is_generator = inspect.isasyncgenfunction(factory) or inspect.isgeneratorfunction(factory)
    if not is_generator or get_origin(annotated) not in wanted:
        raise ConfigurationError(
            f"the resource {getattr(factory, '__qualname__', factory)} must be a generator "
            "function that yields once and says what: "
            "async def database() -> AsyncIterator[Pool]: ... yield pool"
        )
    return get_args(annotated)[0]


def _name(kind: Any) -> str:
    return getattr(kind, "__qualname__", None) or str(kind)
