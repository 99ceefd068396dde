"""Coroutines over synchronous ports run to completion without an event loop."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from headgate.jobs.core.immediate import (
    ImmediateObjectStore,
    ImmediateScheduler,
    ImmediateSender,
    ImmediateTable,
    drive,
    driven,
    immediate,
)
from headgate.jobs.core.ports.object_store import AsyncObjectStore
from headgate.jobs.core.ports.scheduler import AsyncScheduler
from headgate.jobs.core.ports.table import AsyncTable, Item
from headgate.jobs.core.ports.transport import AsyncSender
from headgate.jobs.errors import Throttled
from headgate.jobs.testing import MemoryScheduler, MemorySqs, MemoryStore, MemoryTable, VirtualClock


def test_a_coroutine_over_functions_comes_to_what_they_return() -> None:
    async def both() -> list[int]:
        return [await immediate(abs)(-1), await immediate(abs)(-2)]

    assert drive(both()) == [1, 2]


def test_what_a_function_raises_is_raised_where_it_was_awaited() -> None:
    def fail(text: str) -> None:
        raise Throttled(text)

    async def caught() -> str:
        try:
            await immediate(fail)("busy")
        except Throttled as error:
            return str(error)
        return "not raised"

    assert drive(caught()) == "busy"
    with pytest.raises(Throttled, match="busy"):
        drive(immediate(fail)(text="busy"))


def test_a_coroutine_that_suspends_is_closed_and_named() -> None:
    cleaned_up: list[str] = []

    async def waits_for_the_loop() -> None:
        try:
            await asyncio.sleep(0)
        finally:
            cleaned_up.append("yes")

    with pytest.raises(RuntimeError, match=r"waits_for_the_loop.* suspended"):
        drive(waits_for_the_loop())
    assert cleaned_up == ["yes"]


def test_a_driven_function_returns_and_raises_what_its_coroutine_does() -> None:
    async def divided(number: int, *, by: int) -> int:
        """Divide."""
        return (await immediate(divmod)(number, by))[0]

    divide = driven(divided)
    assert divide(7, by=2) == 3
    assert (divide.__name__, divide.__doc__) == ("divided", "Divide.")
    with pytest.raises(ZeroDivisionError):
        divide(3, by=0)


@pytest.mark.parametrize(
    ("port", "make"),
    [
        (AsyncSender, lambda: ImmediateSender(MemorySqs(VirtualClock()).sync)),
        (AsyncTable, lambda: ImmediateTable(MemoryTable(VirtualClock()).sync)),
        (AsyncScheduler, lambda: ImmediateScheduler(MemoryScheduler(VirtualClock()).sync)),
        (AsyncObjectStore, lambda: ImmediateObjectStore(MemoryStore().sync)),
    ],
)
def test_an_adapter_has_every_method_of_its_port(port: type, make: Callable[[], Any]) -> None:
    methods = {name for name, each in vars(port).items() if inspect.iscoroutinefunction(each)}
    assert methods == vars(make()).keys()


def test_a_table_is_read_and_written_through_its_adapter() -> None:
    table = ImmediateTable(MemoryTable(VirtualClock()).sync)
    item = Item(pk="job#1", sk="submitted", data={"at": 1})

    assert drive(table.put([item])) == []
    assert drive(table.query("job#1", prefix="sub")) == [item]
