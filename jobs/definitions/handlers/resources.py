"""Resources that handlers get, such as database pools, and code that runs around every attempt.

    @app.resource                                  # opened once per process
    async def database() -> AsyncIterator[Pool]:
        async with create_pool() as pool:
            yield pool

    @app.resource(scope="job")                     # opened for each attempt
    async def transaction(pool: Pool) -> AsyncIterator[Transaction]:
        async with pool.transaction() as opened:
            yield opened

    @app.around                                    # around each attempt of every type
    async def traced(ctx: JobContext) -> AsyncIterator[None]:
        with tracer.start_as_current_span(ctx.type):
            yield

    @app.job("send-email")
    async def send_email(email: Email, ctx: JobContext, transaction: Transaction) -> None: ...

A handler, a resource or an `around` gets a resource by annotating a parameter with its type. Those
of the process are opened before anything is received, each after those that it wants, and closed in
reverse, after all has ended.
"""

from __future__ import annotations

import collections.abc
import inspect
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from itertools import chain, filterfalse
from typing import Any, Literal, Protocol, TypeVar, get_args, get_origin

from headgate.jobs.definitions.handlers.batch_context import AnyContext
from headgate.jobs.definitions.handlers.handler import Handler
from headgate.jobs.definitions.handlers.injection import (
    NOTHING,
    Shared,
    checked_kind,
    hints_of,
    injected,
    name_of,
)
from headgate.jobs.errors import ConfigurationError
from headgate.jobs.values.kinds import bare
from headgate.jobs.values.texts import with_article

F = TypeVar("F", bound=Callable[..., AsyncIterator[Any] | Iterator[Any]])

Scope = Literal["worker", "job"]

_ASYNC = (collections.abc.AsyncIterator, collections.abc.AsyncGenerator)
_PLAIN = (collections.abc.Iterator, collections.abc.Generator)


class ResourceWatch(Protocol):
    """Is told of each resource of the process before it opens, and before it closes."""

    def opens(self, owner: str) -> None:
        """Note that a resource is about to open."""
        ...

    def closes(self, owner: str) -> None:
        """Note that a resource is about to close."""
        ...


class _Unwatched:
    """A `ResourceWatch` of nobody."""

    def opens(self, owner: str) -> None:
        """Do nothing."""

    def closes(self, owner: str) -> None:
        """Do nothing."""


_UNWATCHED = _Unwatched()


class Opener:
    """A generator function that yields once, entered as a context manager.

    Args:
        owner: the name of the function in errors.
        function: the function.
        kind: the kind of the resource that it yields; None for an `around`.
        scope: ``worker`` if it is entered once per process, ``job`` if for each attempt.
    """

    def __init__(self, owner: str, function: Callable[..., Any], kind: Any, scope: Scope) -> None:
        self.owner = owner
        self.kind = kind
        self.scope = scope
        self.is_async = inspect.isasyncgenfunction(function)
        self._injected = injected(owner, function)
        self._manager = (asynccontextmanager if self.is_async else contextmanager)(function)
        if scope == "worker" and self.takes_context:
            raise ConfigurationError(
                f"{owner} is opened once for all jobs and has no job's context: declare it with "
                'scope="job", or annotate its parameters with the types of resources'
            )

    @property
    def wants(self) -> Collection[Any]:
        """The kinds of the resources that it takes."""
        return self._injected.wanted.values()

    @property
    def takes_context(self) -> bool:
        """True if it takes the context of the job that it is entered for."""
        return self._injected.context is not None

    def manager(self, ctx: AnyContext | None, opened: Shared) -> Any:
        """Return the context manager of one call; an asynchronous one if `is_async`."""
        return self._manager(**self._injected.arguments(ctx, opened))

    def provided(self, value: Any) -> Shared:
        """Return what is open once the function has yielded a value: nothing for an `around`."""
        return NOTHING if self.kind is None else {self.kind: value}


class Resources:
    """An app's declared resources, and what it declares around attempts."""

    def __init__(self) -> None:
        self.by_kind: dict[Any, Opener] = {}
        self.arounds: list[Opener] = []

    def add(self, factory: F, scope: Scope) -> F:
        """Declare a resource; see `headgate.App.resource`."""
        name = getattr(factory, "__qualname__", repr(factory))
        owner = f"the resource {name}"
        if scope not in get_args(Scope):
            raise ConfigurationError(f"{owner}: scope must be 'worker' or 'job', got {scope!r}")
        kind = _provided_by(owner, factory)
        if kind in self.by_kind:
            raise ConfigurationError(
                f"two resources are of the type {name_of(kind)}: {owner} and "
                f"{self.by_kind[kind].owner}. Tell them apart by metadata, as in "
                'AsyncIterator[Annotated[Pool, "replica"]]'
            )
        self.by_kind[kind] = Opener(owner, factory, kind, scope)
        return factory

    def wrap(self, function: F) -> F:
        """Declare what runs around every attempt; see `headgate.App.around`."""
        owner = f"the around {getattr(function, '__qualname__', repr(function))}"
        if not _is_generator(function):
            raise ConfigurationError(
                f"{owner} must be a generator function that yields once, where the handler runs: "
                "async def traced(ctx: JobContext) -> AsyncIterator[None]: ... yield"
            )
        self.arounds.append(Opener(owner, function, None, "job"))
        return function

    def check(self, handlers: Iterable[Handler]) -> None:
        """Check that all that is wanted can be opened, and in an order.

        Raises:
            ConfigurationError: a wanted resource is missing, resources want one another in a
                circle, one wants what is opened after it, or one that takes a job's context is
                wanted for a batch.
        """
        ours = [*handlers]
        for handler in ours:
            self._check_wants(f"the handler {handler.name}", handler.wants)
        for opener in (*self.by_kind.values(), *self.arounds):
            self._check_wants(opener.owner, opener.wants)
            for kind in opener.wants:
                _check_order(opener, self.by_kind[kind])
        self.in_order(self.by_kind)
        for handler in ours:
            if handler.batch is not None:
                self._check_for_batch(handler)

    def in_order(self, kinds: Iterable[Any], *, without: Collection[Any] = ()) -> list[Opener]:
        """Return the openers of resources and of all that these want, in the order of opening.

        Args:
            kinds: the resources' kinds.
            without: kinds that are left out, with what only they want.

        Raises:
            ConfigurationError: resources depend on each other in a cycle.
        """
        ordered: dict[Any, Opener] = {}

        def visit(kind: Any, path: tuple[Any, ...]) -> None:
            if kind in path:
                circle = " → ".join(map(name_of, (*path[path.index(kind) :], kind)))
                raise ConfigurationError(f"resources depend on each other in a cycle: {circle}")
            if kind in ordered or kind in without:
                return
            opener = self.by_kind[kind]
            for wanted in opener.wants:
                visit(wanted, (*path, kind))
            ordered[kind] = opener

        for kind in kinds:
            visit(kind, ())
        return [*ordered.values()]

    @asynccontextmanager
    async def opened(
        self,
        instead: Shared = NOTHING,
        *,
        handlers: Iterable[Handler] = (),
        watch: ResourceWatch = _UNWATCHED,
    ) -> AsyncIterator[OpenResources]:
        """Open the resources of the process; they are closed in reverse when the context is left.

        Args:
            instead: values by kind that take the place of resources, which are not opened then, nor
                is what they alone want.
            handlers: the app's handlers; only needed with ``instead``.
            watch: is told which resource opens or closes.

        Raises:
            ConfigurationError: ``instead`` names a resource that the app doesn't have.
        """
        self._check_known(instead)
        shared = dict(instead)
        async with AsyncExitStack() as stack:
            for opener in self.in_order(self._roots(handlers), without=instead):
                if opener.scope == "worker":
                    watch.opens(opener.owner)
                    shared[opener.kind] = await _entered(stack, opener, shared)
                    stack.callback(watch.closes, opener.owner)
            yield OpenResources(self, shared)

    def _roots(self, handlers: Iterable[Handler]) -> Iterator[Any]:
        """Yield the kinds that a handler or an `around` wants, or no other resource."""
        wanted = {kind for opener in self.by_kind.values() for kind in opener.wants}
        used = {kind for handler in handlers for kind in handler.wants}
        used |= {kind for around in self.arounds for kind in around.wants}
        return (kind for kind in self.by_kind if kind in used or kind not in wanted)

    def _check_wants(self, owner: str, wanted: Iterable[Any]) -> None:
        for kind in wanted:
            if kind not in self.by_kind:
                raise ConfigurationError(
                    f"{owner} needs {with_article(name_of(kind))}, and the app has no resource of "
                    f"that type (it has: {self._names}): declare one with @app.resource"
                )

    def _check_for_batch(self, handler: Handler) -> None:
        """Refuse what is opened for one job to a handler that is called for several."""
        for opener in self.in_order(handler.wants):
            if opener.takes_context:
                raise ConfigurationError(
                    f"the handler {handler.name} runs batches, and {opener.owner}, which is opened "
                    "for it, takes the context of a single job: leave out its JobContext"
                )

    def _check_known(self, instead: Shared) -> None:
        for kind in instead:
            if kind not in self.by_kind:
                raise ConfigurationError(
                    f"resources={{{name_of(kind)}: ...}} replaces nothing: the app has no resource "
                    f"of that type (it has: {self._names})"
                )

    @property
    def _names(self) -> str:
        return ", ".join(map(name_of, self.by_kind)) or "none"


class Layers:
    """The generators entered around the attempts of one handler, in order.

    Attributes:
        outer: entered in the event loop.
        inner: entered after these, in the thread of a synchronous handler.
        any: True if there are any.
    """

    __slots__ = ("any", "inner", "outer")

    def __init__(self, openers: Iterable[Opener], *, in_thread: bool) -> None:
        ordered = [*openers]
        self.outer = [each for each in ordered if each.is_async or not in_thread]
        self.inner = [each for each in ordered if not each.is_async and in_thread]
        self.any = bool(ordered)


NO_LAYERS = Layers((), in_thread=False)


class OpenResources:
    """The open resources of a process, and what is opened around each attempt there."""

    def __init__(self, declared: Resources | None = None, shared: Shared = NOTHING) -> None:
        self._declared = declared or Resources()
        self.shared = shared
        self._layers: dict[Handler, Layers] = {}
        self._call_layers: dict[Handler, Layers] = {}

    def layers(self, handler: Handler) -> Layers:
        """Return what is entered around an attempt of a handler.

        Each `around` comes in the order of declaration, after the resources that it wants; then
        those that the handler wants. If it runs batches, what takes the context of one job: the
        rest is entered around the call (`call_layers`).
        """
        if (known := self._layers.get(handler)) is None:
            if handler.batch is None:
                openers = [*chain(*self._arounds()), *self._ordered(handler.wants)]
            else:
                openers = [*chain(*filter(_is_of_one_job, self._arounds()))]
            in_thread = not handler.is_async and handler.batch is None
            known = self._layers[handler] = Layers(dict.fromkeys(openers), in_thread=in_thread)
        return known

    def call_layers(self, handler: Handler) -> Layers:
        """Return what is entered around one call of a batch handler, whichever jobs it is for."""
        if (known := self._call_layers.get(handler)) is None:
            arounds = chain(*filterfalse(_is_of_one_job, self._arounds()))
            openers = dict.fromkeys([*arounds, *self._ordered(handler.wants)])
            known = self._call_layers[handler] = Layers(openers, in_thread=not handler.is_async)
        return known

    def _arounds(self) -> Iterator[list[Opener]]:
        """Yield each `around`, after the resources that it wants."""
        for around in self._declared.arounds:
            yield [*self._ordered(around.wants), around]

    def _ordered(self, wants: Iterable[Any]) -> list[Opener]:
        return self._declared.in_order(wants, without=self.shared)


def _is_of_one_job(openers: Iterable[Opener]) -> bool:
    return any(opener.takes_context for opener in openers)


async def _entered(stack: AsyncExitStack, opener: Opener, shared: Shared) -> Any:
    manager = opener.manager(None, shared)
    if opener.is_async:
        return await stack.enter_async_context(manager)
    return stack.enter_context(manager)


def _check_order(opener: Opener, wanted: Opener) -> None:
    """Check that a resource is open before the function that wants it is entered."""
    needed = with_article(name_of(wanted.kind))
    if opener.scope == "worker" and wanted.scope == "job":
        raise ConfigurationError(
            f"{opener.owner} is opened once for all jobs and needs {needed}, which is opened "
            'for each attempt: declare it with scope="job", too'
        )
    if opener.is_async and wanted.scope == "job" and not wanted.is_async:
        raise ConfigurationError(
            f"{opener.owner} is asynchronous and needs {needed}, which is opened "
            f"after it, in the thread of a synchronous handler: make {wanted.owner} an async "
            "generator"
        )


def _is_generator(function: object) -> bool:
    return inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function)


def _provided_by(owner: str, factory: Callable[..., Any]) -> Any:
    wanted = _ASYNC if inspect.isasyncgenfunction(factory) else _PLAIN
    annotated = None
    if _is_generator(factory):
        annotated = bare(hints_of(owner, factory).get("return"))
    if get_origin(annotated) not in wanted:
        raise ConfigurationError(
            f"{owner} must be a generator function that yields once and says what: "
            "async def database() -> AsyncIterator[Pool]: ... yield pool"
        )
    return checked_kind(owner, get_args(annotated)[0])
