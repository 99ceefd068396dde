"""Replays beside what else keeps a job from running, or changes how it runs."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from headgate import (
    App,
    DeadLetterFilter,
    DoNotRetry,
    JobContext,
    JobState,
    Keep,
    Retry,
    Unique,
    cron,
)
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.core.topology import Priority
from headgate.jobs.messages.envelope import parse
from headgate.jobs.schedules.firing import schedule_input
from headgate.testing import Harness
from tests.support.functions import Function
from tests.support.replays import ReplayBench, bench_of
from tests.support.story import Story

LATER = timedelta(minutes=10)


class Note(BaseModel):
    text: str = ""


class Shop:
    """An app with one type, whose jobs die until it is mended."""

    def __init__(self, *, fifo: bool = False, **options: Any) -> None:
        self.app = App("shop")
        self.ran: list[tuple[str, int]] = []
        self.broken = True
        self.mail = self.app.queue("mail", priorities=[Priority.NORMAL], fifo=fifo)

        @self.mail.job("send", **{"retry": Retry(max_attempts=1), **options})
        async def send(note: Note, ctx: JobContext) -> None:
            self.ran.append((note.text, ctx.attempt))
            if self.broken:
                raise DoNotRetry("out of order")

        self.send = send
        self.jobs = Harness(self.app)
        self.bench = bench_of(self.jobs)

    def die(self, *texts: str, **options: Any) -> list[str]:
        """Submit jobs that die; return their ids."""
        ids = [self.jobs.client.submit(self.send, Note(text=each), **options).id for each in texts]
        self.jobs.drain()
        assert len(self.jobs.dead_letters()) >= len(texts)
        self.jobs.clock.advance(LATER)
        self.ran.clear()
        return ids

    def mended(self) -> None:
        """Replay everything once the cause is gone, and run it."""
        self.broken = False
        report = self.bench.replay()
        assert (report.refused, self.jobs.dead_letters()) == (0, [])
        self.jobs.drain()

    def state(self, job_id: str) -> JobState:
        return self.jobs.client.handle(job_id).state()


def test_a_replayed_job_has_all_its_attempts_again() -> None:
    shop = Shop(retry=Retry(max_attempts=3))
    [job_id] = shop.die("a")
    for replays in (1, 2):
        shop.bench.replay()
        [message] = shop.jobs.sqs.messages("shop-mail-normal")
        body = parse(message.body)
        assert (str(body.id), body.attempts_used, body.source[:7]) == (job_id, 0, "replay:")
        assert message.attributes["Replays"] == str(replays)
        assert "Reason" not in message.attributes
        shop.jobs.drain()
        assert shop.ran == [("a", 1)]
        shop.ran.clear()
        shop.jobs.clock.advance(LATER)
    shop.mended()
    assert shop.state(job_id) is JobState.COMPLETED


@pytest.mark.parametrize("fifo", [False, True])
def test_of_several_letters_of_one_death_one_is_sent_and_all_are_deleted(fifo: bool) -> None:
    shop = Shop(fifo=fifo, **({"group_by": lambda note: note.text} if fifo else {}))
    queue = f"shop-mail-normal{'.fifo' if fifo else ''}"
    letters = queue.replace("normal", "normal-dlq")
    shop.die("a", "b")
    for letter in _taken(shop.jobs, letters):
        for copy in range(3):  # as a worker leaves them that hears nothing of its sends
            parked = OutgoingMessage(
                body=letter.body,
                attributes=letter.attributes,
                group=letter.group,
                deduplication_id=f"{letter.message_id}-{copy}" if fifo else None,
            )
            assert shop.jobs.sqs.send_now(letters, [parked]) == []
    report = shop.bench.replay(limit=2)
    assert (report.sent, shop.jobs.dead_letters()) == (2, [])
    assert len(shop.jobs.sqs.messages(queue)) == 2


def test_a_letter_that_is_put_back_after_its_replay_is_sent_again() -> None:
    shop = Shop()
    shop.die("a")
    [letter] = _taken(shop.jobs, "shop-mail-normal-dlq")
    for _ in range(2):
        _put(shop.jobs, "shop-mail-normal-dlq", letter)
        assert shop.bench.replay().sent == 1
        assert shop.jobs.dead_letters() == []


def test_messages_of_other_senders_that_are_alike_are_all_sent() -> None:
    shop = Shop()
    for _ in range(3):
        foreign = OutgoingMessage(body='{"order": 1}')
        assert shop.jobs.sqs.send_now("shop-mail-normal-dlq", [foreign]) == []
    shop.jobs.clock.advance(LATER)
    assert shop.bench.replay().sent == 3


def test_a_message_of_another_sender_keeps_its_type_beside_nine_attributes() -> None:
    shop = Shop()
    own = {f"A{number}": "x" for number in range(9)} | {"JobType": "send"}
    foreign = OutgoingMessage(body='{"order": 1}', attributes=own)
    assert shop.jobs.sqs.send_now("shop-mail-normal-dlq", [foreign]) == []
    shop.jobs.clock.advance(LATER)
    assert shop.bench.replay().sent == 1
    [message] = shop.jobs.sqs.messages("shop-mail-normal")
    assert (message.attributes["JobType"], len(message.attributes)) == ("send", 10)


def test_attempts_under_earlier_messages_of_a_dead_job_are_not_counted() -> None:
    shop = Shop(retry=Retry(max_attempts=3))
    shop.die("a")
    [letter] = _taken(shop.jobs, "shop-mail-normal-dlq")
    body = json.loads(letter.body) | {"attempts_used": 2, "not_before": "2027-01-01T00:00:00Z"}
    _put(shop.jobs, "shop-mail-normal-dlq", replace(letter, body=json.dumps(body)))
    shop.mended()
    assert shop.ran == [("a", 1)]


def test_a_job_that_ran_once_and_died_runs_again() -> None:
    shop = Shop(once=True)
    [job_id] = shop.die("a")
    shop.mended()
    assert (shop.ran, shop.state(job_id)) == ([("a", 1)], JobState.COMPLETED)


def test_a_job_that_ran_once_and_completed_does_not_run_again() -> None:
    shop = Shop(once=True)
    shop.die("a")
    [letter] = _taken(shop.jobs, "shop-mail-normal-dlq")
    _put(shop.jobs, "shop-mail-normal-dlq", letter)
    shop.mended()
    _put(shop.jobs, "shop-mail-normal-dlq", letter)
    shop.jobs.clock.advance(LATER)
    shop.mended()
    assert shop.ran == [("a", 1)]


@pytest.mark.parametrize("keep", ["first", "last"])
def test_a_unique_job_that_died_runs_again(keep: Any) -> None:
    shop = Shop(unique=Unique(within=timedelta(days=1), key="k", keep=keep))
    [job_id] = shop.die("a")
    shop.mended()
    assert (shop.ran, shop.state(job_id)) == ([("a", 1)], JobState.COMPLETED)


def test_a_job_that_a_later_one_has_replaced_stays_replaced() -> None:
    shop = Shop(unique=Unique(within=timedelta(days=1), key="k", keep="last"))
    [job_id] = shop.die("a")
    shop.broken = False
    shop.jobs.client.submit(shop.send, Note(text="b"))
    shop.mended()
    assert (shop.ran, shop.state(job_id)) == ([("b", 1)], JobState.DROPPED)


def test_a_quarantined_job_is_run_and_not_quarantined_at_once() -> None:
    shop = Shop()
    [job_id] = shop.die("a")
    [letter] = _taken(shop.jobs, "shop-mail-normal-dlq")
    story = Story(job_id, start=shop.jobs.clock.now() - timedelta(minutes=1))
    for receive in (1, 2, 3):
        story.run(receive, "crashed", receive, message=letter.message_id)
    story.run(4, "quarantined", 3, message=letter.message_id)
    asyncio.run(shop.jobs.table.put(story.items))
    attributes = {**letter.attributes, "Reason": "quarantined"}
    _put(shop.jobs, "shop-quarantine", replace(letter, attributes=attributes))
    shop.mended()
    assert shop.jobs.sqs.messages("shop-quarantine") == []
    assert (shop.ran, shop.state(job_id)) == ([("a", 1)], JobState.COMPLETED)


def test_the_history_of_a_replayed_job_is_kept() -> None:
    shop = Shop()
    [job_id] = shop.die("a")
    shop.bench.replay()
    assert shop.state(job_id) is JobState.WAITING
    shop.broken = False
    shop.jobs.drain()
    record = shop.jobs.client.handle(job_id).history()
    assert [each.what for each in record.timeline] == ["failed", "dead", "replayed", "completed"]
    assert [each.outcome for each in record.attempts] == ["failed", "completed"]


def test_without_records_nothing_is_written_of_a_replayed_job() -> None:
    shop = Shop(records="off")
    [job_id] = shop.die("a")
    shop.mended()
    assert shop.ran == [("a", 1)]
    assert asyncio.run(shop.jobs.table.query(f"job#{job_id}")) == []


def test_fifo_jobs_keep_the_order_of_their_group() -> None:
    shop = Shop(fifo=True, group_by=lambda note: note.text[0])
    shop.die("a1", "b1", "a2", "a3", "b2")
    shop.mended()
    texts = [text for text, _ in shop.ran]
    assert [text for text in texts if text[0] == "a"] == ["a1", "a2", "a3"]
    assert [text for text in texts if text[0] == "b"] == ["b1", "b2"]


def test_a_fifo_job_that_died_at_once_is_no_duplicate_of_its_submission() -> None:
    shop = Shop(fifo=True, group_by=lambda note: note.text[0])
    shop.jobs.client.submit(shop.send, Note(text="a"))
    shop.jobs.drain()
    shop.ran.clear()
    shop.mended()  # within the five minutes for which SQS remembers the job's own id
    assert shop.ran == [("a", 1)]


def test_a_large_payload_stays_where_it_is() -> None:
    shop = Shop()
    text = "x" * 600_000
    shop.die(text)
    shop.mended()
    assert [each for each, _ in shop.ran] == [text]


def test_a_field_beside_a_large_one_can_be_set_while_the_message_has_room() -> None:
    shop = Shop()
    shop.die("x" * 600_000)
    shop.broken = False
    assert shop.bench.replay(set={"text": "short"}).sent == 1
    shop.jobs.drain()
    assert shop.ran == [("short", 1)]


def test_a_lambda_function_runs_replayed_jobs() -> None:
    app = App("shop")
    ran: list[str] = []

    @app.job("send", retry=Retry(max_attempts=1))
    async def send(note: Note) -> None:
        ran.append(note.text)
        if len(ran) == 1:
            raise DoNotRetry("out of order")

    function = Function(app, queue="shop-jobs-normal")
    function.submit(send, Note(text="a"))
    function.invoke()
    bench = ReplayBench(app, function.backend)
    function.clock.advance(LATER)
    assert bench.replay().sent == 1
    function.invoke()
    function.close()
    assert ran == ["a", "a"]
    assert function.sqs.messages("shop-jobs-normal-dlq") == []


def test_a_firing_that_became_no_job_is_submitted_as_the_bridge_would() -> None:
    app = App("shop")
    ran: list[str] = []

    @app.job("report", schedule=cron("0 8 * * ? *"))
    async def report(ctx: JobContext) -> None:
        ran.append(ctx.id)

    jobs = Harness(app)
    bench = bench_of(jobs)
    jobs.sqs.create_queue(app.topology.failed_firings_name)
    event = json.loads(_fired(json.dumps(schedule_input(app, report))))
    record = {"requestPayload": event, "responsePayload": {"errorType": "Throttled"}}
    for body in (record, event, {"requestPayload": {"strange": 1}}):
        message = OutgoingMessage(body=json.dumps(body))
        jobs.sqs.send_now(app.topology.failed_firings_name, [message])
    jobs.clock.advance(LATER)
    found = bench.replay(DeadLetterFilter(queues=(app.topology.failed_firings_name,)))
    assert (found.sent, found.refused) == (2, 1)
    assert "not that of a Headgate schedule" in found.left[0].why
    jobs.drain()
    assert len(ran) == 2
    assert len({*ran}) == 1, "one firing has one id"


def test_jobs_of_which_little_is_kept_are_replayed_like_others() -> None:
    shop = Shop(records="failures", keep=Keep(0))
    [job_id] = shop.die("a")
    shop.mended()
    assert shop.ran == [("a", 1)]
    assert shop.state(job_id) is JobState.COMPLETED, "or its records would say that it waits"


def test_a_replayed_jobs_completion_is_kept_for_as_long_as_its_death() -> None:
    shop = Shop(keep=Keep(timedelta(hours=1), failed=timedelta(days=30)))
    [job_id] = shop.die("a")
    shop.mended()
    shop.jobs.clock.advance(timedelta(days=20))
    assert shop.state(job_id) is JobState.COMPLETED


def _fired(text: str) -> str:
    values = {
        "schedule-arn": "arn:aws:scheduler:eu-central-1:111122223333:schedule/shop/report",
        "scheduled-time": "2026-01-01T08:00:00Z",
        "execution-id": "e-1",
        "attempt-number": "1",
    }
    for name, value in values.items():
        text = text.replace(f"<aws.scheduler.{name}>", value)
    return text


def _taken(jobs: Harness, queue: str) -> list[Any]:
    found = jobs.sqs.sync.receive(queue, limit=10, wait_s=0)
    jobs.sqs.sync.delete(queue, [each.receipt for each in found])
    return found


def _put(jobs: Harness, queue: str, letter: Any) -> None:
    message = OutgoingMessage(body=letter.body, attributes=letter.attributes, group=letter.group)
    assert jobs.sqs.send_now(queue, [message]) == []
