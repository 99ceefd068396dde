"""The end of a replay: what others hold, and what SQS does not take, is none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Unpack

import pytest
from pydantic import BaseModel

from headgate import App, AsyncClient, DeadLetterFilter, Priority
from headgate.jobs.core.ports.transport import OutgoingMessage, VisibilityChange
from headgate.jobs.dead_letters.replaying.options import ReplaySettings
from headgate.jobs.dead_letters.replaying.report import ReplayReport, ReplayState
from headgate.jobs.dead_letters.replaying.runner import HIDDEN_S
from headgate.jobs.dead_letters.replaying.services import HOLD
from headgate.jobs.errors import ReplayOver
from tests.support.replays import EVERYTHING, ReplayBench

QUEUE, LETTERS = "shop-mail-normal", "shop-mail-normal-dlq"
FIFO, FIFO_LETTERS = "shop-orders-normal.fifo", "shop-orders-normal-dlq.fifo"

LATE = HOLD + timedelta(minutes=1)
"""Time after its start at which a replay was once taken for done by whatever it did not see."""


class Note(BaseModel):
    text: str


class Shop:
    """An app with dead letters, a replay of them, and somebody who looks at them meanwhile."""

    def __init__(self) -> None:
        self.app = app = App("shop")
        mail = app.queue("mail", priorities=[Priority.NORMAL])
        orders = app.queue("orders", priorities=[Priority.NORMAL], fifo=True)
        self.send = mail.define("send", Note)
        self.ship = orders.define("ship", Note, group_by=lambda note: note.text)
        self.bench = ReplayBench(app)
        self.sqs, self.clock = self.bench.sqs, self.bench.clock
        self.began_s = 0.0

    @property
    def ran_s(self) -> float:
        return self.clock.monotonic() - self.began_s

    async def dead(self, count: int, kind: Any = None) -> None:
        """Let jobs die; those of a FIFO queue are one group."""
        notes = [Note(text="one")] * count
        async with AsyncClient(self.app, backend=self.bench.backend) as client:
            await client.submit_many(kind or self.send, notes)
        queue, letters = (FIFO, FIFO_LETTERS) if kind is self.ship else (QUEUE, LETTERS)
        while held := await self.sqs.receive(queue, limit=10, wait_s=0):
            await self.sqs.delete(queue, [each.receipt for each in held])
            dead = [
                OutgoingMessage(
                    body=each.body,
                    attributes={"Reason": "attempts-exhausted"},
                    group=each.group,
                    deduplication_id=each.message_id if each.group else None,
                )
                for each in held
            ]
            assert await self.sqs.send(letters, dead) == []
        self.clock.advance(timedelta(hours=1))

    async def replay(
        self,
        chosen: DeadLetterFilter = EVERYTHING,
        *,
        tell: Callable[[ReplayReport], None] = lambda _report: None,
        **settings: Unpack[ReplaySettings],
    ) -> ReplayReport:
        self.began_s = self.clock.monotonic()
        options = self.bench.options(**settings)
        return await self.bench.replays().start(chosen, options, actor="ada", tell=tell)

    def left(self, queue: str = LETTERS) -> int:
        return len(self.sqs.messages(queue))


class Look:
    """Holds all letters of a queue from a time on, as a listing does, and then gives them back."""

    def __init__(self, shop: Shop, *, at: timedelta, lasting: timedelta) -> None:
        self._shop = shop
        self._at_s, self._lasting = at.total_seconds(), lasting
        self._receipts: list[str] = []
        self.held = 0

    def tell(self, _report: ReplayReport) -> None:
        """Begin or end once it is time for that; called with each step of the replay."""
        sqs, ran_s = self._shop.sqs.sync, self._shop.ran_s
        if not self.held and ran_s >= self._at_s:
            while got := sqs.receive(LETTERS, limit=10, wait_s=0, visibility_s=43_200):
                self._receipts += [each.receipt for each in got]
            self.held = len(self._receipts)
        elif self._receipts and ran_s >= self._at_s + self._lasting.total_seconds():
            shown = [VisibilityChange(receipt=each, timeout_s=0) for each in self._receipts]
            while shown:
                assert sqs.change_visibility(LETTERS, shown[:10]) == []
                del shown[:10]
            self._receipts.clear()


@pytest.mark.parametrize("lasting", [timedelta(seconds=30), timedelta(minutes=2)])
def test_letters_that_others_hold_are_waited_for_however_late(lasting: timedelta) -> None:
    async def look_at_a_replay() -> None:
        shop = Shop()
        await shop.dead(100)
        look = Look(shop, at=LATE, lasting=lasting)
        report = await shop.replay(spread=timedelta(minutes=20), tell=look.tell)
        assert 0 < look.held < 100
        assert (report.state, report.sent, shop.left()) == (ReplayState.DONE, 100, 0)

    asyncio.run(look_at_a_replay())


def test_letters_that_were_hidden_often_are_waited_for_each_time() -> None:
    async def look_at_a_replay() -> None:
        shop = Shop()
        await shop.dead(60)
        starts = [LATE, LATE + timedelta(minutes=4), LATE + timedelta(minutes=8)]
        looks = [Look(shop, at=start, lasting=timedelta(minutes=2)) for start in starts]

        def tell(report: ReplayReport) -> None:
            for each in looks:
                each.tell(report)

        report = await shop.replay(spread=timedelta(minutes=30), tell=tell)
        assert all(each.held for each in looks)
        assert (report.state, report.sent) == (ReplayState.DONE, 60)

    asyncio.run(look_at_a_replay())


def test_a_replay_that_cannot_see_what_is_left_stops_in_bounded_time() -> None:
    async def export_for_an_hour() -> None:
        shop = Shop()
        await shop.dead(40)
        look = Look(shop, at=LATE, lasting=timedelta(hours=1))
        report = await shop.replay(spread=timedelta(minutes=20), tell=look.tell)
        assert (report.state, report.sent) == (ReplayState.STOPPED, 40 - look.held)
        assert report.reason.startswith(
            f"letters that were not seen for 0:03:00: about {look.held} in {LETTERS}"
        )
        assert shop.ran_s <= (LATE + HOLD).total_seconds() + 60 + 2 * HIDDEN_S
        shop.clock.advance(timedelta(hours=12))
        rest = await shop.bench.replays().resume(report.id)
        assert (rest.state, rest.sent, shop.left()) == (ReplayState.DONE, 40, 0)
        with pytest.raises(ReplayOver):
            await shop.bench.replays().resume(report.id)

    asyncio.run(export_for_an_hour())


def test_a_canary_that_is_hidden_is_waited_for_and_judged() -> None:
    async def look_at_a_replay() -> None:
        shop = Shop()
        await shop.dead(30)
        look = Look(shop, at=timedelta(0), lasting=timedelta(minutes=2))
        report = await shop.replay(canary=5, canary_timeout=timedelta(minutes=1), tell=look.tell)
        assert (report.state, report.sent, look.held) == (ReplayState.STOPPED, 5, 30)
        assert report.reason == "5 of the canary had not ended after 0:01:00"

    asyncio.run(look_at_a_replay())


def test_hidden_letters_of_queues_that_are_not_selected_hold_up_nothing() -> None:
    async def look_at_another_queue() -> None:
        shop = Shop()
        await shop.dead(5)
        await shop.dead(3, shop.ship)
        await shop.sqs.receive(LETTERS, limit=10, wait_s=0, visibility_s=43_200)
        report = await shop.replay(DeadLetterFilter(queues=("orders",)))
        assert (report.state, report.sent, shop.left()) == (ReplayState.DONE, 3, 5)
        assert shop.ran_s < HIDDEN_S

    asyncio.run(look_at_another_queue())


def test_letters_behind_ten_of_their_group_that_stay_are_told() -> None:
    async def select_none() -> None:
        shop = Shop()
        await shop.dead(12, shop.ship)
        chosen = DeadLetterFilter(reasons=("permanent-error",))
        report = await shop.replay(chosen)
        assert (report.state, report.sent) == (ReplayState.STOPPED, 0)
        assert f"about 2 in {FIFO_LETTERS}" in report.reason

    asyncio.run(select_none())


def test_jobs_that_sqs_has_not_taken_are_sent_by_another_pass() -> None:
    async def fail_once() -> None:
        shop = Shop()
        await shop.dead(2)
        shop.sqs.faults.fail_entries("send", indexes=[0, 1])
        report = await shop.replay()
        assert (report.state, report.sent, shop.left()) == (ReplayState.DONE, 2, 0)

    asyncio.run(fail_once())


def test_a_replay_of_which_sqs_takes_nothing_stops_and_says_so() -> None:
    async def fail_always() -> None:
        shop = Shop()
        await shop.dead(2)
        shop.sqs.faults.fail_entries("send", indexes=[0, 1], times=100)
        report = await shop.replay()
        assert (report.state, report.sent, shop.left()) == (ReplayState.STOPPED, 0, 2)
        assert report.reason == "SQS has not taken the jobs of 2 letters"

    asyncio.run(fail_always())


def test_what_sqs_refuses_does_not_keep_back_the_rest_of_its_group() -> None:
    async def refuse_the_first() -> None:
        shop = Shop()
        await shop.dead(12, shop.ship)
        shop.sqs.faults.fail_entries("send", indexes=[0], sender_fault=True, code="Invalid")
        report = await shop.replay()
        assert (report.state, report.sent, report.refused) == (ReplayState.DONE, 11, 1)
        assert shop.left(FIFO_LETTERS) == 1

    asyncio.run(refuse_the_first())
