"""Replays: what they send, in what pace, when they stop, and who carries them out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel, Field

from headgate import App, DeadLetterFilter, JobState, Priority, Retry
from headgate.errors import (
    QueueMissing,
    ReplayMissing,
    ReplayOver,
    ReplayRunning,
    ServiceUnavailable,
)
from headgate.jobs.client.auditing.auditor import auditor_of
from headgate.jobs.client.dead_letters.replaying import AsyncReplayer
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.dead_letters.replaying.book import LEASE_S
from headgate.jobs.dead_letters.replaying.pace import AHEAD_S
from headgate.jobs.dead_letters.replaying.report import ReplayReport, ReplayState
from headgate.jobs.dead_letters.replaying.services import HOLD
from headgate.jobs.errors import SettingsInvalid
from headgate.jobs.messages.envelope import parse
from headgate.testing import Harness
from tests.support.replays import EVERYTHING, Cut, ReplayBench, bench_of

NORMAL, HIGH = "shop-jobs-normal", "shop-jobs-high"
LETTERS = "shop-jobs-normal-dlq"
LATER = timedelta(minutes=10)


class Note(BaseModel):
    text: str
    region: str = "us"
    size: int = Field(default=0, ge=0)


class Shop:
    """An app whose jobs die unless their text is good, and a bench that replays them."""

    def __init__(self, **options: Any) -> None:
        self.app = App("shop", priorities="all")
        self.good: Callable[[str], bool] = lambda _text: False

        @self.app.job("send", **{"retry": Retry(max_attempts=1), **options})
        async def send(note: Note) -> None:
            if not self.good(note.text):
                raise ValueError(note.text)

        @self.app.job("count", retry=Retry(max_attempts=1))
        async def count(_note: Note) -> None:
            raise KeyError

        self.send, self.count = send, count
        self.jobs = Harness(self.app)
        self.bench = bench_of(self.jobs)

    def dead(self, *texts: str, kind: Any = None) -> list[str]:
        notes = [Note(text=text) for text in texts]
        handles = self.jobs.client.submit_many(kind or self.send, notes)
        self.jobs.drain()
        self.jobs.clock.advance(LATER)
        return [handle.id for handle in handles]

    def letters(self) -> int:
        return len(self.jobs.dead_letters())

    def sent(self) -> list[Any]:
        return [parse(each.body) for each in self.jobs.sqs.messages(NORMAL)]


def numbered(count: int) -> list[str]:
    return [str(number) for number in range(count)]


# --- what is looked through -----------------------------------------------------------------------


def test_a_replay_of_one_queue_does_not_need_the_others() -> None:
    shop = Shop()
    shop.dead(*numbered(4))
    shop.jobs.sqs.faults.raise_on(
        "depth", QueueMissing("gone"), queue="shop-jobs-high-dlq", times=9
    )
    chosen = DeadLetterFilter(queues=(NORMAL,))
    planned = asyncio.run(shop.bench.replays().rehearse(chosen, shop.bench.options()))
    report = shop.bench.replay(chosen)
    assert (planned.sent, report.state, report.sent) == (4, ReplayState.DONE, 4)


def test_a_replay_that_sends_jobs_elsewhere_sees_them_die_there() -> None:
    shop = Shop(records="off")
    shop.dead(*numbered(20))
    _runs_while_it_waits(shop, HIGH)
    report = shop.bench.replay(DeadLetterFilter(queues=(NORMAL,)), canary=3, priority="high")
    assert report.reason == "of the canary 3 of 3 jobs are known to have died again"


@pytest.mark.parametrize("since", [timedelta(days=999_999), datetime(1900, 1, 1, tzinfo=UTC)])
def test_a_replay_of_all_since_ever_is_listed_and_resumed(since: Any) -> None:
    shop = Shop()
    shop.dead(*numbered(4))
    stopped = _stopped_at(shop, 1, chosen=DeadLetterFilter(since=since), rate=0.1)
    assert stopped.state is ReplayState.STOPPED
    assert [each.id for each in asyncio.run(shop.bench.replays().all())] == [stopped.id]
    assert asyncio.run(shop.bench.replays().resume(stopped.id)).sent == 4


# --- what is sent --------------------------------------------------------------------------------


def test_only_what_the_filter_selects_is_replayed() -> None:
    shop = Shop()
    shop.dead("a", "b")
    shop.dead("c", kind=shop.count)
    assert shop.bench.replay(DeadLetterFilter(types=("count",))).sent == 1
    assert [each.type for each in shop.sent()] == ["count"]
    assert shop.letters() == 2


def test_a_limit_leaves_the_rest() -> None:
    shop = Shop()
    shop.dead(*numbered(25))
    report = shop.bench.replay(limit=12)
    assert (report.state, report.sent, shop.letters()) == (ReplayState.DONE, 12, 13)


def test_a_replay_sends_to_another_priority() -> None:
    shop = Shop()
    shop.dead("a")
    report = shop.bench.replay(priority="high")
    assert report.by_queue == {HIGH: 1}
    [message] = shop.jobs.sqs.messages(HIGH)
    assert parse(message.body).priority is Priority.HIGH
    assert message.attributes["Priority"] == "high"


def test_a_field_of_the_payload_is_replaced() -> None:
    shop = Shop()
    [job_id] = shop.dead("a")
    shop.bench.replay(set={"region": "eu"})
    [body] = shop.sent()
    assert (str(body.id), body.payload) == (job_id, {"text": "a", "region": "eu", "size": 0})


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"size": -1}, "size: Input should be greater than or equal to 0"),
        ({"text": None}, "text: Input should be a valid string"),
        ({"regoin": "eu"}, "no field 'regoin'"),
    ],
)
def test_a_payload_that_would_not_be_valid_stays_where_it_is(
    changes: dict[str, Any], why: str
) -> None:
    shop = Shop()
    [job_id] = shop.dead("a")
    report = shop.bench.replay(set=changes)
    assert (report.sent, report.refused, shop.letters()) == (0, 1, 1)
    [left] = report.left
    assert left.job_id == job_id
    assert why in left.why
    kept = asyncio.run(shop.bench.replays().get(report.id))
    assert [each.message_id for each in kept.left] == [left.message_id]


def test_an_older_payload_is_upgraded() -> None:
    def renamed(value: dict[str, Any]) -> dict[str, Any]:
        return {"text": value["body"]}

    shop = Shop(schema=2, upgrade={1: renamed})
    shop.dead("a")
    payload = '"payload":{"text":"a","region":"us","size":0}'
    _rewrite_letters(shop.jobs, payload, '"payload":{"body":"a"}')
    _rewrite_letters(shop.jobs, '"schema":2,', "")
    shop.bench.replay()
    [body] = shop.sent()
    assert (body.schema_, body.payload) == (2, {"text": "a"})


def test_what_this_version_does_not_know_of_a_body_is_kept() -> None:
    shop = Shop()
    shop.dead("a")
    _rewrite_letters(shop.jobs, '{"v":1,', '{"v":1,"colour":"red",')
    shop.bench.replay()
    [message] = shop.jobs.sqs.messages(NORMAL)
    assert '"colour":"red"' in message.body


def test_a_message_that_nobody_can_read_goes_back_as_it_is() -> None:
    shop = Shop()
    strange = OutgoingMessage(body="no JSON", attributes={"Reason": "unreadable", "Colour": "red"})
    shop.jobs.sqs.send_now(LETTERS, [strange])
    shop.jobs.clock.advance(LATER)
    assert shop.bench.replay().sent == 1
    [message] = shop.jobs.sqs.messages(NORMAL)
    assert message.body == "no JSON"
    assert message.attributes.keys() == {"JobId", "Colour", "Replays"}


def test_a_dry_run_counts_and_sends_nothing() -> None:
    shop = Shop()
    shop.dead("a", "b")
    replays = shop.bench.replays()
    bad = asyncio.run(replays.rehearse(EVERYTHING, shop.bench.options(set={"size": -1})))
    good = asyncio.run(replays.rehearse(EVERYTHING, shop.bench.options()))
    assert (bad.sent, bad.refused) == (0, 2)
    assert (good.id, good.sent, good.by_queue) == ("", 2, {NORMAL: 2})
    assert (shop.letters(), shop.sent(), asyncio.run(replays.all())) == (2, [], [])


def test_a_dry_run_with_a_limit_looks_no_further() -> None:
    shop = Shop()
    shop.dead(*numbered(200))
    replays = shop.bench.replays()

    def receives() -> int:
        return sum(call.action == "receive" for call in shop.jobs.sqs.calls)

    before = receives()
    few = asyncio.run(replays.rehearse(EVERYTHING, shop.bench.options(limit=5)))
    looked = receives() - before
    everything = asyncio.run(replays.rehearse(EVERYTHING, shop.bench.options()))
    assert (few.sent, few.by_queue, few.reason) == (5, {NORMAL: 5}, "")
    assert (everything.sent, everything.reason) == (200, "")
    assert looked < receives() - before - looked


def test_a_dry_run_tells_how_many_letters_it_did_not_see() -> None:
    shop = Shop()
    shop.dead("a", "b", "c")
    shop.jobs.sqs.receive_now(LETTERS, limit=1, visibility_s=3_600)
    plan = asyncio.run(shop.bench.replays().rehearse(EVERYTHING, shop.bench.options()))
    assert (plan.sent, plan.reason) == (2, "letters that were not seen: about 1")


def test_letters_of_jobs_that_die_after_the_start_are_left() -> None:
    shop = Shop()
    shop.dead("a")
    replays = shop.bench.replays()

    def die_meanwhile(_report: ReplayReport) -> None:
        if len(shop.jobs.dead_letters()) == 1 and not shop.sent():
            shop.jobs.clock.advance(60)
            letter = OutgoingMessage(
                body=shop.jobs.dead_letters()[0].body,
                attributes={"FailedAt": shop.jobs.clock.now().isoformat()},
            )
            shop.jobs.sqs.send_now(LETTERS, [letter])

    report = asyncio.run(
        replays.start(EVERYTHING, shop.bench.options(), actor="", tell=die_meanwhile)
    )
    assert (report.sent, shop.letters()) == (1, 1)


# --- the pace ------------------------------------------------------------------------------------


def test_a_rate_holds_back_what_is_not_due() -> None:
    shop = Shop()
    shop.dead(*numbered(240))
    seen: list[tuple[float, int]] = []
    began = shop.jobs.clock.monotonic()

    def note(report: ReplayReport) -> None:
        seen.append((shop.jobs.clock.monotonic() - began, report.sent))

    options = shop.bench.options(rate=2)
    asyncio.run(shop.bench.replays().start(EVERYTHING, options, actor="", tell=note))
    assert seen[-1][1] == 240
    assert all(sent <= 2 * (after_s + AHEAD_S) + 1 for after_s, sent in seen)
    # The last is due at 119.5 s, and sent up to half a minute before.
    assert 119.5 - AHEAD_S <= seen[-1][0] <= 119.5
    delays = _delays(shop.jobs)
    assert max(delays) <= AHEAD_S


def test_a_spread_places_jobs_at_random_over_the_time() -> None:
    shop = Shop()
    shop.dead(*numbered(60))
    began = shop.jobs.clock.now()
    report = shop.bench.replay(spread=timedelta(minutes=10))
    assert (report.total, report.sent) == (60, 60)
    ends = shop.jobs.clock.now() - began
    assert timedelta(minutes=9) <= ends <= timedelta(minutes=10)


def test_what_never_stops_of_itself_is_sent_ahead_by_sqs_own_delay() -> None:
    shop = Shop()
    shop.dead(*numbered(60))
    began = shop.jobs.clock.now()
    shop.bench.replay(spread=timedelta(minutes=10), stop_above=None)
    assert shop.jobs.clock.now() == began
    delays = _delays(shop.jobs)
    assert 500 < max(delays) <= 600
    assert shop.letters() == 0


# --- stopping ------------------------------------------------------------------------------------


def _runs_while_it_waits(shop: Shop, queue: str = NORMAL) -> None:
    """Let a worker run what is sent whenever the replay pauses."""
    backend = shop.bench.backend
    passing = backend._async_pass

    async def sleep(seconds: float) -> None:
        await passing(seconds)
        if any(each.visible_at is None for each in shop.jobs.sqs.messages(queue)):
            await shop.jobs.adrain()

    backend._async_pass = sleep  # type: ignore[method-assign]  # as much of a worker as is needed


@pytest.mark.parametrize("records", ["outcomes", "failures", "off"])
def test_a_replay_whose_jobs_die_again_stops_and_can_be_resumed(records: Any) -> None:
    shop = Shop(records=records)
    shop.dead(*numbered(200))
    _runs_while_it_waits(shop)
    report = shop.bench.replay(rate=1)
    assert report.state is ReplayState.STOPPED
    assert "died again" in report.reason
    assert 10 <= report.died_again <= report.sent < 200
    shop.good = lambda _text: True
    rest = asyncio.run(shop.bench.replays().resume(report.id))
    assert (rest.state, rest.sent) == (ReplayState.DONE, 200)


def test_a_replay_whose_jobs_mostly_complete_goes_on() -> None:
    shop = Shop()
    shop.dead(*numbered(60))
    shop.good = lambda text: int(text) % 3 > 0
    _runs_while_it_waits(shop)
    report = shop.bench.replay(rate=1)
    assert (report.state, report.sent) == (ReplayState.DONE, 60)
    assert report.died_again > 0


def test_few_letters_are_spread_over_hours_and_none_is_refused() -> None:
    shop = Shop()
    shop.dead(*numbered(4))
    begin, share = shop.jobs.clock.now(), timedelta(hours=1.5)
    report = shop.bench.replay(spread=4 * share)
    assert (report.state, report.sent, report.refused) == (ReplayState.DONE, 4, 0)
    sent = [each.sent_at - begin for each in shop.jobs.sqs.messages(NORMAL)]
    for turn, at in enumerate(sent):  # SQS delays it for the rest
        assert turn * share - timedelta(minutes=15) <= at <= (turn + 1) * share


@pytest.mark.parametrize("records", ["outcomes", "failures", "off"])
def test_a_canary_that_dies_again_stops_the_replay(records: Any) -> None:
    shop = Shop(records=records)
    shop.dead(*numbered(20))
    _runs_while_it_waits(shop)
    report = shop.bench.replay(canary=3)
    assert (report.state, report.sent) == (ReplayState.STOPPED, 3)
    assert report.reason == "of the canary 3 of 3 jobs are known to have died again"


@pytest.mark.parametrize("records", ["outcomes", "failures", "off"])
def test_a_canary_that_lives_is_followed_by_the_others(records: Any) -> None:
    shop = Shop(records=records)
    shop.dead(*numbered(20))
    shop.good = lambda _text: True
    _runs_while_it_waits(shop)
    report = shop.bench.replay(canary=3)
    assert (report.state, report.sent, shop.letters()) == (ReplayState.DONE, 20, 0)


def test_a_canary_that_does_not_end_in_time_stops_the_replay() -> None:
    shop = Shop()
    shop.dead(*numbered(5))
    report = shop.bench.replay(canary=2, canary_timeout=60)
    assert (report.state, report.sent) == (ReplayState.STOPPED, 2)
    assert "2 of the canary had not ended after 0:01:00" in report.reason
    assert asyncio.run(shop.bench.replays().resume(report.id)).sent == 5


@pytest.mark.parametrize("records", ["outcomes", "failures", "off"])
@pytest.mark.parametrize("lives", [True, False])
def test_a_canary_that_nobody_has_judged_is_judged_after_a_resume(
    records: Any, *, lives: bool
) -> None:
    shop = Shop(records=records)
    shop.dead(*numbered(20))
    stopped = _stopped_at(shop, 3, canary=3)
    assert (stopped.reason, stopped.canary_passed) == ("interrupted", False)
    shop.good = lambda _text: lives
    _runs_while_it_waits(shop)
    rest = asyncio.run(shop.bench.replays().resume(stopped.id))
    if lives:
        assert (rest.state, rest.sent, shop.letters()) == (ReplayState.DONE, 20, 0)
    else:
        assert (rest.state, rest.sent) == (ReplayState.STOPPED, 3)
        assert rest.reason == "of the canary 3 of 3 jobs are known to have died again"


def test_a_canary_that_died_while_its_replay_was_stopped_is_judged_by_its_deaths() -> None:
    shop = Shop(records="off")
    shop.dead(*numbered(20))
    stopped = _stopped_at(shop, 3, canary=3)
    shop.jobs.drain()
    shop.jobs.clock.advance(LATER)
    rest = asyncio.run(shop.bench.replays().resume(stopped.id))
    assert (rest.state, rest.sent) == (ReplayState.STOPPED, 3)
    assert rest.reason == "of the canary 3 of 3 jobs are known to have died again"


def _stopped_at(
    shop: Shop, sent: int, chosen: DeadLetterFilter = EVERYTHING, **settings: Any
) -> ReplayReport:
    """Return a replay whose process was told to end once it had sent some."""
    steps: list[ReplayReport] = []
    running = shop.bench.replays().start(
        chosen,
        shop.bench.options(**settings),
        actor="ada",
        tell=steps.append,
        is_stopping=lambda: any(each.sent >= sent for each in steps),
    )
    return asyncio.run(running)


def test_a_replay_that_counts_what_it_spreads_is_seen_stopped_and_resumed() -> None:
    shop = Shop()
    shop.dead(*numbered(200))
    steps: list[ReplayReport] = []
    counting = shop.bench.replays().start(
        EVERYTHING,
        shop.bench.options(spread=600),
        actor="ada",
        tell=steps.append,
        is_stopping=lambda: bool(steps),
    )
    stopped = asyncio.run(counting)
    assert (steps[0].state, steps[0].total) == (ReplayState.RUNNING, None)
    assert (stopped.state, stopped.reason, stopped.sent) == (ReplayState.STOPPED, "interrupted", 0)
    shop.jobs.clock.advance(HOLD)
    begin = shop.jobs.clock.now()
    rest = asyncio.run(shop.bench.replays().resume(stopped.id))
    assert (rest.state, rest.sent, rest.total) == (ReplayState.DONE, 200, 200)
    assert shop.jobs.clock.now() - begin > timedelta(minutes=9)


async def test_letters_that_others_hold_are_counted_and_spread_like_the_rest() -> None:
    shop = Shop()
    await _dead(shop, 100)
    for _ in range(10):  # a listing looks at all of them
        await shop.jobs.sqs.receive(LETTERS, limit=10, wait_s=0, visibility_s=10)
    begin = shop.jobs.clock.now()
    report = await shop.bench.start(spread=600)
    assert (report.state, report.sent, report.total) == (ReplayState.DONE, 100, 100)
    assert shop.jobs.clock.now() - begin > timedelta(minutes=9)


def test_a_replay_that_is_killed_while_it_counts_can_be_resumed() -> None:
    shop = Shop()
    shop.dead(*numbered(20))
    shop.jobs.sqs.faults.raise_on("depth", ServiceUnavailable("down"))
    with pytest.raises(ServiceUnavailable):
        shop.bench.replay(spread=600)
    [report] = asyncio.run(shop.bench.replays().all())
    assert (report.state, report.reason, report.total) == (ReplayState.STOPPED, "down", None)
    assert asyncio.run(shop.bench.replays().resume(report.id)).sent == 20


# --- who carries it out --------------------------------------------------------------------------


async def test_a_replay_that_is_stopped_is_resumed_elsewhere() -> None:
    shop = Shop()
    await _dead(shop, 100)
    services = shop.bench.services(Cut())
    auditor = auditor_of(services.app, services.table, services.clock, "ada")
    replayer = AsyncReplayer(services, auditor)

    def stop_soon(report: ReplayReport) -> None:
        if report.sent >= 20:
            replayer.stop()

    report = await replayer.replay(EVERYTHING, on_step=stop_soon, rate=1)
    assert (report.state, report.reason) == (ReplayState.STOPPED, "interrupted")
    rest = await shop.bench.replays().resume(report.id)
    assert (rest.state, rest.sent, rest.actor) == (ReplayState.DONE, 100, "ada")
    assert len({each.id for each in shop.sent()}) == len(shop.sent()) == 100


@pytest.mark.parametrize("by_id", [True, False])
async def test_of_several_replays_of_one_client_each_is_stopped_by_itself(*, by_id: bool) -> None:
    shop = Shop()
    await _dead(shop, 40)
    await asyncio.to_thread(shop.dead, *numbered(20), kind=shop.count)
    services = shop.bench.services(Cut())
    replayer = AsyncReplayer(
        services, auditor_of(services.app, services.table, services.clock, "ada")
    )
    others: list[asyncio.Task[ReplayReport]] = []

    def stop_soon(report: ReplayReport) -> None:
        if report.sent < 20 or others:
            return
        replayer.stop(report.id if by_id else None)
        others.append(asyncio.create_task(replayer.replay(DeadLetterFilter(types=("count",)))))

    chosen = DeadLetterFilter(types=("send",))
    report = await replayer.replay(chosen, on_step=stop_soon, rate=1)
    assert (report.state, report.reason) == (ReplayState.STOPPED, "interrupted")
    assert report.sent < 40
    other = await others[0]
    assert (other.state, other.sent) == (ReplayState.DONE, 20)


async def test_a_replay_that_is_cancelled_has_stopped_and_loses_nothing() -> None:
    shop = Shop()
    await _dead(shop, 100)
    running = asyncio.create_task(shop.bench.start(rate=1))
    await _until(shop, 20)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    [report] = await shop.bench.replays().all()
    assert (report.state, report.reason) == (ReplayState.STOPPED, "interrupted")
    rest = await shop.bench.replays().resume(report.id)
    assert rest.state is ReplayState.DONE
    assert len({each.id for each in shop.sent()}) == 100


async def test_a_replay_is_aborted_from_elsewhere_and_stays_so() -> None:
    shop = Shop()
    await _dead(shop, 100)
    running = asyncio.create_task(shop.bench.start(rate=1))
    await _until(shop, 20)
    elsewhere = shop.bench.replays()
    [report] = await elsewhere.all()
    assert report.state is ReplayState.RUNNING
    await elsewhere.abort(report.id, by="bob")
    ended = await running
    assert (ended.state, ended.reason) == (ReplayState.ABORTED, "aborted by bob")
    assert ended.sent < 100
    assert (await elsewhere.get(report.id)).sent == ended.sent
    assert (await elsewhere.abort(report.id, by="eve")).reason == "aborted by bob"
    with pytest.raises(ReplayOver, match="is aborted"):
        await elsewhere.resume(report.id)


async def test_only_one_process_carries_a_replay_out() -> None:
    shop = Shop()
    await _dead(shop, 60)
    running = asyncio.create_task(shop.bench.start(rate=1))
    await _until(shop, 1)
    elsewhere = shop.bench.replays()
    [report] = await elsewhere.all()
    with pytest.raises(ReplayRunning):
        await elsewhere.resume(report.id)
    assert (await running).state is ReplayState.DONE
    with pytest.raises(ReplayOver, match="is done"):
        await elsewhere.abort(report.id, by="")
    with pytest.raises(ReplayMissing, match="no replay 'x'"):
        await elsewhere.get("x")


async def test_replays_at_the_same_time_send_no_letter_twice() -> None:
    shop = Shop()
    await _dead(shop, 100)
    reports = await asyncio.gather(*(shop.bench.start() for _ in range(3)))
    assert sum(report.sent for report in reports) == 100
    assert len({each.id for each in shop.sent()}) == len(shop.sent()) == 100


async def test_letters_that_another_replay_has_sent_but_not_deleted_are_only_deleted() -> None:
    shop = Shop()
    await _dead(shop, 5)
    shop.jobs.sqs.faults.raise_on("delete", ServiceUnavailable("down"), times=4)
    with pytest.raises(ServiceUnavailable):
        await shop.bench.start()
    shop.jobs.clock.advance(HOLD)
    report = await shop.bench.start()
    assert (report.sent, shop.letters(), len(shop.sent())) == (0, 0, 5)


async def test_entries_that_sqs_does_not_take_are_sent_again() -> None:
    shop = Shop()
    await _dead(shop, 5)
    shop.jobs.sqs.faults.fail_entries("send", indexes=[1, 3])
    shop.jobs.sqs.faults.fail_entries("delete", indexes=[0])
    report = await shop.bench.start()
    assert (report.state, report.sent, shop.letters()) == (ReplayState.DONE, 5, 0)
    assert len(shop.sent()) == 5


async def test_what_sqs_refuses_stays_where_it_is() -> None:
    shop = Shop()
    await _dead(shop, 2)
    shop.jobs.sqs.faults.fail_entries("send", indexes=[0], sender_fault=True, code="Invalid")
    report = await shop.bench.start()
    assert (report.sent, report.refused, shop.letters()) == (1, 1, 1)
    assert report.left[0].why.startswith("SQS refuses it: Invalid")


async def test_a_replay_whose_table_is_away_goes_on_until_its_lease_is_over() -> None:
    shop = Shop()
    await _dead(shop, 100)
    began = shop.jobs.clock.monotonic()

    def cut_off(_report: ReplayReport) -> None:
        shop.jobs.table.faults.raise_on(None, ServiceUnavailable("down"), times=10_000)

    options = shop.bench.options(rate=0.5)
    replays = shop.bench.replays()
    with pytest.raises(ServiceUnavailable):
        await replays.start(EVERYTHING, options, actor="", tell=cut_off)
    assert shop.jobs.clock.monotonic() - began <= LEASE_S + 10
    shop.jobs.table.faults.clear()
    shop.jobs.clock.advance(HOLD)
    [report] = await replays.all()
    rest = await replays.resume(report.id)
    assert (rest.state, shop.letters()) == (ReplayState.DONE, 0)
    assert len({each.id for each in shop.sent()}) == 100


@pytest.mark.parametrize(
    "settings",
    [
        {"rate": 1, "spread": 60},
        {"rate": 0},
        {"rate": -1},
        {"limit": 0},
        {"limit": True},
        {"spread": timedelta(days=15)},
        {"canary": 5, "stop_above": None},
        {"canary": 5_000},
        {"stop_above": 50},
        {"priority": "urgent"},
        {"set": {"a": float("nan")}},
        {"set": {"": 1}},
        {"speed": 1},
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(SettingsInvalid, match="a replay"):
        ReplayBench.options(**settings)


async def _until(shop: Shop, sent: int) -> None:
    """Let the other tasks run until so many jobs are sent."""
    while len(shop.sent()) < sent:  # noqa: ASYNC110 - a queue in memory tells nobody
        await asyncio.sleep(0)


async def _dead(shop: Shop, count: int) -> None:
    notes = [Note(text=text) for text in numbered(count)]
    await shop.jobs.async_client.submit_many(shop.send, notes)
    await shop.jobs.adrain()
    shop.jobs.clock.advance(LATER)


def _delays(jobs: Harness) -> list[float]:
    """Return the seconds for which SQS delays the messages in the queue."""
    messages = jobs.sqs.messages(NORMAL)
    shows = [(each.visible_at or each.sent_at) - each.sent_at for each in messages]
    return [each.total_seconds() for each in shows]


def _rewrite_letters(jobs: Harness, old: str, new: str) -> None:
    found = jobs.sqs.sync.receive(LETTERS, limit=10, wait_s=0)
    jobs.sqs.sync.delete(LETTERS, [each.receipt for each in found])
    for each in found:
        assert old in each.body
        body = each.body.replace(old, new)
        jobs.sqs.send_now(LETTERS, [OutgoingMessage(body=body, attributes=each.attributes)])


def test_states_of_replayed_jobs_follow() -> None:
    shop = Shop()
    [job_id] = shop.dead("a")
    shop.good = lambda _text: True
    shop.bench.replay()
    assert shop.jobs.client.handle(job_id).state() is JobState.WAITING
    shop.jobs.drain()
    assert shop.jobs.client.handle(job_id).state() is JobState.COMPLETED
