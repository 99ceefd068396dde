"""Aspects of `MemorySqs` beyond the conformance suite: long times, faults, the log of calls."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
)

from headgate.jobs.core.ports.transport import (
    OutgoingMessage,
    QueueDepth,
    ReceivedMessage,
    VisibilityChange,
)
from headgate.jobs.core.topology import DEFAULT_LANES, Priority, QueueSpec, Topology
from headgate.jobs.errors import (
    QueueMissing,
    ServiceUnavailable,
    SettingsInvalid,
    Throttled,
    TransportError,
)
from headgate.jobs.testing import LoopClock, MemorySqs, MessageState, VirtualClock

_Result = TypeVar("_Result")
_HOUR = 3600
_START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def sqs(clock: VirtualClock) -> MemorySqs:
    sqs = MemorySqs(clock)
    sqs.create_queue("q")
    return sqs


def _on_the_loops_time() -> MemorySqs:
    sqs = MemorySqs(LoopClock())
    sqs.create_queue("q")
    return sqs


async def _send(sqs: MemorySqs, *bodies: str, queue: str = "q") -> None:
    assert await sqs.send(queue, [OutgoingMessage(body=body) for body in bodies]) == []


async def _fifo_send(
    sqs: MemorySqs, *bodies: str, group: str = "g", deduplication_id: str | None = None
) -> None:
    for body in bodies:
        message = OutgoingMessage(
            body=body, group=group, deduplication_id=deduplication_id or f"{group}-{body}"
        )
        assert await sqs.send("q.fifo", [message]) == []


async def _take(
    sqs: MemorySqs, queue: str = "q", *, limit: int = 10, visibility_s: int | None = None
) -> list[ReceivedMessage]:
    return await sqs.receive(queue, limit=limit, wait_s=0, visibility_s=visibility_s)


async def _take_one(
    sqs: MemorySqs, queue: str = "q", *, visibility_s: int | None = None
) -> ReceivedMessage:
    (message,) = await _take(sqs, queue, limit=1, visibility_s=visibility_s)
    return message


async def _hide(sqs: MemorySqs, held: ReceivedMessage, timeout_s: int, queue: str = "q") -> str:
    """Change a visibility timeout; return the code of the failure, or nothing."""
    failures = await sqs.change_visibility(
        queue, [VisibilityChange(receipt=held.receipt, timeout_s=timeout_s)]
    )
    return "".join(failure.code for failure in failures)


async def _waiting_poll(sqs: MemorySqs) -> asyncio.Task[list[ReceivedMessage]]:
    """Return a long poll that has begun to wait, as it does in the step that logs it."""
    poll = asyncio.create_task(sqs.receive("q", limit=1, wait_s=20))
    for _ in range(2):  # the task begins, then its call suspends once, as each call does
        await asyncio.sleep(0)
    assert sqs.calls[-1].action == "receive"
    return poll


# --- the clocks ----------------------------------------------------------------------------------


def test_a_virtual_clock_stands_still_until_it_is_advanced(clock: VirtualClock) -> None:
    assert (clock.now(), clock.monotonic()) == (_START, 0)

    clock.advance(90)
    clock.advance(timedelta(minutes=1))

    assert (clock.now(), clock.monotonic()) == (_START + timedelta(seconds=150), 150)


def test_a_virtual_clock_refuses_to_go_back(clock: VirtualClock) -> None:
    with pytest.raises(SettingsInvalid, match="must not be negative, got -1 s"):
        clock.advance(-1)


@pytest.mark.looptime(start=0)
async def test_a_loop_clock_follows_the_loops_time() -> None:
    clock = LoopClock()

    await asyncio.sleep(_HOUR)

    assert clock.monotonic() == _HOUR
    assert clock.now() == _START + timedelta(hours=1)


@pytest.mark.looptime(start=0)
async def test_a_loop_clock_can_be_read_from_another_thread_of_the_test() -> None:
    clock = LoopClock()
    await asyncio.sleep(5)
    clock.monotonic()
    readings: list[float] = []

    reader = threading.Thread(target=lambda: readings.append(clock.monotonic()))
    reader.start()
    reader.join()

    assert readings == [5]


def test_a_loop_clock_that_never_saw_a_loop_says_so() -> None:
    with pytest.raises(RuntimeError, match="no running event loop"):
        LoopClock().now()


# --- long polls ----------------------------------------------------------------------------------


@pytest.mark.looptime(start=0)
async def test_a_long_poll_wakes_at_the_moment_a_delay_ends() -> None:
    sqs = _on_the_loops_time()
    await sqs.send("q", [OutgoingMessage(body="a", delay_s=7)])

    (message,) = await sqs.receive("q", limit=1, wait_s=20)

    assert message.body == "a"
    assert asyncio.get_running_loop().time() == 7


@pytest.mark.looptime(start=0)
async def test_a_long_poll_wakes_when_a_message_taken_meanwhile_comes_back() -> None:
    sqs = _on_the_loops_time()
    polls = [sqs.receive("q", limit=1, wait_s=20, visibility_s=5) for _ in range(2)]
    waiting = asyncio.gather(*polls)
    await asyncio.sleep(1)
    await _send(sqs, "a")

    (first,), (second,) = await waiting

    assert {first.receive_count, second.receive_count} == {1, 2}
    assert asyncio.get_running_loop().time() == 6


@pytest.mark.looptime(start=0)
async def test_a_long_poll_wakes_when_a_message_is_given_back() -> None:
    sqs = _on_the_loops_time()
    await _send(sqs, "a")
    held = await _take_one(sqs)
    waiting = asyncio.create_task(sqs.receive("q", limit=1, wait_s=20))
    await asyncio.sleep(3)

    await _hide(sqs, held, 0)
    await waiting

    assert asyncio.get_running_loop().time() == 3


@pytest.mark.looptime(start=0)
async def test_a_redriven_message_wakes_a_long_poll_of_the_dead_letter_queue() -> None:
    sqs = MemorySqs(LoopClock())
    sqs.create_queue("dlq")
    sqs.create_queue("q", dlq="dlq", max_receive_count=1)
    await _send(sqs, "a")
    await _take(sqs, visibility_s=0)
    waiting = asyncio.create_task(sqs.receive("dlq", limit=1, wait_s=20))
    await asyncio.sleep(2)

    assert await _take(sqs) == []
    (message,) = await waiting

    assert message.body == "a"
    assert asyncio.get_running_loop().time() == 2


@pytest.mark.looptime(start=0)
async def test_a_long_poll_of_an_empty_queue_lasts_exactly_as_long_as_it_was_asked_to() -> None:
    sqs = _on_the_loops_time()

    assert await sqs.receive("q", limit=1, wait_s=20) == []

    assert asyncio.get_running_loop().time() == 20


@pytest.mark.looptime(start=0)
async def test_a_cancelled_long_poll_takes_nothing() -> None:
    sqs = _on_the_loops_time()
    waiting = asyncio.create_task(sqs.receive("q", limit=1, wait_s=20))
    await asyncio.sleep(1)

    waiting.cancel()
    await _send(sqs, "a")

    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await sqs.depth("q") == QueueDepth(visible=1, in_flight=0, delayed=0)


async def test_on_a_virtual_clock_a_long_poll_ends_when_the_clock_is_advanced(
    sqs: MemorySqs, clock: VirtualClock
) -> None:
    await sqs.send("q", [OutgoingMessage(body="a", delay_s=10)])
    successful = await _waiting_poll(sqs)
    clock.advance(10)
    (message,) = await successful
    empty = await _waiting_poll(sqs)
    clock.advance(20)

    assert message.body == "a"
    assert await empty == []


async def test_a_synchronous_send_from_another_thread_wakes_a_long_poll() -> None:
    sqs = _on_the_loops_time()
    waiting = await _waiting_poll(sqs)

    async with asyncio.timeout(10):
        await asyncio.to_thread(sqs.sync.send, "q", [OutgoingMessage(body="a")])
        (message,) = await waiting

    assert message.body == "a"


# --- time ----------------------------------------------------------------------------------------


async def test_a_delivery_can_be_held_for_exactly_twelve_hours(
    sqs: MemorySqs, clock: VirtualClock
) -> None:
    await _send(sqs, "a")
    held = await _take_one(sqs, visibility_s=12 * _HOUR)
    clock.advance(_HOUR)

    assert await _hide(sqs, held, 11 * _HOUR + 1) == "InvalidParameterValue"
    assert await _hide(sqs, held, 11 * _HOUR) == ""


async def test_the_twelve_hours_begin_anew_with_each_delivery(
    sqs: MemorySqs, clock: VirtualClock
) -> None:
    await _send(sqs, "a")
    await _take(sqs, visibility_s=12 * _HOUR)
    clock.advance(12 * _HOUR)

    held = await _take_one(sqs)

    assert await _hide(sqs, held, 12 * _HOUR) == ""


@pytest.mark.parametrize("timeout_s", [-1, 43_201])
async def test_a_visibility_out_of_range_is_refused(sqs: MemorySqs, timeout_s: int) -> None:
    await _send(sqs, "a")

    assert await _hide(sqs, await _take_one(sqs), timeout_s) == "InvalidParameterValue"


async def test_a_message_expires_at_its_retention_counted_from_sending(clock: VirtualClock) -> None:
    sqs = MemorySqs(clock)
    sqs.create_queue("q", retention=_HOUR)
    await _send(sqs, "a")

    clock.advance(_HOUR - 1)
    held = await _take_one(sqs)
    clock.advance(1)

    assert sqs.messages("q") == []
    assert await sqs.depth("q") == QueueDepth(visible=0, in_flight=0, delayed=0)
    assert await _hide(sqs, held, 60) == "InvalidParameterValue"


async def test_a_dead_letter_expires_by_its_original_time_of_sending(clock: VirtualClock) -> None:
    sqs = MemorySqs(clock)
    sqs.create_queue("dlq", retention=2 * _HOUR)
    sqs.create_queue("q", dlq="dlq", max_receive_count=1, retention=3 * _HOUR)
    await _send(sqs, "a")
    clock.advance(_HOUR)
    await _take(sqs, visibility_s=0)
    await _take(sqs)

    clock.advance(_HOUR - 1)
    assert len(sqs.messages("dlq")) == 1
    clock.advance(1)
    assert sqs.messages("dlq") == []


async def test_a_fifo_deduplication_id_is_forgotten_after_five_minutes(clock: VirtualClock) -> None:
    sqs = MemorySqs(clock)
    sqs.create_queue("q.fifo", fifo=True)
    await _fifo_send(sqs, "first", deduplication_id="same")
    clock.advance(299)
    await _fifo_send(sqs, "dropped", deduplication_id="same")
    clock.advance(1)
    await _fifo_send(sqs, "second", deduplication_id="same")

    assert [message.body for message in sqs.messages("q.fifo")] == ["first", "second"]


async def test_fifo_groups_do_not_share_deduplication_ids(clock: VirtualClock) -> None:
    sqs = MemorySqs(clock)
    sqs.create_queue("q.fifo", fifo=True)

    await _fifo_send(sqs, "a", group="g", deduplication_id="same")
    await _fifo_send(sqs, "b", group="h", deduplication_id="same")

    assert len(sqs.messages("q.fifo")) == 2


@pytest.mark.parametrize(
    ("extended", "visible"),
    [(0, []), (1, ["1"]), (2, ["1", "2"])],
    ids=["first", "second", "third"],
)
async def test_a_hidden_fifo_message_holds_back_only_those_sent_after_it(
    clock: VirtualClock, extended: int, visible: list[str]
) -> None:
    sqs = MemorySqs(clock)
    sqs.create_queue("q.fifo", fifo=True)
    await _fifo_send(sqs, "1", "2", "3")
    held = await _take(sqs, "q.fifo")
    await _hide(sqs, held[extended], 60, "q.fifo")

    clock.advance(30)

    assert [message.body for message in await _take(sqs, "q.fifo")] == visible


class _Stepped(VirtualClock):
    """Its time of day is put forward while its monotonic time goes on, as NTP does."""

    ahead = timedelta()

    def now(self) -> datetime:
        return super().now() + self.ahead


async def test_a_first_receive_has_the_time_of_day_that_the_clock_shows_then() -> None:
    clock = _Stepped()
    sqs = MemorySqs(clock)
    sqs.create_queue("q")
    await _send(sqs, "a")
    clock.advance(5)
    clock.ahead = timedelta(minutes=1)

    received_at = clock.now()
    first = await _take_one(sqs, visibility_s=1)
    clock.advance(1)
    second = await _take_one(sqs)

    assert first.first_received_at == second.first_received_at == received_at


# --- receipts of past deliveries -----------------------------------------------------------------


@pytest.mark.parametrize("received_again", [False, True])
async def test_a_past_receipt_does_nothing_by_default(
    sqs: MemorySqs, clock: VirtualClock, *, received_again: bool
) -> None:
    await _send(sqs, "a")
    past = await _take_one(sqs)
    clock.advance(30)
    if received_again:
        await _take_one(sqs)

    assert await _hide(sqs, past, 0) == "InvalidParameterValue"
    assert await sqs.delete("q", [past.receipt]) == []
    assert len(sqs.messages("q")) == 1


async def test_a_past_receipt_that_works_acts_on_the_delivery_of_another(
    clock: VirtualClock,
) -> None:
    sqs = MemorySqs(clock, old_receipts_work=True)
    sqs.create_queue("q")
    await _send(sqs, "a")
    past = await _take_one(sqs)
    clock.advance(30)
    await _take_one(sqs)

    assert await _hide(sqs, past, 0) == ""
    assert (await sqs.depth("q")).visible == 1
    assert await sqs.delete("q", [past.receipt]) == []
    assert sqs.messages("q") == []


async def test_a_past_receipt_that_works_does_not_hide_a_visible_message(
    clock: VirtualClock,
) -> None:
    sqs = MemorySqs(clock, old_receipts_work=True)
    sqs.create_queue("q")
    await _send(sqs, "a")
    past = await _take_one(sqs)
    clock.advance(30)

    assert await _hide(sqs, past, 60) == ""

    assert (await sqs.depth("q")).visible == 1


# --- the limit on messages in flight -------------------------------------------------------------


@pytest.mark.looptime(start=0)
async def test_beyond_the_in_flight_limit_a_long_poll_returns_nothing_and_no_error() -> None:
    sqs = MemorySqs(LoopClock(), in_flight_limit=2)
    sqs.create_queue("q", visibility=60)
    await _send(sqs, "a", "b", "c")

    assert len(await sqs.receive("q", limit=10, wait_s=20)) == 2
    assert await sqs.receive("q", limit=10, wait_s=20) == []
    with pytest.raises(Throttled, match="OverLimit"):
        await _take(sqs)


@pytest.mark.looptime(start=0)
async def test_a_delete_makes_room_below_the_in_flight_limit() -> None:
    sqs = MemorySqs(LoopClock(), in_flight_limit=1)
    sqs.create_queue("q")
    await _send(sqs, "a", "b")
    held = await _take_one(sqs)
    waiting = asyncio.create_task(sqs.receive("q", limit=1, wait_s=20))
    await asyncio.sleep(1)

    await sqs.delete("q", [held.receipt])

    assert [message.body for message in await waiting] == ["b"]


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 11])
async def test_a_batch_of_none_or_more_than_ten_is_a_fault_in_the_program(
    sqs: MemorySqs, count: int
) -> None:
    with pytest.raises(ValueError, match="1 to 10"):
        await sqs.send("q", [OutgoingMessage(body="a")] * count)
    with pytest.raises(ValueError, match="1 to 10"):
        await sqs.delete("q", ["r"] * count)
    with pytest.raises(ValueError, match="1 to 10"):
        await sqs.change_visibility("q", [VisibilityChange(receipt="r", timeout_s=0)] * count)


@pytest.mark.parametrize(
    ("limit", "wait_s", "visibility_s"),
    [(0, 0, None), (11, 0, None), (1, -1, None), (1, 21, None), (1, 0, -1), (1, 0, 43_201)],
)
async def test_a_receive_with_numbers_out_of_range_is_a_fault_in_the_program(
    sqs: MemorySqs, limit: int, wait_s: float, visibility_s: int | None
) -> None:
    with pytest.raises(ValueError, match="must be"):
        await sqs.receive("q", limit=limit, wait_s=wait_s, visibility_s=visibility_s)


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (OutgoingMessage(body=""), "MissingParameter"),
        (OutgoingMessage(body="\ud800"), "InvalidMessageContents"),
        (OutgoingMessage(body="\uffff"), "InvalidMessageContents"),
        (OutgoingMessage(body="a", delay_s=-1), "InvalidParameterValue"),
        (OutgoingMessage(body="a", group="two words"), "InvalidParameterValue"),
        (OutgoingMessage(body="a", group="x" * 129), "InvalidParameterValue"),
        (OutgoingMessage(body="a", deduplication_id="d"), "InvalidParameterValue"),
        (OutgoingMessage(body="a", attributes={"a b": "c"}), "InvalidParameterValue"),
        (OutgoingMessage(body="a", attributes={"a": "\x00"}), "InvalidParameterValue"),
    ],
)
async def test_a_standard_queue_refuses_what_sqs_refuses(
    sqs: MemorySqs, message: OutgoingMessage, code: str
) -> None:
    (failure,) = await sqs.send("q", [message])

    assert (failure.code, failure.sender_fault) == (code, True)
    assert sqs.messages("q") == []


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (OutgoingMessage(body="a", deduplication_id="d"), "MissingParameter"),
        (OutgoingMessage(body="a", group="g"), "InvalidParameterValue"),
        (OutgoingMessage(body="a", group="g", deduplication_id="a b"), "InvalidParameterValue"),
    ],
)
async def test_a_fifo_queue_refuses_what_sqs_refuses(
    sqs: MemorySqs, message: OutgoingMessage, code: str
) -> None:
    sqs.create_queue("q.fifo", fifo=True)

    (failure,) = await sqs.send("q.fifo", [message])

    assert failure.code == code


# --- provisioning --------------------------------------------------------------------------------


def _topology(*, fifo: bool = False) -> Topology:
    suffix = ".fifo" if fifo else ""
    spec = QueueSpec(
        group="jobs",
        priority=Priority.HIGH,
        name=f"shop-jobs-high{suffix}",
        dlq_name=f"shop-jobs-high-dlq{suffix}",
        lane=DEFAULT_LANES[Priority.HIGH],
        max_receive_count=3,
        fifo=fifo,
    )
    return Topology(
        app="shop",
        stage=None,
        queues=(spec,),
        quarantine_name="shop-quarantine",
        table_name="shop-records",
    )


async def test_a_topology_is_provisioned_with_its_numbers(
    sqs: MemorySqs, clock: VirtualClock
) -> None:
    sqs.provision(_topology())
    await _send(sqs, "a", queue="shop-jobs-high")
    for _ in range(3):
        await _take_one(sqs, "shop-jobs-high")
        clock.advance(60)

    assert await _take(sqs, "shop-jobs-high") == []
    assert len(sqs.messages("shop-jobs-high-dlq")) == 1
    assert sqs.messages("shop-quarantine") == []


def test_a_topology_may_be_provisioned_again(sqs: MemorySqs) -> None:
    sqs.provision(_topology(fifo=True))
    sqs.provision(_topology(fifo=True))

    assert sqs.messages("shop-jobs-high.fifo") == []


def test_queues_that_sqs_would_not_create_are_refused(sqs: MemorySqs) -> None:
    with pytest.raises(ValueError, match="other settings"):
        sqs.create_queue("q", visibility=31)
    with pytest.raises(ValueError, match=r"\.fifo"):
        sqs.create_queue("ordered", fifo=True)
    with pytest.raises(ValueError, match="only work together"):
        sqs.create_queue("r", dlq="q")
    with pytest.raises(ValueError, match="no queue 'nowhere'"):
        sqs.create_queue("r", dlq="nowhere", max_receive_count=1)
    with pytest.raises(ValueError, match="of the same type"):
        sqs.create_queue("r.fifo", dlq="q", max_receive_count=1, fifo=True)


# --- faults --------------------------------------------------------------------------------------


async def test_entries_fail_on_demand_and_are_not_carried_out(sqs: MemorySqs) -> None:
    sqs.faults.fail_entries("send", indexes=[1], code="InternalError", message="m")

    (failure,) = await sqs.send("q", [OutgoingMessage(body=body) for body in ("a", "b", "c")])

    assert (failure.index, failure.code, failure.message) == (1, "InternalError", "m")
    assert not failure.sender_fault
    assert [message.body for message in sqs.messages("q")] == ["a", "c"]


async def test_a_fault_happens_as_often_as_asked_for_and_only_where(sqs: MemorySqs) -> None:
    sqs.create_queue("other")
    sqs.faults.fail_entries("delete", queue="q", times=2, sender_fault=True)

    assert await sqs.delete("other", ["other/x/1"]) == []
    for _ in range(2):
        (failure,) = await sqs.delete("q", ["q/x/1"])
        assert failure.sender_fault
    assert await sqs.delete("q", ["q/x/1"]) == []


async def test_a_call_that_fails_on_demand_takes_no_effect(sqs: MemorySqs) -> None:
    sqs.faults.raise_on("send", Throttled("slow down"), times=2)

    for _ in range(2):
        with pytest.raises(Throttled, match="slow down"):
            await sqs.send("q", [OutgoingMessage(body="a")])

    assert sqs.messages("q") == []
    await _send(sqs, "a")


def test_synchronous_code_receives_gives_back_and_deletes(sqs: MemorySqs) -> None:
    sync = sqs.sync
    assert sync.send("q", [OutgoingMessage(body="a")]) == []
    [first] = sync.receive("q", limit=10, wait_s=0)
    shown = VisibilityChange(receipt=first.receipt, timeout_s=0)
    assert sync.change_visibility("q", [shown]) == []
    [second] = sync.receive("q", limit=10, wait_s=0)
    assert sync.delete("q", [second.receipt]) == []
    assert sync.depth("q") == QueueDepth(visible=0, in_flight=0, delayed=0)
    assert [call.action for call in sqs.calls][-2:] == ["delete", "depth"]


async def test_a_lost_answer_leaves_a_message_sent(sqs: MemorySqs) -> None:
    sqs.faults.raise_on("send", ServiceUnavailable("reset"), applied=True)

    with pytest.raises(ServiceUnavailable):
        sqs.sync.send("q", [OutgoingMessage(body="a")])

    assert len(sqs.messages("q")) == 1


async def test_a_lost_answer_leaves_what_was_received_hidden(
    sqs: MemorySqs, clock: VirtualClock
) -> None:
    await _send(sqs, "a")
    sqs.faults.raise_on("receive", ServiceUnavailable("reset"), applied=True)

    with pytest.raises(ServiceUnavailable):
        await _take(sqs)

    assert await _take(sqs) == []
    clock.advance(30)
    assert (await _take_one(sqs)).receive_count == 2


def test_a_fault_that_would_never_happen_is_refused(sqs: MemorySqs) -> None:
    with pytest.raises(ValueError, match="at least once"):
        sqs.faults.raise_on("send", Throttled("never"), times=0)


async def test_faults_that_were_not_met_can_be_cleared(sqs: MemorySqs) -> None:
    sqs.faults.raise_on("depth", TransportError("no"))
    sqs.faults.clear()

    assert await sqs.depth("q") == QueueDepth(visible=0, in_flight=0, delayed=0)


# --- inspection ----------------------------------------------------------------------------------


async def test_every_call_is_logged_with_its_numbers(sqs: MemorySqs, clock: VirtualClock) -> None:
    await sqs.send("q", [OutgoingMessage(body="a"), OutgoingMessage(body="b", delay_s=5)])
    clock.advance(1)
    held = await _take_one(sqs)
    await _hide(sqs, held, 45)
    await sqs.delete("q", [held.receipt])

    assert [(call.action, call.entries) for call in sqs.calls] == [
        ("send", 2),
        ("receive", 1),
        ("change_visibility", 1),
        ("delete", 1),
    ]
    assert sqs.calls[0].delays_s == (0, 5)
    assert sqs.calls[2].timeouts_s == (45,)
    assert sqs.calls[2].at - sqs.calls[0].at == timedelta(seconds=1)


async def test_a_call_that_fails_is_logged_too(sqs: MemorySqs) -> None:
    sqs.faults.raise_on("depth", TransportError("no"))

    with pytest.raises(TransportError):
        await sqs.depth("q")
    with pytest.raises(QueueMissing):
        await sqs.depth("nowhere")

    assert [call.queue for call in sqs.calls] == ["q", "nowhere"]


async def test_a_snapshot_tells_where_each_message_stands(sqs: MemorySqs) -> None:
    await _send(sqs, "hidden", "visible")
    await sqs.send("q", [OutgoingMessage(body="delayed", delay_s=5, attributes={"k": "v"})])
    await _take_one(sqs)

    hidden, visible, delayed = sqs.messages("q")

    assert (hidden.state, hidden.visible_at) == (
        MessageState.IN_FLIGHT,
        _START + timedelta(seconds=30),
    )
    assert (visible.state, visible.visible_at) == (MessageState.VISIBLE, None)
    assert (delayed.state, delayed.visible_at) == (
        MessageState.DELAYED,
        _START + timedelta(seconds=5),
    )
    assert (hidden.receive_count, visible.receive_count, delayed.attributes) == (1, 0, {"k": "v"})


async def test_a_message_keeps_what_it_was_sent_with(sqs: MemorySqs) -> None:
    attributes = {"JobType": "a"}
    await sqs.send("q", [OutgoingMessage(body="a", attributes=attributes)])

    attributes["JobType"] = "changed by the sender afterwards"

    assert (await _take_one(sqs)).attributes == {"JobType": "a"}


# --- any history ---------------------------------------------------------------------------------

_VISIBILITY_S = 5
_IN_FLIGHT_LIMIT = 6


@dataclass(frozen=True, slots=True)
class _Delivery:
    queue: str
    message: ReceivedMessage


@dataclass(frozen=True, slots=True)
class _Lease:
    receipt: str
    until_s: float


class _AnyHistory(RuleBasedStateMachine):
    """Any calls in any order, with time passing, checked against a model."""

    deliveries: Bundle[_Delivery] = Bundle("deliveries")

    @initialize(past_receipts_work=st.booleans(), fifo=st.booleans())
    def begin(self, past_receipts_work: bool, fifo: bool) -> None:
        self.clock = VirtualClock()
        self.sqs = MemorySqs(
            self.clock, in_flight_limit=_IN_FLIGHT_LIMIT, old_receipts_work=past_receipts_work
        )
        suffix = ".fifo" if fifo else ""
        self.queue, self.dlq = f"q{suffix}", f"dlq{suffix}"
        self.sqs.create_queue(self.dlq, visibility=_VISIBILITY_S, fifo=fifo)
        self.sqs.create_queue(
            self.queue, visibility=_VISIBILITY_S, dlq=self.dlq, max_receive_count=3, fifo=fifo
        )
        self.fifo = fifo
        self.past_receipts_work = past_receipts_work and not fifo
        self.numbers = itertools.count()
        self.stored: set[str] = set()
        self.leases: dict[str, _Lease] = {}

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()

    def teardown(self) -> None:
        self.runner.close()

    @rule(count=st.integers(1, 4), group=st.sampled_from("gh"), delay_s=st.integers(0, 4))
    def send(self, count: int, group: str, delay_s: int) -> None:
        messages = [self._new_message(group, delay_s) for _ in range(count)]

        assert self._run(self.sqs.send(self.queue, messages)) == []

        self.stored.update(message.body for message in messages)

    @rule(applied=st.booleans())
    def send_and_get_no_answer(self, applied: bool) -> None:
        message = self._new_message("g", 0)
        self.sqs.faults.raise_on("send", ServiceUnavailable("lost"), applied=applied)

        with pytest.raises(ServiceUnavailable):
            self._run(self.sqs.send(self.queue, [message]))

        if applied:
            self.stored.add(message.body)

    @rule(target=deliveries, limit=st.integers(1, 10), dead=st.booleans())
    def receive(self, limit: int, dead: bool) -> MultipleResults[_Delivery]:
        queue = self.dlq if dead else self.queue
        try:
            received = self._run(self.sqs.receive(queue, limit=limit, wait_s=0))
        except Throttled:
            assert self._run(self.sqs.depth(queue)).in_flight == _IN_FLIGHT_LIMIT
            return multiple()
        for message in received:
            assert message.body in self.stored
            assert self._lease(message.body) is None
            until_s = self.clock.monotonic() + _VISIBILITY_S
            self.leases[message.body] = _Lease(message.receipt, until_s)
        return multiple(*(_Delivery(queue, message) for message in received))

    @rule(delivery=deliveries, timeout_s=st.integers(0, 8))
    def change_visibility(self, delivery: _Delivery, timeout_s: int) -> None:
        receipt, body = delivery.message.receipt, delivery.message.body
        lease = self._lease(body)
        acts = self._acts(delivery)

        failures = self._run(
            self.sqs.change_visibility(
                delivery.queue, [VisibilityChange(receipt=receipt, timeout_s=timeout_s)]
            )
        )

        assert (failures == []) is acts
        if acts and lease:
            self.leases[body] = _Lease(lease.receipt, self.clock.monotonic() + timeout_s)

    @rule(delivery=deliveries)
    def delete(self, delivery: _Delivery) -> None:
        body = delivery.message.body
        acts = self._acts(delivery)
        refused = self.fifo and not acts and self._is_in(delivery.queue, body)

        failures = self._run(self.sqs.delete(delivery.queue, [delivery.message.receipt]))

        assert bool(failures) is refused
        if acts:
            self.stored.remove(body)

    @rule(seconds=st.integers(1, 10))
    def let_time_pass(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @invariant()
    def every_message_is_in_exactly_one_queue(self) -> None:
        everything = [*self.sqs.messages(self.queue), *self.sqs.messages(self.dlq)]

        assert Counter(message.body for message in everything) == Counter(self.stored)

    @invariant()
    def every_message_is_in_exactly_one_state(self) -> None:
        for queue in (self.queue, self.dlq):
            messages = self.sqs.messages(queue)
            states = Counter(message.state for message in messages)
            assert self._run(self.sqs.depth(queue)) == QueueDepth(
                visible=states[MessageState.VISIBLE],
                in_flight=states[MessageState.IN_FLIGHT],
                delayed=states[MessageState.DELAYED],
            )
            for message in messages:
                in_flight = message.state is MessageState.IN_FLIGHT
                assert in_flight is (self._lease(message.body) is not None)

    def _new_message(self, group: str, delay_s: int) -> OutgoingMessage:
        body = str(next(self.numbers))
        if self.fifo:
            return OutgoingMessage(body=body, group=group, deduplication_id=body)
        return OutgoingMessage(body=body, group=group, delay_s=delay_s)

    def _lease(self, body: str) -> _Lease | None:
        """Return the current lease on the message, or None."""
        lease = self.leases.get(body)
        return lease if lease and lease.until_s > self.clock.monotonic() else None

    def _acts(self, delivery: _Delivery) -> bool:
        """Return True if this delivery's receipt still has power over its message."""
        body = delivery.message.body
        if not self._is_in(delivery.queue, body):
            return False
        lease = self._lease(body)
        holds = lease is not None and lease.receipt == delivery.message.receipt
        return holds or self.past_receipts_work

    def _is_in(self, queue: str, body: str) -> bool:
        return body in {message.body for message in self.sqs.messages(queue)}

    def _run(self, call: Coroutine[Any, Any, _Result]) -> _Result:
        return self.runner.run(call)


TestAnyHistory = _AnyHistory.TestCase
TestAnyHistory.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
