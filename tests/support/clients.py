"""Clients of both kinds with one face, so that one test states a guarantee of both.

The tests await. A `Client` gets the face of an `AsyncClient`: its calls, and those of the handles
and schedules that it returns, are made when they are awaited.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias, cast

from headgate import App, AsyncClient, AsyncJobHandle, Client, JobHandle
from headgate.jobs.client.auditing.desk import AsyncAuditDesk, AuditDesk
from headgate.jobs.client.dead_letters.desks import AsyncDeadLetters, DeadLetters
from headgate.jobs.client.jobs.jobs import AsyncJobs, Jobs
from headgate.jobs.client.overview.queues import AsyncQueueDesk, QueueDesk
from headgate.jobs.client.overview.workers import AsyncWorkerDesk, WorkerDesk
from headgate.jobs.client.pauses import AsyncPauses, Pauses
from headgate.jobs.client.schedules.async_schedules import AsyncSchedules
from headgate.jobs.client.schedules.schedules import Schedules
from headgate.jobs.core.batcher import Pacing
from headgate.jobs.core.clock import Clock
from headgate.testing import MemoryScheduler, MemorySqs, MemoryStore, MemoryTable
from tests.support.backends import async_over, over

Kind: TypeAlias = Literal["Client", "AsyncClient"]
KINDS: tuple[Kind, ...] = ("Client", "AsyncClient")

_TWINS: dict[type, type] = {
    Client: AsyncClient,
    JobHandle: AsyncJobHandle,
    Schedules: AsyncSchedules,
    DeadLetters: AsyncDeadLetters,
    Jobs: AsyncJobs,
    Pauses: AsyncPauses,
    QueueDesk: AsyncQueueDesk,
    WorkerDesk: AsyncWorkerDesk,
    AuditDesk: AsyncAuditDesk,
}


class Awaited:
    """A synchronous object with the face of its asynchronous twin.

    Args:
        inner: a `Client`, a handle or a client's schedules.
        in_thread: make each call in a thread, for one that waits for what the event loop does.
    """

    def __init__(self, inner: object, *, in_thread: bool = False) -> None:
        self._inner = inner
        self._twin = _TWINS[type(inner)]
        self._in_thread = in_thread

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if inspect.iscoroutinefunction(getattr(self._twin, name, None)):
            return partial(self._call, found)
        if inspect.ismethod(found):
            return lambda *args, **options: self._faced(found(*args, **options))
        return self._faced(found)

    async def __aenter__(self) -> Self:
        await self._call(cast("Any", self._inner).__enter__)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._call(cast("Any", self._inner).__exit__, kind, error, traceback)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Awaited) and self._inner == other._inner

    def __hash__(self) -> int:
        return hash(self._inner)

    def __repr__(self) -> str:
        return repr(self._inner)

    async def _call(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        if self._in_thread:
            return self._faced(await asyncio.to_thread(function, *args, **options))
        return self._faced(function(*args, **options))

    def _faced(self, result: Any) -> Any:
        if isinstance(result, list):
            return [self._faced(each) for each in result]
        if type(result) in _TWINS:
            return Awaited(result, in_thread=self._in_thread)
        return result


def awaited(client: Client, *, in_thread: bool = False) -> AsyncClient:
    """Return a synchronous client with the face of an asynchronous one; see `Awaited`."""
    return cast("AsyncClient", Awaited(client, in_thread=in_thread))


def connected(kind: Kind, app: App) -> AsyncClient:
    """Return a client of a kind that connects by the environment's settings."""
    return AsyncClient(app) if kind == "AsyncClient" else awaited(Client(app), in_thread=True)


def client_of(
    kind: Kind,
    app: App,
    sqs: MemorySqs,
    *,
    table: MemoryTable | None = None,
    scheduler: MemoryScheduler | None = None,
    store: MemoryStore | None = None,
    clock: Clock | None = None,
    sleep: Callable[[float], None] = lambda _seconds: None,
    pacing: Pacing = Pacing(),  # noqa: B008 - frozen
    in_thread: bool = False,
    **options: Any,
) -> AsyncClient:
    """Return a client of a kind, over services in memory.

    Args:
        kind: the client's class.
        app: its app.
        sqs: the queues.
        table: the table; None: one of its own, as are the scheduler and the store.
        scheduler: the schedules.
        store: the bucket.
        clock: the time; None: this machine's.
        sleep: called for each pause but those of an asynchronous client's batches; does nothing by
            default.
        pacing: an asynchronous client's batching.
        in_thread: as for `Awaited`.
        options: the client's own options.
    """
    if kind == "Client":
        synchronous = over(
            sqs.sync,
            table=table.sync if table else None,
            scheduler=scheduler.sync if scheduler else None,
            store=store.sync if store else None,
            clock=clock,
            sleep=sleep,
        )
        return awaited(Client(app, backend=synchronous, **options), in_thread=in_thread)

    async def asleep(seconds: float) -> None:
        sleep(seconds)

    backend = async_over(
        sqs,
        table=table,
        scheduler=scheduler,
        store=store,
        clock=clock,
        sleep=asleep,
        pacing=pacing,
    )
    return AsyncClient(app, backend=backend, **options)
