"""A look through queues sees each message once, gives all back, and says what it did not see."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headgate import App, Priority
from headgate.jobs.core.concurrency import Tasks, Threads
from headgate.jobs.core.immediate import ImmediateTransport, drive, immediate
from headgate.jobs.core.ports.transport import AsyncReceiver, OutgoingMessage
from headgate.jobs.dead_letters.walk import AT_ONCE, HeldLetter, Look, Visit, Walk
from headgate.jobs.deployment.sweep_plan import ParkingQueue, parking_queues
from headgate.jobs.errors import QueueMissing, ServiceUnavailable, TransportError
from headgate.testing import MemorySqs, VirtualClock

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOLD = timedelta(seconds=120)
DOWN = ServiceUnavailable("it is down")


class Bench:
    """An app's queues of dead letters in memory, looked through by tasks or by threads."""

    def __init__(self, kind: str) -> None:
        app = App("shop")
        app.define("send-email", dict[str, str], priority=Priority.HIGH)
        app.queue("ledger", priorities=[Priority.NORMAL], fifo=True).define(
            "book", dict[str, str], group_by=lambda _: "g"
        )
        self.clock = VirtualClock(NOON)
        self.sqs = MemorySqs(self.clock)
        self.sqs.provision(app.topology)
        self.all = [*parking_queues(app.topology, has_bridge=True)]
        self.dlq, self.fifo = "shop-jobs-high-dlq", "shop-ledger-normal-dlq.fifo"
        self.visited: list[HeldLetter] = []
        self.rounds: list[int] = []
        self.kind = kind
        self.slept: list[float] = []

    def queue(self, name: str) -> ParkingQueue:
        return next(each for each in self.all if each.name == name)

    def fill(self, count: int, name: str | None = None) -> None:
        for number in range(count):
            fifo = name == self.fifo
            message = OutgoingMessage(
                body=str(number),
                group=f"g{number // 15}" if fifo else None,
                deduplication_id=str(number) if fifo else None,
            )
            assert self.sqs.sync.send(name or self.dlq, [message]) == []

    async def look(
        self, visit: Visit | None = None, queues: Sequence[ParkingQueue] | None = None, **how: Any
    ) -> Look:
        places = self.all if queues is None else queues
        within = how.pop("within", timedelta(seconds=90))
        walk = self.walk(
            within,
            how.pop("hold", HOLD),
            at_once=how.pop("at_once", AT_ONCE),
            clock=how.pop("clock", self.clock),
        )
        coroutine = walk.through(places, visit or self.see, **how)
        return await coroutine if self.kind == "tasks" else drive(coroutine)

    def walk(
        self, within: timedelta, hold: timedelta, *, at_once: int, clock: VirtualClock
    ) -> Walk:
        tasks = self.kind == "tasks"
        transport: AsyncReceiver = self.sqs if tasks else ImmediateTransport(self.sqs.sync)
        self.current = Walk(
            transport,
            concurrency=Tasks() if tasks else Threads(),
            clock=clock,
            sleep=immediate(self.slept.append),
            rng=random.Random(0),  # noqa: S311
            within=within,
            hold=hold,
            wait_s=0,
            at_once=at_once,
        )
        return self.current

    async def see(self, fresh: Sequence[HeldLetter]) -> Collection[str]:
        self.visited += fresh
        self.rounds.append(len(fresh))
        return ()

    def bodies(self) -> list[int]:
        return sorted(int(held.message.body) for held in self.visited)

    def visible(self) -> int:
        names = [each.name for each in self.all if each.kind != "unsubmitted"]
        return sum(self.sqs.sync.depth(name).visible for name in names)

    def made(self) -> Counter[str]:
        """Return the requests of looks."""
        return Counter(call.action for call in self.sqs.calls if call.action != "send")


@pytest.fixture(params=["tasks", "threads"])
def bench(request: pytest.FixtureRequest) -> Bench:
    return Bench(request.param)


async def test_each_message_of_all_queues_is_seen_once_and_given_back(bench: Bench) -> None:
    bench.fill(345)
    bench.fill(5, "shop-quarantine")
    look = await bench.look()
    assert bench.bodies() == sorted([*range(345), *range(5)])
    assert {held.queue.name for held in bench.visited} == {bench.dlq, "shop-quarantine"}
    assert (look.seen, look.unseen, look.complete) == (350, {}, True)
    assert look.requests == bench.made().total()
    assert bench.visible() == 350


async def test_the_next_look_sees_all_again(bench: Bench) -> None:
    bench.fill(25)
    await bench.look()
    await bench.look()
    assert bench.bodies() == sorted([*range(25), *range(25)])


async def test_a_round_has_no_more_messages_than_its_receives_carry(bench: Bench) -> None:
    bench.fill(500)
    await bench.look(queues=[bench.queue(bench.dlq)])
    assert max(bench.rounds) == 10 * AT_ONCE
    assert sum(bench.rounds) == 500


async def test_an_empty_queue_costs_a_count_and_a_receive(bench: Bench) -> None:
    look = await bench.look(queues=[bench.queue(bench.dlq)])
    assert bench.made() == {"depth": 1, "receive": 1}
    assert look.requests == 2


async def test_ten_messages_cost_two_requests_and_a_queue_two_more(bench: Bench) -> None:
    bench.fill(1_000)
    look = await bench.look(queues=[bench.queue(bench.dlq)])
    assert look.requests == 2 * 100 + 2


async def test_a_queue_that_is_counted_as_empty_can_be_skipped(bench: Bench) -> None:
    await bench.look(queues=[bench.queue(bench.dlq)], skip_empty=True)
    assert bench.made() == {"depth": 1}


async def test_the_limit_is_kept_and_what_is_left_is_said(bench: Bench) -> None:
    bench.fill(50)
    look = await bench.look(limit=15)
    assert (look.seen, look.unseen, look.complete) == (15, {bench.dlq: 35}, False)
    assert bench.visible() == 50


async def test_a_visitor_can_stop_the_look(bench: Bench) -> None:
    bench.fill(500)

    async def first(fresh: Sequence[HeldLetter]) -> Collection[str]:
        bench.current.stop()
        return await bench.see(fresh)

    look = await bench.look(first, queues=[bench.queue(bench.dlq)])
    assert look.seen == sum(bench.rounds) == 10 * AT_ONCE
    assert not look.complete
    assert bench.visible() == 500


async def test_what_the_visitor_acted_upon_is_not_given_back(bench: Bench) -> None:
    bench.fill(30)

    async def take_even(fresh: Sequence[HeldLetter]) -> Collection[str]:
        return {held.message.receipt for held in fresh if int(held.message.body) % 2 == 0}

    look = await bench.look(take_even)
    assert look.complete
    assert bench.visible() == 15
    bench.clock.advance(HOLD)
    assert bench.visible() == 30


async def test_an_error_of_the_visitor_ends_the_look_and_all_is_given_back(bench: Bench) -> None:
    bench.fill(30)

    async def fail(_fresh: Sequence[HeldLetter]) -> Collection[str]:
        raise RuntimeError("a visitor's")

    with pytest.raises(RuntimeError, match="a visitor's"):
        await bench.look(fail)
    assert bench.visible() == 30


async def test_time_ends_a_look(bench: Bench) -> None:
    bench.fill(400)

    async def slowly(fresh: Sequence[HeldLetter]) -> Collection[str]:
        bench.clock.advance(50)
        return await bench.see(fresh)

    look = await bench.look(slowly, queues=[bench.queue(bench.dlq)])
    assert look.seen == 2 * 10 * AT_ONCE
    assert not look.complete
    assert bench.visible() == 400


async def test_what_others_hold_is_said_to_be_unseen(bench: Bench) -> None:
    bench.fill(12)
    bench.sqs.sync.receive(bench.dlq, limit=4, wait_s=0)
    look = await bench.look()
    assert (look.seen, look.unseen) == (8, {bench.dlq: 4})


async def test_of_a_fifo_queue_the_first_of_each_group_are_seen_in_order(bench: Bench) -> None:
    bench.fill(45, bench.fifo)
    look = await bench.look(queues=[bench.queue(bench.fifo)])
    assert look.seen + look.unseen.get(bench.fifo, 0) == 45
    found = bench.sqs.sync.receive(bench.fifo, limit=10, wait_s=0)
    assert [message.body for message in found] == [str(number) for number in range(10)]


async def test_a_message_handed_out_twice_is_visited_once_and_ends_no_other_look(
    bench: Bench,
) -> None:
    bench.fill(3)
    look = await bench.look(hold=timedelta(0))
    assert bench.bodies() == [0, 1, 2]
    assert look.seen == 3


@pytest.mark.parametrize("applied", [True, False], ids=["answer lost", "refused"])
async def test_a_receive_that_fails_is_repeated_after_a_pause(bench: Bench, applied: bool) -> None:
    bench.fill(10)
    bench.sqs.faults.raise_on("receive", DOWN, queue=bench.dlq, applied=applied)
    look = await bench.look(queues=[bench.queue(bench.dlq)])
    assert len(bench.slept) == 1
    if applied:  # they are hidden, and nobody has their receipts
        assert look.unseen == {bench.dlq: 10}
        bench.clock.advance(HOLD)
    else:
        assert look.complete
    assert bench.visible() == 10


async def test_receives_that_keep_failing_end_the_look_and_all_is_given_back(bench: Bench) -> None:
    bench.fill(10, "shop-quarantine")
    bench.sqs.faults.raise_on("receive", DOWN, queue=bench.dlq, times=10)
    with pytest.raises(ServiceUnavailable):
        await bench.look()
    assert bench.visible() == 10


async def test_a_failure_that_lasts_is_raised_at_once(bench: Bench) -> None:
    refused = TransportError("AccessDenied: not yours")
    bench.sqs.faults.raise_on("receive", refused, queue=bench.dlq)
    with pytest.raises(TransportError, match="AccessDenied"):
        await bench.look()
    assert bench.slept == []


async def test_what_could_not_be_given_back_shows_again_by_itself(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.fill(3)
    bench.sqs.faults.raise_on("change_visibility", DOWN)
    await bench.look()
    assert "3 dead letters show again by themselves in at most 120 s" in caplog.text
    assert bench.visible() == 0
    bench.clock.advance(HOLD)
    assert bench.visible() == 3


async def test_what_shows_again_by_now_is_not_taken_from_whoever_has_it(bench: Bench) -> None:
    bench.fill(3)

    async def too_slowly(_fresh: Sequence[HeldLetter]) -> Collection[str]:
        bench.clock.advance(HOLD)
        assert len(bench.sqs.sync.receive(bench.dlq, limit=10, wait_s=0)) == 3
        return ()

    await bench.look(too_slowly)
    assert bench.visible() == 0


async def test_giving_back_ends_once_the_rest_shows_by_itself(bench: Bench) -> None:
    bench.fill(60)

    class SlowSqs(VirtualClock):
        """Ten seconds for each request that gives back."""

        def monotonic(self) -> float:
            return 10.0 * bench.made()["change_visibility"]

    hold = timedelta(seconds=35)
    look = await bench.look(
        queues=[bench.queue(bench.dlq)], hold=hold, at_once=1, clock=SlowSqs(NOON)
    )
    assert bench.made()["change_visibility"] == 4
    assert (look.seen, look.requests) == (60, bench.made().total())
    assert bench.visible() == 40
    bench.clock.advance(hold)
    assert bench.visible() == 60


async def test_a_queue_for_failed_firings_may_be_missing_and_no_other(bench: Bench) -> None:
    assert (await bench.look()).complete
    strange = bench.queue(bench.dlq).model_copy(update={"name": "shop-gone"})
    with pytest.raises(QueueMissing, match="shop-gone"):
        await bench.look(queues=[strange])


async def test_more_queues_than_requests_at_a_time_are_all_seen(bench: Bench) -> None:
    queues = []
    for number in range(2 * AT_ONCE):
        bench.sqs.create_queue(name := f"q{number}")
        queues.append(bench.queue(bench.dlq).model_copy(update={"name": name}))
        bench.fill(11, name)
    look = await bench.look(queues=queues)
    assert look.seen == 22 * AT_ONCE
    assert look.complete
