"""Procedures that `Client` and `AsyncClient` share though one blocks and the other awaits.

Such a procedure is a generator. It yields what it wants done, is sent the answer, and returns what
it comes to; what fails with one of our errors is raised in it where it was asked for.
"""

from __future__ import annotations

import threading
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterator,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from headgate.jobs.core.ports import BlockingTable, Item, Table
from headgate.jobs.errors import HeadgateError
from headgate.jobs.submission.prepare import Submission

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Replace:
    """`Table.replace` this; the answer is what that returns."""

    item: Item


@dataclass(frozen=True, slots=True)
class Get:
    """`Table.get` what stands in this item's place; the answer is what that returns."""

    item: Item


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait for so long."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Send:
    """Send these; raises what submitting raises."""

    submissions: Sequence[Submission]
    meanwhile: Meanwhile | None = None


@dataclass(frozen=True, slots=True)
class Meanwhile:
    """A procedure to carry out again and again while something else takes its time."""

    procedure: Callable[[], Steps[None]]
    every_s: float
    """The pause before each time: beside what is quick it is never carried out."""


Step = Replace | Get | Pause | Send
Steps = Generator[Step, Any, T]


def take(
    steps: Steps[T],
    table: BlockingTable,
    send: Callable[[Sequence[Submission]], None],
    sleep: Callable[[float], None],
) -> T:
    """Carry a procedure out in plain code; returns what it comes to."""

    def do(step: Step) -> Item | None:
        match step:
            case Replace(item=item):
                return table.replace(item)
            case Get(item=item):
                return table.get(item.pk, item.sk)
            case Pause(seconds=seconds):
                sleep(seconds)
            case Send(submissions=submissions, meanwhile=meanwhile):
                with _beside(meanwhile, lambda steps: take(steps, table, send, sleep)):
                    send(submissions)
        return None

    try:
        step = next(steps)
        while True:
            try:
                answer = do(step)
            except HeadgateError as error:
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result


async def take_async(
    steps: Steps[T],
    table: Table,
    send: Callable[[Sequence[Submission]], Awaitable[None]],
    sleep: Callable[[float], Awaitable[None]],
) -> T:
    """`take`, in an event loop."""

    async def do(step: Step) -> Item | None:
        match step:
            case Replace(item=item):
                return await table.replace(item)
            case Get(item=item):
                return await table.get(item.pk, item.sk)
            case Pause(seconds=seconds):
                await sleep(seconds)
            case Send(submissions=submissions, meanwhile=meanwhile):
                async with _beside_async(
                    meanwhile, lambda steps: take_async(steps, table, send, sleep)
                ):
                    await send(submissions)
        return None

    try:
        step = next(steps)
        while True:
            try:
                answer = await do(step)
            except HeadgateError as error:
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result


@contextmanager
def _beside(
    meanwhile: Meanwhile | None, carry_out: Callable[[Steps[None]], None]
) -> Iterator[None]:
    """Carry a procedure out every so often in a thread of its own, as long as the block takes."""
    if meanwhile is None:
        yield
        return
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(meanwhile.every_s):
            carry_out(meanwhile.procedure())

    thread = threading.Thread(target=repeat, name="headgate-meanwhile", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@asynccontextmanager
async def _beside_async(
    meanwhile: Meanwhile | None, carry_out: Callable[[Steps[None]], Coroutine[Any, Any, None]]
) -> AsyncIterator[None]:
    """`_beside`, in an event loop."""
    import asyncio  # plain code does without

    if meanwhile is None:
        yield
        return

    async def repeat() -> None:
        while True:
            await asyncio.sleep(meanwhile.every_s)
            await carry_out(meanwhile.procedure())

    task = asyncio.create_task(repeat(), name="headgate-meanwhile")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
