"""Jobs for a priority whose queue the app doesn't have are refused before SQS is asked."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from headgate import App, JobContext, Retry, Schedule
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.errors import MessageQueueWrong, UnknownQueue
from headgate.testing import Harness
from tests.support.bridge import DeployedBridge
from tests.support.replays import bench_of

WHAT_TO_WRITE = r"other_priorities=\['high'\].*App\(\.\.\., priorities=\"all\"\)"


class Shop:
    """An app whose only queue is that of normal jobs, over AWS in memory."""

    def __init__(self) -> None:
        self.app = App("shop")
        self.note = self.app.define("note", dict[str, str])
        self.jobs = Harness(self.app)

    def sends(self) -> int:
        return sum(call.action == "send" for call in self.jobs.sqs.calls)


def test_the_client_refuses_one_job_many_and_a_delayed_one() -> None:
    shop = Shop()
    client = shop.jobs.client
    with pytest.raises(UnknownQueue, match=WHAT_TO_WRITE):
        client.submit(shop.note, {}, priority="high")
    with pytest.raises(UnknownQueue, match=WHAT_TO_WRITE):
        client.submit_many(shop.note, [{}, {}], priority="high")
    with pytest.raises(UnknownQueue, match=WHAT_TO_WRITE):
        client.submit(shop.note, {}, priority="high", delay=timedelta(days=2))
    assert (shop.sends(), shop.jobs.scheduler.schedules) == (0, [])


async def test_the_async_client_refuses_it_likewise() -> None:
    shop = Shop()
    with pytest.raises(UnknownQueue, match=WHAT_TO_WRITE):
        await shop.jobs.async_client.submit(shop.note, {}, priority="high")
    assert shop.sends() == 0


def test_a_handler_that_submits_is_told() -> None:
    app, told = App("shop"), []

    @app.job("note")
    async def note(_text: dict[str, str]) -> None: ...

    @app.job("parent", retry=Retry(max_attempts=1))
    async def parent(ctx: JobContext) -> None:
        with pytest.raises(UnknownQueue, match=WHAT_TO_WRITE) as refusal:
            await ctx.submit(note, {}, priority="high")
        told.append(refusal)

    jobs = Harness(app)
    jobs.client.submit(parent)
    jobs.drain()
    assert len(told) == 1


def test_a_schedule_made_at_run_time_is_refused_before_it_exists() -> None:
    shop = Shop()
    hourly = Schedule.rate(timedelta(hours=1))
    with pytest.raises(UnknownQueue, match=WHAT_TO_WRITE):
        shop.jobs.client.schedules.create("hourly", shop.note, {}, schedule=hourly, priority="high")
    assert shop.jobs.scheduler.schedules == []


def test_a_dead_letter_stays_where_it_is() -> None:
    app = App("shop")

    @app.job("note", retry=Retry(max_attempts=1))
    async def note(_text: dict[str, str]) -> None:
        raise ValueError

    jobs = Harness(app)
    jobs.client.submit(note, {})
    jobs.drain()
    jobs.clock.advance(timedelta(minutes=10))
    report = bench_of(jobs).replay(priority="high")
    [left] = report.left
    assert (report.sent, report.refused, len(jobs.dead_letters())) == (0, 1, 1)
    assert "no priority 'high'" in left.why
    assert "other_priorities=['high']" in left.why


def test_a_delayed_job_of_a_queue_that_is_gone_is_kept_by_the_bridge() -> None:
    before = App("shop", priorities="all")
    note = before.define("note", dict[str, str])
    older, shop = Harness(before), Shop()
    older.client.submit(note, {}, priority="high", delay=timedelta(days=2))
    [schedule] = older.scheduler.schedules
    bridge = DeployedBridge(shop.app, shop.jobs.sqs, None, shop.jobs.clock)
    with pytest.raises(MessageQueueWrong, match="names the queue 'shop-jobs-high'"):
        bridge(schedule.input)
    assert shop.sends() == 0


def test_a_message_of_a_queue_that_is_still_declared_runs_whatever_it_was_submitted_with() -> None:
    """While a deployment rolls, submitters still know of priorities that workers no longer use."""
    before = App("shop", priorities="all")
    older, ran = before.define("note", dict[str, str]), []
    after = App("shop")

    @after.job("note")
    async def note(text: dict[str, str]) -> None:
        ran.append(text["text"])

    jobs, submitter = Harness(after), Harness(before)
    submitter.client.submit(older, {"text": "a"})
    [message] = submitter.sqs.messages("shop-jobs-normal")
    sent = message.body.replace('"priority":"normal"', '"priority":"high"')
    asyncio.run(jobs.sqs.send("shop-jobs-normal", [OutgoingMessage(body=sent)]))
    jobs.drain()
    assert ran == ["a"]
