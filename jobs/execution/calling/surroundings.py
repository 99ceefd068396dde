"""Calling a handler within what its app opens around each attempt.

The code around a handler is bounded like the handler itself: what comes before it by the attempt's
timeout, and what comes after it by the rest of that, or by `CLOSING_S` if less is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, asynccontextmanager
from typing import Any

from headgate.jobs.definitions.handlers.batch_context import AnyContext
from headgate.jobs.definitions.handlers.handler import Handler
from headgate.jobs.definitions.handlers.injection import Shared
from headgate.jobs.definitions.handlers.resources import Layers, Opener
from headgate.jobs.errors import JobTimeout, Stopped

CLOSING_S = 30.0
"""Seconds that are always left for what comes after a handler, unless the timeout is shorter."""

_CUT = (asyncio.CancelledError, Stopped)
"""Exceptions that end an attempt from outside, which code around the handler can't swallow."""


class Bounds:
    """The limits of the code around one handler.

    Args:
        job_type: the type's name.
        timeout_s: the timeout of the attempt, in seconds.
        ends_at: the time at which it is up, in the loop's time; None sets no limits.
    """

    def __init__(self, job_type: str, timeout_s: float, ends_at: float | None) -> None:
        self._job_type = job_type
        self._timeout_s = timeout_s
        self._ends_at = ends_at
        self._closes_at: float | None = None

    def opening(self) -> AbstractAsyncContextManager[None]:
        """Limit what comes before the handler.

        Raises:
            JobTimeout: the time is up.
        """
        return self._until(self._ends_at, ", before its handler was called")

    def closing(self) -> AbstractAsyncContextManager[None]:
        """Limit what comes after the handler, which has ended when this is first called.

        Raises:
            JobTimeout: the time is up.
        """
        if self._closes_at is None and self._ends_at is not None:
            least_s = min(self._timeout_s, CLOSING_S)
            self._closes_at = max(self._ends_at, asyncio.get_running_loop().time() + least_s)
        return self._until(self._closes_at, ", after its handler had ended")

    @asynccontextmanager
    async def _until(self, at: float | None, where: str) -> AsyncIterator[None]:
        scope = asyncio.timeout_at(at)
        try:
            async with scope:
                yield
        except TimeoutError as error:
            if scope.expired():
                raise JobTimeout(self._job_type, self._timeout_s, detail=where) from error
            raise


async def surrounded(
    run: Callable[[Shared], Awaitable[Any]],
    layers: Layers,
    shared: Shared,
    ctx: AnyContext,
    bounds: Bounds,
) -> Any:
    """Enter the outer layers, run a handler with what is open then, and leave them.

    Args:
        run: runs the handler.
        layers: what the handler's app opens around it.
        shared: the resources that are open already.
        ctx: the context of the job, or of the batch.
        bounds: the limits, counted from the start of the attempt.

    Returns:
        the handler's result; None if a layer has swallowed the handler's exception.

    Raises:
        JobTimeout: a layer took too long.
        BaseException: the handler's exception, or that of a layer.
    """
    opened, result = dict(shared), None
    cut: BaseException | None = None
    async with AsyncExitStack() as stack:
        try:
            async with bounds.opening():
                for opener in layers.outer:
                    await _enter(stack, opener, ctx, opened, bounds)
            result = await run(opened)
        except _CUT as error:
            cut = error
            raise
    if cut is not None:
        raise cut
    return result


def surrounded_in_thread(
    handler: Handler, payload: Any, ctx: AnyContext, opened: Shared, layers: Layers
) -> Any:
    """Call a synchronous handler within the inner layers; see `surrounded`."""
    try:
        if not layers.inner:
            return handler.call(payload, ctx, opened)
        return _within(handler, payload, ctx, dict(opened), layers.inner)
    except StopIteration as error:
        # A future can't carry a StopIteration, so awaiting the thread would hang for ever. PEP 479
        # turns it into a RuntimeError in coroutines; so do we.
        raise RuntimeError("the handler raised StopIteration") from error


def _within(
    handler: Handler,
    payload: Any,
    ctx: AnyContext,
    opened: dict[Any, Any],
    openers: Iterable[Opener],
) -> Any:
    result = None
    cut: BaseException | None = None
    with ExitStack() as stack:
        try:
            for opener in openers:
                value = stack.enter_context(opener.manager(ctx, opened))
                opened |= opener.provided(value)
            result = handler.call(payload, ctx, opened)
        except _CUT as error:
            cut = error
            raise
    if cut is not None:
        raise cut
    return result


async def _enter(
    stack: AsyncExitStack, opener: Opener, ctx: AnyContext, opened: dict[Any, Any], bounds: Bounds
) -> None:
    manager = opener.manager(ctx, opened)
    if not opener.is_async:
        opened |= opener.provided(stack.enter_context(manager))
        return

    async def leave(*raised: Any) -> bool | None:
        async with bounds.closing():
            swallowed: bool | None = await manager.__aexit__(*raised)
        return swallowed

    opened |= opener.provided(await manager.__aenter__())
    stack.push_async_exit(leave)
