"""A job's own backoff and retention, all the way through whatever carries and runs it."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from headgate import (
    App,
    Backoff,
    JobContext,
    Keep,
    Retry,
    Schedule,
    Unique,
)
from headgate.errors import RecordsOff
from headgate.jobs.core.events import JobRetryScheduled, MessageUnrunnable
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.records.items import asked_partition, partition
from headgate.jobs.records.state import JobState
from headgate.testing import Harness

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
QUEUE = "shop-jobs-normal"


class Bench:
    """A harness of an app with one type, whose runs fail as often as they are told to."""

    def __init__(self, *, fails: int = 100, app: App | None = None, **options: Any) -> None:
        self.fails = fails
        app = app or App("shop")
        retry = Retry(max_attempts=3, backoff=Backoff.fixed(1))
        self.send = app.job("send", **{"retry": retry, **options})(self._send)
        self.harness = Harness(app)

    async def _send(self, _payload: dict[str, int], ctx: JobContext) -> int:
        await ctx.progress(50)
        if self.fails > 0:
            self.fails -= 1
            raise ConnectionError("down")
        return 7

    def run(self, **overrides: Any) -> Any:
        sent = self.harness.client.submit(self.send, {}, **overrides)
        self.harness.drain()
        return sent

    @property
    def delays(self) -> list[int]:
        """The delay before each retry, in seconds."""
        events = self.harness.events
        return [each.delay_s for each in events if isinstance(each, JobRetryScheduled)]


# --- the backoff ---------------------------------------------------------------------------------


def test_a_job_follows_its_own_backoff_and_the_next_one_its_types() -> None:
    bench = Bench()
    bench.run(backoff=Backoff.steps(10, 20))
    bench.run()
    assert bench.delays == [10, 20, 1, 1]


def test_many_jobs_and_jobs_as_values_have_it_too() -> None:
    bench = Bench(fails=4)
    client, backoff = bench.harness.client, Backoff.fixed(10)
    client.submit_many(bench.send, [{}, {}], backoff=backoff)
    client.submit_many([bench.send.new({}, backoff=backoff), bench.send.new({}, backoff=backoff)])
    bench.harness.drain()
    assert bench.delays == [10, 10, 10, 10]


def test_an_adaptive_one_is_told_the_queues_depth_though_the_types_is_not() -> None:
    bench = Bench(fails=1)
    adaptive = Backoff.adaptive(base=10, backlog=1, jitter=None)
    bench.harness.client.submit(bench.send, {}, backoff=adaptive)
    bench.harness.client.submit_many(bench.send, [{}, {}])
    bench.harness.drain()
    assert bench.delays == [30]


def test_it_holds_after_a_wait_in_a_one_time_schedule() -> None:
    bench = Bench(fails=2)
    sent = bench.run(backoff=Backoff.steps(2 * DAY, 3 * DAY))
    assert bench.delays == [2 * 86_400, 3 * 86_400]
    assert sent.result() == 7
    assert [each.number for each in sent.history().attempts] == [1, 2, 3]


def test_it_holds_after_a_long_delay() -> None:
    bench = Bench(fails=1)
    bench.run(delay=2 * DAY, backoff=Backoff.fixed(10))
    assert bench.delays == [10]


def test_a_schedules_jobs_have_it() -> None:
    bench = Bench(fails=1)
    hourly = Schedule.rate(HOUR)
    schedules = bench.harness.client.schedules
    schedules.create("hourly", bench.send, {}, schedule=hourly, limit=1, backoff=Backoff.fixed(10))
    bench.harness.clock.advance(HOUR)
    bench.harness.drain()
    assert bench.delays == [10]


def test_on_a_fifo_queue_it_holds_within_the_group() -> None:
    app = App("shop")
    ran: list[str] = []

    @app.queue("orders", fifo=True).job("ship")
    async def ship(order: dict[str, str]) -> None:
        ran.append(order["id"])
        if ran == ["a"]:
            raise ConnectionError("down")

    harness = Harness(app)
    harness.client.submit(ship, {"id": "a"}, group="g", backoff=Backoff.fixed(600))
    harness.client.submit(ship, {"id": "b"}, group="g")
    harness.drain()
    assert ran == ["a", "a", "b"]
    [retried] = [each for each in harness.events if isinstance(each, JobRetryScheduled)]
    assert retried.delay_s == 600


def test_a_replayed_dead_letter_has_the_attempts_and_the_backoff_of_its_submission_anew() -> None:
    bench = Bench()
    sent = bench.run(max_attempts=2, backoff=Backoff.fixed(10))
    assert (sent.state(), bench.delays) == (JobState.DEAD, [10])
    bench.harness.client.dead_letters.replay([sent.id])
    bench.harness.drain()
    assert (sent.state(), bench.delays) == (JobState.DEAD, [10, 10])


def test_a_job_that_is_run_again_is_a_new_one_and_follows_its_type() -> None:
    bench = Bench()
    sent = bench.run(max_attempts=2, backoff=Backoff.fixed(10))
    bench.harness.client.jobs.rerun(sent.id)
    bench.harness.drain()
    assert bench.delays == [10, 1, 1]


def test_a_retry_after_still_wins() -> None:
    app = App("shop")

    class Busy(ConnectionError):
        retry_after = 100

    @app.job("send", retry=Retry(max_attempts=2))
    async def send(_payload: dict[str, int]) -> None:
        raise Busy

    harness = Harness(app)
    harness.client.submit(send, {}, backoff=Backoff.fixed(1))
    harness.drain()
    [retried] = [each for each in harness.events if isinstance(each, JobRetryScheduled)]
    assert 100 <= retried.delay_s <= 120


@pytest.mark.parametrize("records", ["outcomes", "off"])
def test_it_holds_with_and_without_records(records: Any) -> None:
    bench = Bench(fails=2, app=App("shop", records=records))
    bench.run(backoff=Backoff.steps(10, 20))
    assert bench.delays == [10, 20]


# --- the retention -------------------------------------------------------------------------------


def kept(bench: Bench, job_id: str, suffix: str) -> timedelta:
    """Return how long after now the record with that place is kept."""
    [item] = [
        each
        for pk in (partition(job_id), asked_partition(job_id))
        for each in bench.harness.table.sync.query(pk)
        if each.sk.endswith(suffix)
    ]
    assert item.expires_at is not None
    at = datetime.fromisoformat(item.data["at"])
    return item.expires_at - at


def test_a_completed_jobs_record_lasts_as_long_as_its_submission_says() -> None:
    bench = Bench(fails=0, app=App("shop", records="full"), keep=DAY)
    own, typical = bench.run(keep=90 * DAY), bench.run()
    assert kept(bench, own.id, "completed") == 90 * DAY
    assert kept(bench, typical.id, "completed") == DAY
    assert kept(bench, own.id, "submitted") == 90 * DAY
    assert kept(bench, own.id, "progress") == 30 * DAY
    assert own.result() == 7


def test_a_failed_jobs_record_lasts_as_long_as_its_submission_says() -> None:
    bench = Bench()
    own, typical = bench.run(keep=Keep(failed=365 * DAY), max_attempts=1), bench.run(keep=1)
    assert kept(bench, own.id, "dead") == 365 * DAY
    assert kept(bench, own.id, "progress") == 365 * DAY
    assert kept(bench, typical.id, "dead") == 30 * DAY, "a duration is the completed job's alone"


def test_a_replays_mark_lasts_as_long_as_the_rest() -> None:
    bench = Bench()
    sent = bench.run(keep=Keep(failed=365 * DAY), max_attempts=1)
    report = bench.harness.client.dead_letters.replay([sent.id])
    assert kept(bench, sent.id, f"replayed#{report.id}") == 365 * DAY


def test_marks_that_count_attempts_last_as_long_as_the_message_may_come_again() -> None:
    bench = Bench(fails=1)
    sent = bench.run(keep=Keep(completed=1, failed=1))
    assert kept(bench, sent.id, "failed") == timedelta(days=4, hours=12)


def test_a_claim_lasts_as_long_as_the_job_is_kept_and_its_message_may_come_again() -> None:
    bench = Bench(fails=0, once=True)
    claims = []
    for keep in (1, 90 * DAY):
        sent = bench.run(keep=keep)
        claim = bench.harness.table.sync.get(partition(sent.id), "claim")
        assert claim is not None
        assert claim.expires_at is not None
        claims.append(claim.expires_at - bench.harness.clock.now())
    assert claims[0] >= timedelta(days=4)
    assert claims[1] == 90 * DAY


def test_a_result_can_be_had_of_a_job_that_is_kept_though_its_type_keeps_none() -> None:
    bench = Bench(fails=0, keep=0)
    own, typical = bench.run(keep=HOUR), bench.run()
    assert own.result() == 7
    client = bench.harness.client
    assert client.handle(own.id, bench.send).result() == 7, "by its id, once it has ended"
    with pytest.raises(RecordsOff):
        typical.result()
    waiting = client.submit(bench.send, {}, keep=HOUR)
    assert waiting.state() is JobState.WAITING
    assert client.handle(waiting.id, bench.send).state() is JobState.UNKNOWN


def test_a_job_that_is_not_kept_says_so_to_whoever_waits_for_it() -> None:
    bench = Bench(fails=0)
    sent = bench.run(keep=0)
    with pytest.raises(RecordsOff, match="can't be waited for"):
        sent.wait()
    assert sent.state() is JobState.UNKNOWN
    assert bench.harness.table.sync.query(partition(sent.id)) == []


def test_a_duplicate_is_not_taken_to_be_kept_as_its_own_submission_says() -> None:
    bench = Bench(fails=0, unique=Unique(within=DAY))
    client = bench.harness.client
    first = client.submit(bench.send, {}, keep=HOUR)
    second = client.submit(bench.send, {}, keep=0)
    bench.harness.drain()
    assert (second.id, second.is_duplicate) == (first.id, True)
    assert second.result() == 7


def test_a_schedules_jobs_are_kept_as_the_schedule_says() -> None:
    bench = Bench(fails=0)
    schedules = bench.harness.client.schedules
    hourly = Schedule.rate(HOUR)
    schedules.create("hourly", bench.send, {}, schedule=hourly, limit=1, keep=90 * DAY)
    bench.harness.clock.advance(HOUR)
    bench.harness.drain()
    [done] = bench.harness.completed(bench.send)
    assert kept(bench, done.id, "completed") == 90 * DAY


# --- messages of strangers -----------------------------------------------------------------------


def test_a_message_with_a_backoff_that_can_not_be_is_parked_unrun() -> None:
    bench = Bench(fails=0)
    bench.harness.client.submit(bench.send, {}, backoff=Backoff.fixed(5))
    sqs = bench.harness.sqs.sync
    [message] = sqs.receive(QUEUE, limit=1, wait_s=0)
    sqs.delete(QUEUE, [message.receipt])
    body = json.loads(message.body)
    body["options"]["backoff"]["delays_s"] = [-5]
    sqs.send(QUEUE, [OutgoingMessage(body=json.dumps(body), attributes=message.attributes)])
    bench.harness.drain()
    [letter] = bench.harness.dead_letters()
    assert letter.attributes["Reason"] == "unreadable"
    told = [each for each in bench.harness.events if isinstance(each, MessageUnrunnable)]
    assert "options.backoff.steps.delays_s.0" in told[0].detail
