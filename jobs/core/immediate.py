"""Coroutines that never suspend, so that synchronous clients can run them without an event loop.

The code that the asynchronous and the synchronous client share is written once, as coroutines over
the ports of `jobs.core.ports`, without any primitive of asyncio. Over asynchronous ports they
suspend, and an event loop runs them. Over the ports of this module, which call synchronous code,
they run to their end at once, and `drive` returns their result.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from headgate.jobs.core.backend import MetricReader, SecretStore
from headgate.jobs.core.keys.key_ring import Keys
from headgate.jobs.core.ports.object_store import ObjectStore
from headgate.jobs.core.ports.scheduler import Scheduler
from headgate.jobs.core.ports.table import Table
from headgate.jobs.core.ports.transport import Receiver, Sender, Transport

P = ParamSpec("P")
T = TypeVar("T")


def drive(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends, and return its result or raise its error.

    Raises:
        RuntimeError: it suspended, so it needs an event loop. It is closed.
    """
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise RuntimeError(f"{coroutine!r} suspended: over synchronous ports it must run to its end")


def immediate(function: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Wrap a synchronous function as a coroutine function that never suspends."""

    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return function(*args, **kwargs)

    return call


def driven(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Wrap a coroutine function that never suspends as a synchronous function; see `drive`."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return drive(function(*args, **kwargs))

    return call


class ImmediateLock:
    """A lock between threads, taken by ``async with`` and without suspending."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    async def __aenter__(self) -> None:
        self._lock.acquire()

    async def __aexit__(self, *_error: object) -> None:
        self._lock.release()


class ImmediateSender:
    """A `jobs.core.ports.transport.AsyncSender` that never suspends."""

    def __init__(self, transport: Sender) -> None:
        self.send = immediate(transport.send)


class ImmediateReceiver:
    """A `jobs.core.ports.transport.AsyncReceiver` that never suspends."""

    def __init__(self, transport: Receiver) -> None:
        self.receive = immediate(transport.receive)
        self.change_visibility = immediate(transport.change_visibility)
        self.depth = immediate(transport.depth)


class ImmediateTransport(ImmediateSender, ImmediateReceiver):
    """A `jobs.core.ports.transport.AsyncTransport` that never suspends."""

    def __init__(self, transport: Transport) -> None:
        ImmediateSender.__init__(self, transport)
        ImmediateReceiver.__init__(self, transport)
        self.delete = immediate(transport.delete)


class ImmediateTable:
    """A `jobs.core.ports.table.AsyncTable` that never suspends."""

    def __init__(self, table: Table) -> None:
        self.put = immediate(table.put)
        self.query = immediate(table.query)
        self.page = immediate(table.page)
        self.get = immediate(table.get)
        self.lines = immediate(table.lines)
        self.scan = immediate(table.scan)
        self.delete = immediate(table.delete)
        self.replace = immediate(table.replace)


class ImmediateScheduler:
    """A `jobs.core.ports.scheduler.AsyncScheduler` that never suspends."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.create = immediate(scheduler.create)
        self.get = immediate(scheduler.get)
        self.names = immediate(scheduler.names)
        self.update = immediate(scheduler.update)
        self.delete = immediate(scheduler.delete)


class ImmediateMetricReader:
    """A `jobs.core.backend.AsyncMetricReader` that never suspends."""

    def __init__(self, metrics: MetricReader) -> None:
        self.read = immediate(metrics.read)


class ImmediateObjectStore:
    """A `jobs.core.ports.object_store.AsyncObjectStore` that never suspends."""

    def __init__(self, store: ObjectStore) -> None:
        self.put = immediate(store.put)
        self.create = immediate(store.create)
        self.get = immediate(store.get)
        self.delete = immediate(store.delete)
        self.page = immediate(store.page)


class ImmediateKeys:
    """A `jobs.core.keys.key_ring.AsyncKeys` that never suspends."""

    def __init__(self, keys: Keys) -> None:
        self.generate = immediate(keys.generate)
        self.unwrap = immediate(keys.unwrap)


class ImmediateSecretStore:
    """A `jobs.core.backend.AsyncSecretStore` that never suspends."""

    def __init__(self, store: SecretStore) -> None:
        self.versions = immediate(store.versions)
