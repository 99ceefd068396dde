"""Lists and counts of jobs together with what makes, runs, ends and replays jobs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from headgate import (
    Accepts,
    App,
    Backoff,
    Client,
    DeadLetterFilter,
    JobContext,
    JobFilter,
    JobState,
    Keep,
    Retry,
    Unique,
    cron,
)
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.core.retention import RecordsLevel
from headgate.jobs.testing.next_message import DrainUnfinished
from headgate.testing import Harness
from tests.support.functions import Function
from tests.unit.workers.rig import MAIL, Note, one_lane

TWICE = Retry(max_attempts=2, backoff=Backoff.fixed(60))


class Mood:
    """The behaviour of a test's handlers."""

    works = False

    def act(self) -> None:
        if not self.works:
            raise ConnectionError("refused")


def listed(client: Client, **wanted: Any) -> list[tuple[str, JobState]]:
    return [(each.id, each.state) for each in client.jobs.list(JobFilter(**wanted)).jobs]


def counted(client: Client) -> dict[str, int]:
    return {each.state: each.count for each in client.jobs.count().counts}


def test_a_job_is_listed_through_retry_death_replay_and_completion() -> None:
    app, mood = App("shop"), Mood()

    @app.job("send", retry=TWICE)
    def send(_payload: dict[str, str]) -> None:
        mood.act()

    jobs = Harness(app)
    job = jobs.client.submit(send, {}, tenant="org-1")
    with pytest.raises(DrainUnfinished):
        jobs.drain(max_runs=1)
    assert listed(jobs.client) == [(job.id, JobState.RETRYING)]
    jobs.drain()
    assert listed(jobs.client, tenants=("org-1",)) == [(job.id, JobState.DEAD)]
    assert counted(jobs.client) == {"dead": 1}

    mood.works = True
    jobs.clock.advance(60)
    report = jobs.client.dead_letters.replay(DeadLetterFilter())
    assert report.sent == 1
    assert listed(jobs.client) == [(job.id, JobState.WAITING)]
    assert counted(jobs.client) == {"waiting": 1}
    jobs.drain()
    assert listed(jobs.client) == [(job.id, JobState.COMPLETED)]
    assert counted(jobs.client) == {"completed": 1}


def test_jobs_made_by_schedules_of_unique_keys_and_in_fifo_groups_are_listed() -> None:
    app = App("shop")
    ledger = app.queue("ledger", fifo=True)

    @app.job("nightly", retry=Retry(max_attempts=1))
    def nightly() -> None:
        raise ConnectionError("refused")

    @app.job("sync", unique=Unique(within=3600), retry=Retry(max_attempts=1))
    def sync(_payload: dict[str, str]) -> None:
        raise ConnectionError("refused")

    @ledger.job("book", group_by=lambda payload: payload["account"], retry=Retry(max_attempts=1))
    def book(payload: dict[str, str]) -> None:
        raise ConnectionError(payload["account"])

    jobs = Harness(app)
    first = jobs.client.submit(sync, {"a": "1"})
    assert jobs.client.submit(sync, {"a": "1"}).is_duplicate
    booked = [jobs.client.submit(book, {"account": "1"}) for _ in range(2)]
    jobs.client.schedules.create("at-eight", nightly, schedule=cron("0 8 * * ? *"))
    run = jobs.client.schedules.run_now("at-eight")
    assert jobs.client.schedules.remove("at-eight")
    jobs.drain()

    found = dict(listed(jobs.client))
    assert found == dict.fromkeys([first.id, run.id, *(each.id for each in booked)], JobState.DEAD)
    assert listed(jobs.client, types=("sync",)) == [(first.id, JobState.DEAD)]
    assert {each for each, _ in listed(jobs.client, queues=("ledger",))} == {
        each.id for each in booked
    }


def test_a_cancelled_job_is_listed_as_cancelled() -> None:
    app = App("shop")

    @app.job("send")
    def send(_payload: dict[str, str]) -> None: ...

    jobs = Harness(app)
    job = jobs.client.submit(send, {})
    job.cancel("a mistake")
    jobs.drain()
    [found] = jobs.client.jobs.list(JobFilter(states=("cancelled",))).jobs
    assert (found.id, found.reason) == (job.id, "a mistake")


def test_a_job_without_records_is_in_no_list() -> None:
    app = App("shop", records="off")

    @app.job("send", retry=Retry(max_attempts=1))
    def send(_payload: dict[str, str]) -> None:
        raise ConnectionError("refused")

    jobs = Harness(app)
    jobs.client.submit(send, {})
    jobs.drain()
    assert (listed(jobs.client), len(jobs.dead_letters())) == ([], 1)


def test_a_job_that_a_function_runs_is_listed() -> None:
    app, mail = one_lane()

    @mail.job("send", retry=TWICE)
    async def send(_note: Note, ctx: JobContext) -> None:
        if ctx.attempt == 1:
            raise ConnectionError("refused")

    function = Function(app, queue=MAIL)
    [job_id] = function.submit(send, Note())
    with Client(app, backend=function.backend) as client:
        function.invoke()
        assert listed(client) == [(job_id, JobState.RETRYING)]
        function.clock.advance(timedelta(hours=1))
        function.drain()
        assert listed(client) == [(job_id, JobState.COMPLETED)]
    function.close()


@pytest.mark.parametrize("level", ["full", "outcomes", "failures"])
def test_a_job_that_is_replaced_after_a_failed_attempt_is_listed_as_dropped(
    level: RecordsLevel,
) -> None:
    app = App("shop", records=level)

    @app.job("sync", retry=TWICE, unique=Unique(within=3600, key="all", keep="last"))
    def sync(payload: dict[str, bool]) -> None:
        if payload["fails"]:
            raise ConnectionError("refused")

    jobs = Harness(app)
    earlier = jobs.client.submit(sync, {"fails": True})
    with pytest.raises(DrainUnfinished):
        jobs.drain(max_runs=1)
    jobs.client.submit(sync, {"fails": False})
    jobs.drain()
    assert listed(jobs.client, states=("dropped",)) == [(earlier.id, JobState.DROPPED)]
    assert counted(jobs.client)["dropped"] == 1
    assert (earlier.id, JobState.DROPPED) in listed(jobs.client)


@pytest.mark.parametrize("keep", [Keep(), Keep(completed=0)])
@pytest.mark.parametrize("level", ["full", "outcomes", "failures"])
def test_a_job_that_aws_has_redriven_is_listed_as_what_became_of_it(
    level: RecordsLevel, keep: Keep
) -> None:
    app, mood = App("shop", records=level, keep=keep), Mood()

    @app.job("send", retry=TWICE)
    def send(_payload: dict[str, str]) -> None:
        mood.act()

    jobs = Harness(app)
    job = jobs.client.submit(send, {})
    jobs.drain()
    mood.works = True
    jobs.clock.advance(3600)
    _redrive(jobs)
    jobs.drain()

    assert job.state() is JobState.COMPLETED
    assert listed(jobs.client) == [(job.id, JobState.COMPLETED)]
    assert counted(jobs.client) == {"completed": 1}
    jobs.clock.advance(timedelta(days=29))
    assert job.state() is JobState.COMPLETED


def _redrive(jobs: Harness) -> None:
    """Move the dead letters back as SQS does: as new messages with their bodies and attributes."""
    for spec in jobs.app.topology.queues:
        for each in jobs.sqs.messages(spec.dlq_name):
            message = OutgoingMessage(body=each.body, attributes=each.attributes)
            jobs.sqs.send_now(spec.name, [message])


@pytest.mark.parametrize("level", ["full", "outcomes", "failures"])
def test_a_foreign_message_that_was_replayed_is_listed_as_what_became_of_it(
    level: RecordsLevel,
) -> None:
    app, mood = App("shop", records=level), Mood()

    @app.job("take", retry=Retry(max_attempts=1), accepts=Accepts.json(), expires=60)
    def take(_payload: dict[str, int]) -> None:
        mood.act()

    jobs = Harness(app)
    foreign = OutgoingMessage(body='{"order": 1}', attributes={"JobType": "take"})
    jobs.sqs.send_now("shop-jobs-normal", [foreign])
    jobs.drain()
    [letter] = jobs.client.dead_letters.list().letters
    mood.works = True
    jobs.clock.advance(3600)
    jobs.client.dead_letters.replay(DeadLetterFilter())
    jobs.drain()

    assert letter.job_id is not None
    assert jobs.client.handle(letter.job_id).state() is JobState.COMPLETED
    assert listed(jobs.client) == [(letter.job_id, JobState.COMPLETED)]
    assert counted(jobs.client) == {"completed": 1}


def test_a_job_that_was_sent_twice_and_failed_once_is_listed_as_completed() -> None:
    app, mood = App("shop"), Mood()

    @app.job("send", retry=Retry(max_attempts=2, backoff=Backoff.fixed(3600)))
    def send(_payload: dict[str, str]) -> None:
        mood.act()

    jobs = Harness(app)
    job = jobs.client.submit(send, {})
    [sent] = jobs.sqs.messages("shop-jobs-normal")
    with pytest.raises(DrainUnfinished):
        jobs.drain(max_runs=1)
    mood.works = True
    again = OutgoingMessage(body=sent.body, attributes=sent.attributes)
    jobs.clock.advance(60)
    jobs.sqs.send_now("shop-jobs-normal", [again])
    with pytest.raises(DrainUnfinished):
        jobs.drain(max_runs=1)
    assert listed(jobs.client) == [(job.id, JobState.COMPLETED)]
