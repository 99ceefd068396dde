"""Replays at the same time: none sends what another has sent, and could not delete."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headgate.errors import ServiceUnavailable
from headgate.jobs.dead_letters.replaying.report import ReplayReport, ReplayState
from headgate.jobs.dead_letters.replaying.services import HOLD
from tests.support.replays import EVERYTHING, Cut, Killed
from tests.unit.jobs.dead_letters.replaying.test_runner import LETTERS, QUEUE, Shop


class _KilledBeforeDeleting(Cut):
    async def make(self, name: str, request: Callable[[], Awaitable[Any]]) -> Any:
        if name == "delete":
            raise Killed
        return await super().make(name, request)


async def _slow(shop: Shop, sent: int) -> asyncio.Task[ReplayReport]:
    """Begin a replay that sends a job a second; return it once it has sent some."""
    running = asyncio.create_task(shop.bench.start(rate=1))
    while _sent(shop).total() < sent:
        assert not running.done()
        await asyncio.sleep(0)
    return running


def _sent(shop: Shop) -> Counter[str]:
    return Counter(each.body for each in shop.sqs.messages(QUEUE))


def _is_all_sent_once(shop: Shop, count: int) -> bool:
    return _sent(shop).total() == len(_sent(shop)) == count


async def test_what_a_replay_has_sent_when_it_was_killed_no_other_sends() -> None:
    shop = Shop()
    await shop.dead(60)
    slow = await _slow(shop, 5)
    with pytest.raises(Killed):
        await shop.bench.start(cut=_KilledBeforeDeleting())
    report = await slow
    assert report.state is ReplayState.DONE
    assert _is_all_sent_once(shop, 60)
    assert shop.sqs.messages(LETTERS) == []


async def test_what_a_replay_has_sent_and_can_not_delete_no_other_sends() -> None:
    shop = Shop()
    await shop.dead(60)
    slow = await _slow(shop, 5)
    shop.sqs.faults.fail_entries("delete", queue=LETTERS, times=6)
    assert (await shop.bench.start()).state is ReplayState.DONE
    assert (await slow).state is ReplayState.DONE
    assert _is_all_sent_once(shop, 60)


async def test_what_a_replay_has_sent_that_was_resumed_meanwhile_no_other_sends() -> None:
    shop = Shop()
    await shop.dead(120)
    stopped = await shop.bench.replays().start(
        EVERYTHING, shop.bench.options(rate=1), actor="ada", is_stopping=lambda: True
    )
    shop.clock.advance(HOLD)
    slow = await _slow(shop, stopped.sent + 5)
    with pytest.raises(Killed):
        await shop.bench.replays(_KilledBeforeDeleting()).resume(stopped.id)
    assert (await slow).state is ReplayState.DONE
    assert _is_all_sent_once(shop, 120)


async def test_a_replay_alone_asks_once_for_each_round_whether_there_are_others() -> None:
    shop = Shop()
    await shop.dead(60)
    await shop.bench.start(EVERYTHING)
    shop.clock.advance(HOLD)
    await shop.dead(60)
    cut = Cut()
    await shop.bench.start(EVERYTHING, cut=cut)
    read = Counter(cut.requests)
    assert read["get"] == 0
    assert read["page"] <= 4  # the others, its marks, and a round or two


async def test_a_replay_at_its_limit_deletes_what_it_could_not_at_first() -> None:
    shop = Shop()
    await shop.dead(20)
    shop.sqs.faults.fail_entries("delete", queue=LETTERS, times=2)
    report = await shop.bench.start(limit=10)
    assert (report.state, report.sent) == (ReplayState.DONE, 10)
    assert len(shop.sqs.messages(LETTERS)) == 10
    await shop.bench.start()
    assert _is_all_sent_once(shop, 20)


async def test_a_replay_that_can_not_ask_for_others_goes_on() -> None:
    shop = Shop()
    await shop.dead(20)
    shop.bench.backend.table.faults.raise_on("get", ServiceUnavailable("away"), times=99)
    assert (await shop.bench.start()).sent == 20
