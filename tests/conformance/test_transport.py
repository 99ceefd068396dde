"""The guarantees of every `AsyncTransport`, whichever server is behind it.

The servers run in real time, so timeouts are short, and each test waits for an event: a long poll
that returns. The only time limit is a generous bound on a server's answers.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Awaitable
from uuid import uuid4

import pytest

from headgate.jobs.core.ports.transport import (
    AsyncTransport,
    EntryFailure,
    OutgoingMessage,
    QueueDepth,
    ReceivedMessage,
    VisibilityChange,
)
from headgate.jobs.core.topology import MAX_MESSAGE_BYTES
from headgate.jobs.errors import QueueMissing, TransportError
from tests.conformance.servers import Feature, Server, needs

_PATIENCE_S = 120.0
_ABOUT_A_SECOND = 0.9  # the server's clock and ours may differ by milliseconds
_BOGUS = "not-a-receipt"

# aiohttp warns of requests over 1 MiB, which a message of the full 1 MiB makes.
_large_requests = pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")


def _name(suffix: str = "") -> str:
    return f"conformance-{uuid4().hex[:12]}{suffix}"


def _texts(*bodies: str) -> list[OutgoingMessage]:
    return [OutgoingMessage(body=body) for body in bodies]


async def _queue(sqs: Server, *, visibility_s: int = 30) -> str:
    name = _name()
    await sqs.create_queue(name, visibility_s=visibility_s)
    return name


async def _fifo_queue(sqs: Server, *, visibility_s: int = 30) -> str:
    name = _name(".fifo")
    await sqs.create_queue(name, visibility_s=visibility_s, fifo=True)
    return name


async def _fifo_send(sqs: Server, queue: str, group: str, *bodies: str) -> None:
    for body in bodies:
        message = OutgoingMessage(body=body, group=group, deduplication_id=uuid4().hex)
        assert await sqs.transport.send(queue, [message]) == []


async def _poll(transport: AsyncTransport, queue: str, *, limit: int = 10) -> list[ReceivedMessage]:
    """Return the messages of a long poll; fail the test if none comes for a long time."""
    async with asyncio.timeout(_PATIENCE_S):
        while True:
            if received := await transport.receive(queue, limit=limit, wait_s=5):
                return received


async def _one(sqs: Server, queue: str) -> ReceivedMessage:
    (message,) = await _poll(sqs.transport, queue, limit=1)
    return message


async def _collect(sqs: Server, queue: str, count: int) -> list[ReceivedMessage]:
    """Return at least ``count`` deliveries, by as many receives as necessary."""
    received: list[ReceivedMessage] = []
    while len(received) < count:
        received += await _poll(sqs.transport, queue)
    return received


async def _release(sqs: Server, queue: str, held: ReceivedMessage) -> None:
    change = VisibilityChange(receipt=held.receipt, timeout_s=0)
    assert await sqs.transport.change_visibility(queue, [change]) == []


async def _nothing(sqs: Server, queue: str, *, wait_s: float = 0) -> bool:
    return await sqs.transport.receive(queue, limit=10, wait_s=wait_s) == []


def _bodies(messages: list[ReceivedMessage]) -> list[str]:
    return [message.body for message in messages]


def _indexes(failures: list[EntryFailure]) -> list[int]:
    return [failure.index for failure in failures]


def _blames(failures: list[EntryFailure]) -> list[tuple[int, str]]:
    """Return index and code of each failure that is the request's fault."""
    return [(failure.index, failure.code) for failure in failures if failure.sender_fault]


# --- sending and receiving -----------------------------------------------------------------------


async def test_a_message_arrives_as_it_was_sent(sqs: Server) -> None:
    queue = await _queue(sqs)
    body = json.dumps({"text": "naïve ☃ 𝄞", "control": "\x00\x1f"})  # JSON escapes what XML lacks
    sent = OutgoingMessage(body=body, attributes={"JobType": "send-email", "Priority": "hóch"})

    assert await sqs.transport.send(queue, [sent]) == []
    received = await _one(sqs, queue)

    assert received.body == body
    assert received.attributes == sent.attributes
    assert received.receive_count == 1
    assert received.group is None


async def test_characters_beyond_ascii_and_white_space_arrive_unchanged(sqs: Server) -> None:
    queue = await _queue(sqs)
    body = "ünïcödé ☃ 𝄞\ttab\nline <tag> & \"quotes\" 'and' ]]>"

    assert await sqs.transport.send(queue, _texts(body)) == []

    assert (await _one(sqs, queue)).body == body


async def test_a_message_tells_when_it_was_sent(sqs: Server) -> None:
    queue = await _queue(sqs)

    before = time.time()
    await sqs.transport.send(queue, _texts("a"))
    after = time.time()
    sent_at = (await _one(sqs, queue)).sent_at

    assert sent_at.utcoffset() is not None
    assert before - 0.001 <= sent_at.timestamp() <= after  # SQS truncates it to milliseconds


async def test_ten_messages_go_in_one_batch(sqs: Server) -> None:
    queue = await _queue(sqs)
    bodies = [str(number) for number in range(10)]

    assert await sqs.transport.send(queue, _texts(*bodies)) == []

    assert sorted(_bodies(await _collect(sqs, queue, 10))) == bodies


async def test_ten_attributes_arrive(sqs: Server) -> None:
    queue = await _queue(sqs)
    attributes = {f"Name{number}": f"value {number}" for number in range(10)}

    await sqs.transport.send(queue, [OutgoingMessage(body="a", attributes=attributes)])

    assert (await _one(sqs, queue)).attributes == attributes


async def test_a_receive_returns_no_more_than_its_limit(sqs: Server) -> None:
    queue = await _queue(sqs)
    await sqs.transport.send(queue, _texts("a", "b", "c", "d", "e"))

    first = await _poll(sqs.transport, queue, limit=2)
    rest = await _collect(sqs, queue, 5 - len(first))

    assert len(first) <= 2
    assert sorted(_bodies(first + rest)) == ["a", "b", "c", "d", "e"]


async def test_a_group_on_a_standard_queue_comes_back_with_the_message(sqs: Server) -> None:
    queue = await _queue(sqs)

    await sqs.transport.send(queue, [OutgoingMessage(body="a", group="org-1")])

    assert (await _one(sqs, queue)).group == "org-1"


# --- refused sends -------------------------------------------------------------------------------


@needs(Feature.DELAY_LIMIT)
async def test_only_the_faulty_entry_of_a_batch_fails_and_is_named_by_its_index(
    sqs: Server,
) -> None:
    queue = await _queue(sqs)
    batch = [*_texts("a"), OutgoingMessage(body="b", delay_s=901), *_texts("c")]

    failures = await sqs.transport.send(queue, batch)

    assert _blames(failures) == [(1, "InvalidParameterValue")]
    assert sorted(_bodies(await _collect(sqs, queue, 2))) == ["a", "c"]


@needs(Feature.XML_CHARACTERS)
async def test_a_body_with_characters_that_xml_lacks_is_refused(sqs: Server) -> None:
    queue = await _queue(sqs)

    failures = await sqs.transport.send(queue, _texts("a", "\x01"))

    assert _blames(failures) == [(1, "InvalidMessageContents")]
    assert (await _one(sqs, queue)).body == "a"


@needs(Feature.ATTRIBUTE_RULES)
async def test_an_empty_attribute_is_refused(sqs: Server) -> None:
    queue = await _queue(sqs)

    failures = await sqs.transport.send(
        queue, [OutgoingMessage(body="a", attributes={"Reason": ""})]
    )

    assert _blames(failures) == [(0, "InvalidParameterValue")]
    assert await _nothing(sqs, queue)


@needs(Feature.ATTRIBUTE_RULES)
async def test_an_eleventh_attribute_is_refused(sqs: Server) -> None:
    queue = await _queue(sqs)
    attributes = {f"Name{number}": "x" for number in range(11)}

    failures = await sqs.transport.send(queue, [OutgoingMessage(body="a", attributes=attributes)])

    assert _blames(failures) == [(0, "InvalidParameterValue")]
    assert await _nothing(sqs, queue)


@_large_requests
@needs(Feature.FULL_SIZE)
async def test_a_message_may_have_one_mebibyte(sqs: Server) -> None:
    queue = await _queue(sqs)

    assert await sqs.transport.send(queue, _texts("x" * MAX_MESSAGE_BYTES)) == []

    assert len((await _one(sqs, queue)).body) == MAX_MESSAGE_BYTES


@_large_requests
async def test_a_message_over_one_mebibyte_is_refused(sqs: Server) -> None:
    queue = await _queue(sqs)

    with pytest.raises(TransportError) as raised:
        await sqs.transport.send(queue, _texts("x" * (MAX_MESSAGE_BYTES + 1)))

    assert not raised.value.transient
    assert await _nothing(sqs, queue)


@_large_requests
async def test_the_size_is_counted_over_the_whole_batch(sqs: Server) -> None:
    queue = await _queue(sqs)
    half = MAX_MESSAGE_BYTES // 2

    with pytest.raises(TransportError) as raised:
        await sqs.transport.send(queue, _texts("x" * half, "x" * half, "x"))

    assert not raised.value.transient
    assert await _nothing(sqs, queue)


@_large_requests
@needs(Feature.SIZE_IN_BYTES)
async def test_the_size_is_counted_in_bytes(sqs: Server) -> None:
    queue = await _queue(sqs)

    with pytest.raises(TransportError) as raised:
        await sqs.transport.send(queue, _texts("é" * (MAX_MESSAGE_BYTES // 2 + 1)))

    assert not raised.value.transient
    assert await _nothing(sqs, queue)


@_large_requests
@needs(Feature.ATTRIBUTES_IN_SIZE)
async def test_the_size_includes_attributes_with_their_names_and_types(sqs: Server) -> None:
    queue = await _queue(sqs)
    attributes = {"k": "x"}
    room = MAX_MESSAGE_BYTES - len("k") - len("String") - len("x")

    with pytest.raises(TransportError) as raised:
        await sqs.transport.send(
            queue, [OutgoingMessage(body="x" * (room + 1), attributes=attributes)]
        )
    fitting = OutgoingMessage(body="x" * room, attributes=attributes)

    assert not raised.value.transient
    assert await sqs.transport.send(queue, [fitting]) == []


# --- visibility ----------------------------------------------------------------------------------


async def test_a_message_in_flight_is_hidden(sqs: Server) -> None:
    queue = await _queue(sqs)
    await sqs.transport.send(queue, _texts("a"))

    await _one(sqs, queue)

    assert await _nothing(sqs, queue)


async def test_a_message_comes_back_after_its_visibility_timeout(sqs: Server) -> None:
    queue = await _queue(sqs, visibility_s=1)
    await sqs.transport.send(queue, _texts("a"))

    first = await _one(sqs, queue)
    second = await _one(sqs, queue)

    assert second.message_id == first.message_id
    assert second.receipt != first.receipt
    assert (first.receive_count, second.receive_count) == (1, 2)
    assert second.sent_at == first.sent_at


async def test_a_message_tells_when_it_was_first_received(sqs: Server) -> None:
    queue = await _queue(sqs, visibility_s=1)
    await sqs.transport.send(queue, _texts("a"))
    await asyncio.sleep(0.5)

    before = time.time()
    first = await _one(sqs, queue)
    after = time.time()
    second = await _one(sqs, queue)

    assert before - 0.001 <= first.first_received_at.timestamp() <= after
    assert second.first_received_at == first.first_received_at


async def test_a_receive_may_override_the_visibility_timeout(sqs: Server) -> None:
    queue = await _queue(sqs, visibility_s=30)
    await sqs.transport.send(queue, _texts("a"))

    (first,) = await sqs.transport.receive(queue, limit=1, wait_s=5, visibility_s=1)

    assert (await _one(sqs, queue)).message_id == first.message_id


async def test_a_visibility_of_zero_shows_a_message_at_once(sqs: Server) -> None:
    queue = await _queue(sqs)
    await sqs.transport.send(queue, _texts("a"))
    first = await _one(sqs, queue)

    await _release(sqs, queue, first)

    assert (await _one(sqs, queue)).receive_count == 2


async def test_the_next_receive_starts_from_the_queues_own_timeout(sqs: Server) -> None:
    queue = await _queue(sqs)
    await sqs.transport.send(queue, _texts("a"))
    first = await _one(sqs, queue)
    await _release(sqs, queue, first)

    await _one(sqs, queue)

    assert await _nothing(sqs, queue)


async def test_a_visibility_can_be_extended(sqs: Server) -> None:
    for visibility_s in (2, 4, 8, 16):  # a busy machine may not extend the shorter ones in time
        queue = await _queue(sqs, visibility_s=visibility_s)
        await sqs.transport.send(queue, _texts("a"))
        began = time.monotonic()
        first = await _one(sqs, queue)
        extension = VisibilityChange(receipt=first.receipt, timeout_s=60)
        failures = await sqs.transport.change_visibility(queue, [extension])
        if time.monotonic() - began < visibility_s:
            assert failures == []
            assert await _nothing(sqs, queue, wait_s=visibility_s + 1)
            return
    pytest.fail("no extension came in time")


@needs(Feature.VISIBILITY_LIMIT)
async def test_a_visibility_over_twelve_hours_is_refused(sqs: Server) -> None:
    queue = await _queue(sqs)
    await sqs.transport.send(queue, _texts("a"))
    held = await _one(sqs, queue)

    failures = await sqs.transport.change_visibility(
        queue, [VisibilityChange(receipt=held.receipt, timeout_s=43_201)]
    )

    assert _blames(failures) == [(0, "InvalidParameterValue")]


async def test_a_bogus_receipt_fails_alone_when_visibility_changes(sqs: Server) -> None:
    queue = await _queue(sqs)
    await sqs.transport.send(queue, _texts("a"))
    held = await _one(sqs, queue)

    failures = await sqs.transport.change_visibility(
        queue,
        [
            VisibilityChange(receipt=_BOGUS, timeout_s=0),
            VisibilityChange(receipt=held.receipt, timeout_s=0),
        ],
    )

    assert _indexes(failures) == [0]
    assert failures[0].sender_fault
    assert (await _one(sqs, queue)).message_id == held.message_id


async def test_the_visibility_of_a_deleted_message_cannot_change(sqs: Server) -> None:
    queue = await _queue(sqs)
    await sqs.transport.send(queue, _texts("a"))
    held = await _one(sqs, queue)
    await sqs.transport.delete(queue, [held.receipt])

    failures = await sqs.transport.change_visibility(
        queue, [VisibilityChange(receipt=held.receipt, timeout_s=0)]
    )

    assert _indexes(failures) == [0]


# --- delays and long polls -----------------------------------------------------------------------


async def test_a_delayed_message_comes_after_its_delay(sqs: Server) -> None:
    queue = await _queue(sqs)

    started = time.monotonic()
    await sqs.transport.send(queue, [OutgoingMessage(body="a", delay_s=1)])
    await _one(sqs, queue)

    assert time.monotonic() - started >= _ABOUT_A_SECOND


async def test_a_queue_may_delay_all_its_messages(sqs: Server) -> None:
    queue = _name()
    await sqs.create_queue(queue, delay_s=1)

    started = time.monotonic()
    await sqs.transport.send(queue, _texts("a"))
    await _one(sqs, queue)

    assert time.monotonic() - started >= _ABOUT_A_SECOND


async def test_a_long_poll_returns_as_soon_as_a_message_arrives(sqs: Server) -> None:
    queue = await _queue(sqs)

    poll = asyncio.create_task(sqs.transport.receive(queue, limit=1, wait_s=20))
    # The poll is most likely waiting at the server by then; if not, the test still holds.
    await asyncio.sleep(0.3)
    await sqs.transport.send(queue, _texts("a"))

    async with asyncio.timeout(10):  # far less than the requested wait
        (message,) = await poll
    assert message.body == "a"


async def test_a_long_poll_of_an_empty_queue_returns_nothing_after_its_wait(sqs: Server) -> None:
    queue = await _queue(sqs)

    started = time.monotonic()

    assert await _nothing(sqs, queue, wait_s=1)
    assert time.monotonic() - started >= _ABOUT_A_SECOND


# --- deleting ------------------------------------------------------------------------------------


async def test_a_deleted_message_never_comes_back(sqs: Server) -> None:
    queue = await _queue(sqs, visibility_s=1)
    await sqs.transport.send(queue, _texts("a"))
    held = await _one(sqs, queue)

    assert await sqs.transport.delete(queue, [held.receipt]) == []

    assert await _nothing(sqs, queue, wait_s=2)


@needs(Feature.REPEATED_DELETE)
async def test_deleting_a_message_again_is_no_failure(sqs: Server) -> None:
    queue = await _queue(sqs)
    await sqs.transport.send(queue, _texts("a"))
    held = await _one(sqs, queue)
    await sqs.transport.delete(queue, [held.receipt])

    assert await sqs.transport.delete(queue, [held.receipt]) == []


@needs(Feature.PAST_RECEIPT_DELETES)
async def test_deleting_with_the_receipt_of_a_past_delivery_is_no_failure(sqs: Server) -> None:
    queue = await _queue(sqs)
    await sqs.transport.send(queue, _texts("a"))
    first = await _one(sqs, queue)
    await _release(sqs, queue, first)
    await _one(sqs, queue)

    assert await sqs.transport.delete(queue, [first.receipt]) == []


async def test_a_bogus_receipt_does_no_harm_to_the_rest_of_a_delete(sqs: Server) -> None:
    queue = await _queue(sqs)
    await sqs.transport.send(queue, _texts("a", "b"))
    held = await _collect(sqs, queue, 2)

    failures = await sqs.transport.delete(queue, [held[0].receipt, _BOGUS, held[1].receipt])

    assert _indexes(failures) in ([], [1])
    assert await sqs.transport.depth(queue) == QueueDepth(visible=0, in_flight=0, delayed=0)


# --- dead letters --------------------------------------------------------------------------------


async def _exhaust(sqs: Server, message: OutgoingMessage) -> tuple[ReceivedMessage, str]:
    """Receive a message once too often; return its last delivery and the dead-letter queue."""
    queue, dlq = _name(), _name()
    await sqs.create_queue(dlq)
    await sqs.create_queue(queue, dlq=dlq, max_receive_count=2)
    await sqs.transport.send(queue, [message])
    await _release(sqs, queue, await _one(sqs, queue))
    last = await _one(sqs, queue)
    await _release(sqs, queue, last)
    assert await _nothing(sqs, queue)  # the receive too many, which moves the message
    return last, dlq


async def test_a_message_received_too_often_moves_to_the_dead_letter_queue(sqs: Server) -> None:
    sent = OutgoingMessage(body='{"n": 1}', attributes={"JobType": "capture-payment"})

    last, dlq = await _exhaust(sqs, sent)
    dead = await _one(sqs, dlq)

    assert last.receive_count == 2
    assert (dead.body, dead.attributes) == (sent.body, sent.attributes)


async def test_a_dead_letter_keeps_its_time_of_sending(sqs: Server) -> None:
    last, dlq = await _exhaust(sqs, OutgoingMessage(body="a"))

    assert (await _one(sqs, dlq)).sent_at == last.sent_at


async def test_a_dead_letters_receive_count_goes_on(sqs: Server) -> None:
    _, dlq = await _exhaust(sqs, OutgoingMessage(body="a"))

    assert (await _one(sqs, dlq)).receive_count == 3


# --- FIFO ----------------------------------------------------------------------------------------


async def test_a_fifo_group_is_delivered_in_order(sqs: Server) -> None:
    queue = await _fifo_queue(sqs)
    await _fifo_send(sqs, queue, "g", "1", "2", "3", "4")

    order: list[str] = []
    while len(order) < 4:
        batch = await _poll(sqs.transport, queue, limit=3)
        order += _bodies(batch)
        await sqs.transport.delete(queue, [message.receipt for message in batch])

    assert order == ["1", "2", "3", "4"]


async def test_a_fifo_message_in_flight_holds_back_the_later_ones_of_its_group(
    sqs: Server,
) -> None:
    queue = await _fifo_queue(sqs)
    await _fifo_send(sqs, queue, "g", "1", "2")
    first = await _one(sqs, queue)

    assert await _nothing(sqs, queue)
    await sqs.transport.delete(queue, [first.receipt])

    assert (await _one(sqs, queue)).body == "2"


async def test_a_fifo_message_given_back_comes_before_the_later_ones(sqs: Server) -> None:
    queue = await _fifo_queue(sqs)
    await _fifo_send(sqs, queue, "g", "1", "2")
    first = await _one(sqs, queue)
    await _release(sqs, queue, first)

    assert _bodies(await _poll(sqs.transport, queue)) == ["1", "2"]


async def test_fifo_groups_do_not_hold_back_each_other(sqs: Server) -> None:
    queue = await _fifo_queue(sqs)
    await _fifo_send(sqs, queue, "g", "g1", "g2")
    await _fifo_send(sqs, queue, "h", "h1")
    await _one(sqs, queue)

    message = await _one(sqs, queue)

    assert (message.body, message.group) == ("h1", "h")


@needs(Feature.DEDUPLICATION_OUTLIVES_DELETE)
async def test_fifo_drops_a_message_whose_deduplication_id_was_just_sent(sqs: Server) -> None:
    queue = await _fifo_queue(sqs)
    first = OutgoingMessage(body="first", group="g", deduplication_id="same")
    again = OutgoingMessage(body="again", group="g", deduplication_id="same")
    await sqs.transport.send(queue, [first])
    held = await _one(sqs, queue)
    await sqs.transport.delete(queue, [held.receipt])

    assert await sqs.transport.send(queue, [again]) == []

    assert await sqs.transport.depth(queue) == QueueDepth(visible=0, in_flight=0, delayed=0)


@needs(Feature.FIFO_DELAY_FAILS_ALONE)
async def test_fifo_refuses_a_delay_of_a_single_message(sqs: Server) -> None:
    queue = await _fifo_queue(sqs)
    delayed = OutgoingMessage(body="a", group="g", deduplication_id="a", delay_s=2)

    failures = await sqs.transport.send(queue, [delayed])

    assert _blames(failures) == [(0, "InvalidParameterValue")]


@needs(Feature.FIFO_RECEIPTS_EXPIRE)
async def test_fifo_refuses_to_delete_with_the_receipt_of_a_past_delivery(sqs: Server) -> None:
    queue = await _fifo_queue(sqs, visibility_s=1)
    await _fifo_send(sqs, queue, "g", "a")
    first = await _one(sqs, queue)
    await _one(sqs, queue)

    failures = await sqs.transport.delete(queue, [first.receipt])

    assert _indexes(failures) == [0]


# --- many at once --------------------------------------------------------------------------------


@needs(Feature.CONCURRENT_RECEIVERS)
async def test_concurrent_receivers_get_every_message_and_none_twice(sqs: Server) -> None:
    queue = await _queue(sqs, visibility_s=60)
    bodies = [str(number) for number in range(100)]
    for start in range(0, 100, 10):
        await sqs.transport.send(queue, _texts(*bodies[start : start + 10]))
    received: list[str] = []

    async def receive_until_all_are_there() -> None:
        while len(received) < len(bodies):
            received.extend(_bodies(await sqs.transport.receive(queue, limit=10, wait_s=1)))

    async with asyncio.timeout(_PATIENCE_S), asyncio.TaskGroup() as receivers:
        for _ in range(16):
            receivers.create_task(receive_until_all_are_there())

    assert Counter(received) == Counter(bodies)


async def test_depth_counts_visible_delayed_and_in_flight_messages(sqs: Server) -> None:
    queue = await _queue(sqs)
    await sqs.transport.send(queue, _texts("a", "b", "c"))
    await sqs.transport.send(queue, [OutgoingMessage(body="d", delay_s=60)])
    await _poll(sqs.transport, queue, limit=1)

    assert await sqs.transport.depth(queue) == QueueDepth(visible=2, in_flight=1, delayed=1)


# --- queues that do not exist --------------------------------------------------------------------


async def test_every_call_on_an_unknown_queue_says_which_one_is_missing(sqs: Server) -> None:
    queue, transport = _name(), sqs.transport
    calls: dict[str, Awaitable[object]] = {
        "send": transport.send(queue, _texts("a")),
        "receive": transport.receive(queue, limit=1, wait_s=0),
        "delete": transport.delete(queue, [_BOGUS]),
        "change_visibility": transport.change_visibility(
            queue, [VisibilityChange(receipt=_BOGUS, timeout_s=0)]
        ),
        "depth": transport.depth(queue),
    }

    answers = await asyncio.gather(*calls.values(), return_exceptions=True)

    missing = dict.fromkeys(calls, queue)
    assert missing == {
        action: answer.queue
        for action, answer in zip(calls, answers, strict=True)
        if isinstance(answer, QueueMissing)
    }
