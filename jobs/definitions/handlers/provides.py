"""Declaring what handlers get besides their payload, and what runs around them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, overload

from headgate.jobs.definitions.handlers.resources import F, Resources, Scope


class Provides:
    """The methods of an `App` that declare resources, and code around every attempt."""

    def __init__(self) -> None:
        super().__init__()
        self.resources = Resources()

    @overload
    def resource(self, factory: F, /) -> F: ...
    @overload
    def resource(self, /, *, scope: Scope = "worker") -> Callable[[F], F]: ...
    def resource(self, factory: Any = None, /, *, scope: Scope = "worker") -> Any:
        """Declare a resource that handlers get; decorates a generator function that yields it once.

        The type that the function is annotated to yield is the annotation by which handlers,
        other resources and `around` get it; metadata (``Annotated[Pool, "replica"]``) tells two of
        a type apart. The function's own parameters get other resources in the same way, and for
        ``scope="job"`` the `JobContext`.

        Args:
            factory: the function, where the decorator is used without parentheses.
            scope: ``worker`` opens it once per process, before anything is received; ``job`` for
                each attempt whose handler or `around` wants it.

        Raises:
            ConfigurationError: it is not a generator function annotated with the type that it
                yields, or there is a resource of that type.
        """
        if factory is not None:
            return self.resources.add(factory, scope)
        return partial(self.resources.add, scope=scope)

    def around(self, function: F) -> F:
        """Run code around every attempt; decorates a generator function that yields once.

        What comes before the ``yield`` runs before the handler, and the rest after it. Several nest
        in the order of their declaration. A handler's exception is raised at the ``yield``; another
        one may be raised in its place, and an attempt whose exception is swallowed has completed,
        with None as its result. Only the end of an attempt that is stopped or cancelled can't be
        swallowed. A failure of the function is a failure of the attempt.

        A parameter annotated with `JobContext` gets the context, and one annotated with the type of
        a resource that resource. A synchronous generator runs where the handler does: in its
        thread, within all asynchronous ones, or in the event loop, which it must not block. Around
        a batch handler one that takes no context is entered once for the call, and any other one
        for each job, in the event loop.

        Raises:
            ConfigurationError: it is not a generator function, or has a parameter without a
                possible value.
        """
        return self.resources.wrap(function)
