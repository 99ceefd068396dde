"""Payloads and results: large ones are parsed and serialised in threads, small ones in the loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel, field_serializer, field_validator

from headgate import App, AsyncClient, Client
from headgate.jobs.core.clock import SystemClock
from headgate.jobs.core.events import JobCompleted, MessageUnrunnable
from headgate.jobs.errors import ServiceUnavailable
from headgate.jobs.records.results import is_large
from headgate.jobs.testing import Harness, MemorySqs, VirtualClock
from headgate.workers.isolation import protocol
from headgate.workers.isolation.protocol import Kind
from tests.support.backends import async_over
from tests.unit.lambdas.test_consume import Function
from tests.unit.workers.rig import Note, Rig

SMALL, IN_THE_MESSAGE, IN_THE_STORE = 100, 100_000, 400_000

sizes = pytest.mark.parametrize("size", [SMALL, IN_THE_MESSAGE, IN_THE_STORE])

_POLLS: dict[str, Any] = {"receive_wait": timedelta(seconds=1)}


class Threads:
    """The threads that validated payloads and serialised results."""

    validated: ClassVar[list[int]] = []
    serialised: ClassVar[list[int]] = []


class Text(BaseModel):
    """Records the thread in which pydantic handles it."""

    text: str = ""

    @field_validator("text")
    @classmethod
    def _validated(cls, text: str) -> str:
        Threads.validated.append(threading.get_ident())
        if text.startswith("wrong"):
            raise ValueError("it is wrong")
        return text

    @field_serializer("text")
    def _serialised(self, text: str) -> str:
        Threads.serialised.append(threading.get_ident())
        return text


@pytest.fixture(autouse=True)
def _clear() -> Iterator[None]:
    yield
    Threads.validated.clear()
    Threads.serialised.clear()


def _app(**options: Any) -> App:
    app = App("shop")

    @app.job("echo", **options)
    async def echo(text: Text) -> Text:
        Threads.serialised.clear()  # the work of submitting it
        return text

    return app


def _rig(**options: Any) -> Rig:
    return Rig(_app(**options), clock=SystemClock())


async def _submit(rig: Rig, text: str) -> None:
    async with AsyncClient(rig.app, backend=rig.backend) as client:
        await client.submit(rig.app.types["echo"], Text(text=text))
    Threads.validated.clear()


def _is_here(threads: list[int]) -> bool:
    [here] = {each == threading.get_ident() for each in threads}
    return here


@sizes
@pytest.mark.parametrize("once", [False, True])
async def test_a_worker_reads_and_writes_what_is_large_in_threads(size: int, once: bool) -> None:
    rig = _rig(once=once)
    await _submit(rig, "y" * size)
    async with rig.working(**_POLLS):
        await rig.happens(JobCompleted)
    assert rig.remaining() == 0
    assert len(Threads.validated) == 1
    assert _is_here(Threads.validated) is (size == SMALL)
    assert _is_here(Threads.serialised) is (size == SMALL)


@sizes
def test_a_function_reads_and_writes_what_is_large_in_threads(size: int) -> None:
    app = App("shop", max_message_bytes=1_048_576)

    @app.job("echo")
    async def echo(text: Text) -> Text:
        Threads.serialised.clear()
        return text

    function = Function(app, queue="shop-jobs-normal")
    with Client(app, backend=function.backend) as client:
        client.submit(echo, Text(text="y" * size))
    Threads.validated.clear()
    try:
        assert function.invoke() == {"batchItemFailures": []}
    finally:
        function.consumer.close()
    assert _is_here(Threads.validated) is (size == SMALL)
    assert _is_here(Threads.serialised) is (size == SMALL)


@sizes
async def test_the_harness_and_inline_read_what_is_large_in_threads(size: int) -> None:
    jobs = Harness(_app())
    await jobs.async_client.submit(jobs.app.types["echo"], Text(text="y" * size))
    Threads.validated.clear()
    await jobs.adrain()
    assert _is_here(Threads.validated) is (size == SMALL)
    sqs = MemorySqs(VirtualClock())
    sqs.faults.raise_on("send", ServiceUnavailable("no connection"), times=1000)
    app = _app()
    app.max_message_bytes = 1_048_576
    await AsyncClient(app, fallback="inline", backend=async_over(sqs)).submit(
        app.types["echo"], Text(text="y" * size)
    )
    assert _is_here(Threads.validated[-1:]) is (size == SMALL)


@sizes
async def test_a_client_handles_large_payloads_and_results_in_threads(
    size: int,
) -> None:
    rig, text = _rig(), Text(text="y" * size)
    Threads.validated.clear()
    async with AsyncClient(rig.app, backend=rig.backend) as client:
        handle = await client.submit(rig.app.types["echo"], text)
        assert _is_here(Threads.validated) is (size == SMALL)
        assert _is_here(Threads.serialised) is (size == SMALL)
        async with rig.working(**_POLLS):
            await rig.happens(JobCompleted)
        Threads.validated.clear()
        assert await handle.result() == text
    assert _is_here(Threads.validated) is (size != IN_THE_STORE)


async def test_many_small_payloads_are_checked_in_a_thread() -> None:
    rig, texts = _rig(), [Text(text="y")] * 5_000
    Threads.validated.clear()
    async with AsyncClient(rig.app, backend=rig.backend) as client:
        await client.submit_many(rig.app.types["echo"], iter(texts))
    assert not _is_here(Threads.validated)


async def test_a_client_that_is_closed_sends_what_a_thread_still_checks() -> None:
    rig = _rig()
    client = AsyncClient(rig.app, backend=rig.backend)
    submitting = asyncio.create_task(
        client.submit(rig.app.types["echo"], Text(text="y" * IN_THE_STORE))
    )
    await asyncio.sleep(0)
    await client.close()
    assert rig.remaining() == 1
    await submitting


@pytest.mark.parametrize("size", [SMALL, IN_THE_MESSAGE])
async def test_a_payload_that_does_not_fit_is_unrunnable_whatever_its_size(size: int) -> None:
    rig, other = _rig(), App("shop")
    unchecked = other.define("echo", Note)
    async with AsyncClient(other, backend=rig.backend) as client:
        await client.submit(unchecked, Note(text="wrong" + "y" * size))
    async with rig.working(**_POLLS):
        [said] = await rig.happens(MessageUnrunnable)
    assert said.reason == "payload-invalid"
    assert _is_here(Threads.validated) is (size == SMALL)


# --- child processes -----------------------------------------------------------------------------


@pytest.mark.parametrize("size", [SMALL, IN_THE_MESSAGE])
async def test_a_large_frame_from_a_child_is_decoded_in_a_thread(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded, decode = list[int](), protocol._decoded

    def decoding(body: bytes) -> protocol.Frame:
        decoded.append(threading.get_ident())
        return decode(body)

    monkeypatch.setattr(protocol, "_decoded", decoding)
    reader = asyncio.StreamReader()
    reader.feed_data(protocol.encode(Kind.DONE, value="y" * size))
    frame = await protocol.read(reader)
    assert frame is not None
    assert frame["value"] == "y" * size
    assert _is_here(decoded) is (size == SMALL)


# --- large values --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "large"),
    [
        (None, False),
        (7, False),
        ("y" * 65_000, False),
        ("y" * 66_000, True),
        (b"y" * 66_000, True),
        ({"a": ["y" * 1_000] * 10}, False),
        ({"a": {"b": ["y" * 1_000] * 70}}, True),
        (list(range(1_000)), False),
        (list(range(10_000)), True),
        ([[[n] for n in range(100)] for _ in range(100)], True),
        (Note(text="y" * 70_000), True),
        (Note(text="y" * 70), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_is_large_that_takes_long_to_write(value: Any, large: bool) -> None:
    assert is_large(value) is large


def test_a_value_that_holds_itself_is_looked_at_for_a_bounded_time() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert is_large(loop)
