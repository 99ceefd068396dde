"""Procedures that `Client` and `AsyncClient` share though one blocks and the other awaits.

Such a procedure is a generator. It yields what it wants done, is sent the answer, and returns what
it comes to; what fails with one of our errors is raised in it where it was asked for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from jobs.errors import HeadgateError
from jobs.ports import BlockingTable, Item, Table
from jobs.submission import Submission

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
            case Send(submissions=submissions):
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
            case Send(submissions=submissions):
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
