"""An actor's connections to AWS: each call takes time, may fail, and ends with its actor."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from headgate.jobs.core.ports.object_store import ObjectPage
from headgate.jobs.core.ports.scheduler import ScheduleSpec
from headgate.jobs.core.ports.table import Item, Key, Page
from headgate.jobs.core.ports.transport import (
    EntryFailure,
    OutgoingMessage,
    QueueDepth,
    ReceivedMessage,
    VisibilityChange,
)
from headgate.jobs.errors import (
    BucketMissing,
    ItemRefused,
    QueueMissing,
    ScheduleGroupMissing,
    ServiceUnavailable,
    TableMissing,
    Throttled,
    TransportError,
)
from headgate.jobs.records.writes import REFUSAL
from tests.simulation.actors import Actor
from tests.simulation.faults import HANG_S
from tests.simulation.plan import FaultPlan
from tests.simulation.trust import AsyncKeysLink, AsyncSecretsLink

if TYPE_CHECKING:
    from tests.simulation.services import Aws

T = TypeVar("T")

_GONE: dict[str, Callable[[str], TransportError]] = {
    "sqs": QueueMissing,
    "table": TableMissing,
    "store": BucketMissing,
    "scheduler": ScheduleGroupMissing,
}


class Link:
    """One actor's clients of all services."""

    def __init__(self, aws: Aws, actor: Actor) -> None:
        self.actor = actor
        self._aws = aws
        self.sqs = AsyncSqsLink(aws, self)
        self.table = AsyncTableLink(aws, self)
        self.store = AsyncStoreLink(aws, self)
        self.scheduler = AsyncSchedulerLink(aws, self)
        self.keys = AsyncKeysLink(aws, self)
        self.secrets = AsyncSecretsLink(aws, self)

    async def async_call(
        self,
        service: str,
        action: str,
        apply: Callable[[], Awaitable[T]],
        *,
        target: str = "",
        fault: FaultPlan | None = None,
    ) -> T:
        """Make one call, with its latency and its fault."""
        actor, faults = self.actor, self._aws.faults
        await actor.lives()
        self._aws.ledger.log("call", actor.name, service, action, target)
        await asyncio.sleep(faults.latency_s())
        mode = fault.mode if fault is not None else ""
        if mode:
            await self._before(service, mode, target)
        await actor.lives()
        answer = await apply()
        if mode == "late-answer":
            await asyncio.sleep(faults.uniform(0.5, 5))
        await actor.lives()
        if mode == "lose":
            raise ServiceUnavailable("the answer was lost")
        if mode == "hang":
            faults.trouble(actor)  # again: a long poll has taken its time before
            await asyncio.sleep(HANG_S)
            await actor.lives()
            raise ServiceUnavailable("no answer within a minute")
        return answer

    async def _before(self, service: str, mode: str, target: str) -> None:
        match mode:
            case "refuse":
                raise ServiceUnavailable("out of order")
            case "throttle":
                raise Throttled("too many requests")
            case "gone":
                raise _GONE[service](target)
            case "late":
                await asyncio.sleep(self._aws.faults.uniform(0.5, 5))
            case "hang" if self._aws.faults.chance():
                await asyncio.sleep(HANG_S)
                raise ServiceUnavailable("no answer within a minute")
            case _:
                pass

    def call(self, service: str, action: str, apply: Callable[[], T], target: str = "") -> T:
        """Make one call of synchronous code, which can't wait for virtual time here."""
        self.actor.check()
        fault = self._aws.faults.meet(self.actor, service, action, target)
        mode = fault.mode if fault is not None else ""
        match mode:
            case "refuse" | "hang":
                raise ServiceUnavailable("out of order")
            case "throttle":
                raise Throttled("too many requests")
            case "gone":
                raise _GONE[service](target)
        answer = apply()
        if mode == "lose":
            raise ServiceUnavailable("the answer was lost")
        return answer


class AsyncSqsLink:
    """A `jobs.core.ports.transport.AsyncTransport`, and by `sync` a synchronous one."""

    def __init__(self, aws: Aws, link: Link) -> None:
        self._aws = aws
        self._link = link
        self.sync = SqsLink(aws, link)

    async def send(self, queue: str, messages: Sequence[OutgoingMessage]) -> list[EntryFailure]:
        failures = await self._batch("send", queue, messages, self._aws.sqs.send)
        failed = {each.index for each in failures}
        taken = (each.body for index, each in enumerate(messages) if index not in failed)
        self._aws.watch.confirmed(queue, taken)
        return failures

    async def delete(self, queue: str, receipts: Sequence[str]) -> list[EntryFailure]:
        return await self._batch("delete", queue, receipts, self._aws.sqs.delete)

    async def change_visibility(
        self, queue: str, changes: Sequence[VisibilityChange]
    ) -> list[EntryFailure]:
        return await self._batch(
            "change_visibility", queue, changes, self._aws.sqs.change_visibility
        )

    async def receive(
        self, queue: str, *, limit: int, wait_s: float, visibility_s: int | None = None
    ) -> list[ReceivedMessage]:
        fault = self._meet("receive", queue)

        async def apply() -> list[ReceivedMessage]:
            with self._oddly(queue, fault):
                return await self._aws.sqs.receive(
                    queue, limit=limit, wait_s=wait_s, visibility_s=visibility_s
                )

        return await self._link.async_call("sqs", "receive", apply, target=queue, fault=fault)

    async def depth(self, queue: str) -> QueueDepth:
        return await self._link.async_call(
            "sqs",
            "depth",
            lambda: self._aws.sqs.depth(queue),
            target=queue,
            fault=self._meet("depth", queue),
        )

    async def _batch(
        self,
        action: str,
        queue: str,
        entries: Sequence[T],
        call: Callable[[str, Sequence[T]], Awaitable[list[EntryFailure]]],
    ) -> list[EntryFailure]:
        fault = self._meet(action, queue)
        failing = self._aws.faults.some(len(entries)) if fault and fault.mode == "partial" else []

        async def apply() -> list[EntryFailure]:
            indexes = [index for index in range(len(entries)) if index not in failing]
            with self._oddly(queue, fault):
                answer = await call(queue, [entries[at] for at in indexes]) if indexes else []
            refused = [
                EntryFailure(
                    index=indexes[each.index],
                    code=each.code,
                    message=each.message,
                    sender_fault=each.sender_fault,
                )
                for each in answer
            ]
            return refused + [
                EntryFailure(index=at, code="InternalError", message="", sender_fault=False)
                for at in failing
            ]

        return await self._link.async_call("sqs", action, apply, target=queue, fault=fault)

    def _meet(self, action: str, queue: str) -> FaultPlan | None:
        return self._aws.faults.meet(self._link.actor, "sqs", action, queue)

    @contextmanager
    def _oddly(self, queue: str, fault: FaultPlan | None) -> Iterator[None]:
        watched = self._aws.queue(queue)
        watched.duplicating = fault is not None and fault.mode == "duplicate"
        watched.undeleting = fault is not None and fault.mode == "undelete"
        try:
            yield
        finally:
            watched.duplicating = watched.undeleting = False


class SqsLink:
    """A `jobs.core.ports.transport.Transport`."""

    def __init__(self, aws: Aws, link: Link) -> None:
        self._sqs = aws.sqs.sync
        self._link = link

    def send(self, queue: str, messages: Sequence[OutgoingMessage]) -> list[EntryFailure]:
        return self._link.call("sqs", "send", lambda: self._sqs.send(queue, messages), queue)

    def receive(
        self, queue: str, *, limit: int, wait_s: float, visibility_s: int | None = None
    ) -> list[ReceivedMessage]:
        return self._link.call(
            "sqs",
            "receive",
            lambda: self._sqs.receive(queue, limit=limit, wait_s=wait_s, visibility_s=visibility_s),
            queue,
        )

    def delete(self, queue: str, receipts: Sequence[str]) -> list[EntryFailure]:
        return self._link.call("sqs", "delete", lambda: self._sqs.delete(queue, receipts), queue)

    def change_visibility(
        self, queue: str, changes: Sequence[VisibilityChange]
    ) -> list[EntryFailure]:
        return self._link.call(
            "sqs",
            "change_visibility",
            lambda: self._sqs.change_visibility(queue, changes),
            queue,
        )

    def depth(self, queue: str) -> QueueDepth:
        return self._link.call("sqs", "depth", lambda: self._sqs.depth(queue), queue)


class AsyncTableLink:
    """A `jobs.core.ports.table.AsyncTable`, and by `sync` a synchronous one."""

    def __init__(self, aws: Aws, link: Link) -> None:
        self._aws = aws
        self._table = aws.table
        self._link = link
        self.sync = TableLink(aws, link)

    async def put(self, items: Sequence[Item]) -> list[Item]:
        fault = self._meet("put")
        if fault is not None and fault.mode == "refuse-item" and any(map(_is_cursed, items)):
            await self._link.actor.lives()
            await asyncio.sleep(self._aws.faults.latency_s())
            raise ItemRefused("ValidationException: an item is not as DynamoDB takes it")
        left: list[Item] = []
        if fault is not None and fault.mode == "unprocessed" and items:
            left = [items[at] for at in self._aws.faults.some(len(items))]

        async def apply() -> list[Item]:
            return await self._table.put([each for each in items if each not in left]) + left

        return await self._link.async_call("table", "put", apply, fault=fault)

    async def query(self, pk: str, *, prefix: str = "") -> list[Item]:
        return await self._call("query", lambda: self._table.query(pk, prefix=prefix))

    async def page(self, pk: str, *, after: str = "", limit: int = 1_000) -> Page:
        return await self._call("page", lambda: self._table.page(pk, after=after, limit=limit))

    async def get(self, pk: str, sk: str) -> Item | None:
        return await self._call("get", lambda: self._table.get(pk, sk))

    async def lines(
        self, name: str, *, after: str = "", before: str = "", limit: int = 100
    ) -> list[Item]:
        return await self._call(
            "lines", lambda: self._table.lines(name, after=after, before=before, limit=limit)
        )

    async def scan(self, path: Sequence[str], value: str, *, after: str = "") -> Page:
        return await self._call("scan", lambda: self._table.scan(path, value, after=after))

    async def delete(self, keys: Sequence[Key]) -> list[Key]:
        return await self._call("delete", lambda: self._table.delete(keys))

    async def replace(self, item: Item) -> Item | None:
        return await self._call("replace", lambda: self._table.replace(item))

    def _meet(self, action: str) -> FaultPlan | None:
        return self._aws.faults.meet(self._link.actor, "table", action, None)

    async def _call(self, action: str, apply: Callable[[], Awaitable[T]]) -> T:
        return await self._link.async_call("table", action, apply, fault=self._meet(action))


def _is_cursed(item: Item) -> bool:
    """True if the table refuses the item for good."""
    is_bare = REFUSAL in item.data
    return item.pk.startswith("job#") and not is_bare and zlib.crc32(item.pk.encode()) % 3 == 0


class TableLink:
    """A `jobs.core.ports.table.Table`."""

    def __init__(self, aws: Aws, link: Link) -> None:
        self._table = aws.table.sync
        self._link = link

    def put(self, items: Sequence[Item]) -> list[Item]:
        return self._link.call("table", "put", lambda: self._table.put(items))

    def query(self, pk: str, *, prefix: str = "") -> list[Item]:
        return self._link.call("table", "query", lambda: self._table.query(pk, prefix=prefix))

    def page(self, pk: str, *, after: str = "", limit: int = 1_000) -> Page:
        return self._link.call(
            "table", "page", lambda: self._table.page(pk, after=after, limit=limit)
        )

    def get(self, pk: str, sk: str) -> Item | None:
        return self._link.call("table", "get", lambda: self._table.get(pk, sk))

    def lines(
        self, name: str, *, after: str = "", before: str = "", limit: int = 100
    ) -> list[Item]:
        return self._link.call(
            "table",
            "lines",
            lambda: self._table.lines(name, after=after, before=before, limit=limit),
        )

    def scan(self, path: Sequence[str], value: str, *, after: str = "") -> Page:
        return self._link.call("table", "scan", lambda: self._table.scan(path, value, after=after))

    def delete(self, keys: Sequence[Key]) -> list[Key]:
        return self._link.call("table", "delete", lambda: self._table.delete(keys))

    def replace(self, item: Item) -> Item | None:
        return self._link.call("table", "replace", lambda: self._table.replace(item))


class AsyncStoreLink:
    """A `jobs.core.ports.object_store.AsyncObjectStore`, and by `sync` a synchronous one."""

    def __init__(self, aws: Aws, link: Link) -> None:
        self._aws = aws
        self._link = link
        self.sync = StoreLink(aws, link)

    async def put(self, key: str, content: bytes) -> None:
        await self._link.async_call(
            "store", "put", lambda: self._aws.store.put(key, content), fault=self._meet("put")
        )

    async def create(self, key: str, content: bytes) -> bool:
        return await self._link.async_call(
            "store", "put", lambda: self._aws.store.create(key, content), fault=self._meet("put")
        )

    async def get(self, key: str, *, max_bytes: int) -> bytes | None:
        return await self._link.async_call(
            "store",
            "get",
            lambda: self._aws.store.get(key, max_bytes=max_bytes),
            fault=self._meet("get"),
        )

    async def delete(self, key: str) -> None:
        await self._link.async_call(
            "store", "delete", lambda: self._aws.store.delete(key), fault=self._meet("delete")
        )

    async def page(self, prefix: str, *, after: str = "") -> ObjectPage:
        return await self._link.async_call(
            "store",
            "page",
            lambda: self._aws.store.page(prefix, after=after),
            fault=self._meet("page"),
        )

    def _meet(self, action: str) -> FaultPlan | None:
        return self._aws.faults.meet(self._link.actor, "store", action, None)


class StoreLink:
    """A `jobs.core.ports.object_store.ObjectStore`."""

    def __init__(self, aws: Aws, link: Link) -> None:
        self._store = aws.store.sync
        self._link = link

    def put(self, key: str, content: bytes) -> None:
        self._link.call("store", "put", lambda: self._store.put(key, content))

    def create(self, key: str, content: bytes) -> bool:
        return self._link.call("store", "put", lambda: self._store.create(key, content))

    def get(self, key: str, *, max_bytes: int) -> bytes | None:
        return self._link.call("store", "get", lambda: self._store.get(key, max_bytes=max_bytes))

    def delete(self, key: str) -> None:
        self._link.call("store", "delete", lambda: self._store.delete(key))

    def page(self, prefix: str, *, after: str = "") -> ObjectPage:
        return self._link.call("store", "page", lambda: self._store.page(prefix, after=after))


class AsyncSchedulerLink:
    """A `jobs.core.ports.scheduler.AsyncScheduler`."""

    def __init__(self, aws: Aws, link: Link) -> None:
        self._aws = aws
        self._link = link

    async def create(self, schedule: ScheduleSpec, *, token: str) -> bool:
        return await self._call("create", lambda: self._aws.scheduler.create(schedule, token=token))

    async def get(self, group: str, name: str) -> ScheduleSpec | None:
        return await self._call("get", lambda: self._aws.scheduler.get(group, name))

    async def names(self, group: str, *, prefix: str) -> list[str]:
        return await self._call("names", lambda: self._aws.scheduler.names(group, prefix=prefix))

    async def update(self, schedule: ScheduleSpec) -> bool:
        return await self._call("update", lambda: self._aws.scheduler.update(schedule))

    async def delete(self, group: str, name: str) -> bool:
        return await self._call("delete", lambda: self._aws.scheduler.delete(group, name))

    async def _call(self, action: str, apply: Callable[[], Awaitable[T]]) -> T:
        fault = self._aws.faults.meet(self._link.actor, "scheduler", action, None)
        return await self._link.async_call("scheduler", action, apply, fault=fault)
