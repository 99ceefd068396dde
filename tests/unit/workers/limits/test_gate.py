"""Limits at a worker: the jobs that they hold back, at little cost and no job's expense."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from headgate import (
    App,
    AsyncClient,
    Backoff,
    Breaker,
    Concurrency,
    Priority,
    RateLimit,
    Retry,
    RetryBudget,
    RetryLater,
)
from headgate.jobs.core.events import (
    BreakerClosed,
    BreakerOpened,
    BudgetSpent,
    Event,
    Events,
    JobCompleted,
    JobDeadLettered,
    JobFailed,
    JobQuarantined,
    JobStarted,
    LeaseFailed,
    LimitCleared,
    LimitReached,
)
from headgate.jobs.core.limits import LimitKey, OnExhausted, Scope
from headgate.jobs.core.ports.transport import VisibilityChange
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.errors import ServiceUnavailable
from headgate.jobs.records.items import Mark
from headgate.workers.configuration import WorkerSettings
from headgate.workers.worker import Worker
from tests.support.backends import async_over
from tests.support.records import mark
from tests.unit.workers.rig import MAIL, Note, Rig, one_lane, without_threads

MANY = Retry(max_attempts=100, backoff=Backoff.fixed(10))


def _app(*, on: str = "queue", retry: Retry = MANY, takes_s: float = 0.01, **limits: Any) -> App:
    """Return an app whose one type ``work`` is on the queue ``calls``, with limits somewhere."""
    app = App("shop", records="off", **(limits if on == "app" else {}))
    calls = app.queue(
        "calls",
        priorities=[Priority.NORMAL],
        retry=retry,
        **(limits if on == "queue" else {}),
    )

    @calls.job("work", **(limits if on == "type" else {}))
    async def work(_note: Note) -> None:
        await asyncio.sleep(takes_s)

    return app


QUEUE = "shop-calls-normal"


def _most_in_any(starts: Sequence[datetime], per: timedelta) -> int:
    return max(sum(start <= other < start + per for other in starts) for start in starts)


# --- rates ---------------------------------------------------------------------------------------


@pytest.mark.looptime
@pytest.mark.parametrize("on", ["app", "queue", "type"])
async def test_a_rate_is_never_exceeded_and_nearly_reached(on: str) -> None:
    rig = Rig(app := _app(on=on, rate_limit=RateLimit(20, per=timedelta(seconds=1))))
    await rig.submit(app.types["work"], *map(str, range(300)))
    async with rig.working(concurrency=50):
        began = rig.clock.monotonic()
        await rig.happens(JobCompleted, 300)
        took_s = rig.clock.monotonic() - began
    starts = [event.at for event in rig.heard(JobStarted)]
    assert _most_in_any(starts, timedelta(seconds=1)) == 20
    assert took_s < 16, "300 jobs at 20 a second"


@without_threads
async def test_a_slow_rate_receives_only_what_it_can_start_and_burns_no_delivery() -> None:
    rig = Rig(app := _app(rate_limit=RateLimit(2, per=timedelta(minutes=10))))
    await rig.submit(app.types["work"], *map(str, range(20)))
    async with rig.working(concurrency=50):
        await rig.happens(JobCompleted, 20)
    assert [event.attempt for event in rig.heard(JobStarted)] == [1] * 20
    starts = [event.at for event in rig.heard(JobStarted)]
    assert _most_in_any(starts, timedelta(minutes=10)) == 2
    assert rig.calls("receive", QUEUE) < 30


@pytest.mark.looptime
async def test_a_limited_queue_takes_nothing_from_the_others() -> None:
    app = _app(rate_limit=RateLimit(1, per=timedelta(hours=1)))

    @app.job("free")
    async def free(_note: Note) -> None:
        await asyncio.sleep(1)

    rig = Rig(app)
    await rig.submit(app.types["work"], *map(str, range(50)))
    await rig.submit(free, *map(str, range(200)))
    async with rig.working(concurrency=10, reserved=0):
        began = rig.clock.monotonic()
        await rig.happens(JobCompleted, 201)
        assert rig.clock.monotonic() - began < 24, "200 s of work in ten slots"


@pytest.mark.looptime
@pytest.mark.parametrize("scope", ["worker", "fleet"])
@pytest.mark.parametrize("by", ["tenant", "payload"])
async def test_a_keyed_rate_applies_to_each_key_and_is_nearly_reached(
    by: str, scope: Scope
) -> None:
    key: LimitKey = "tenant" if by == "tenant" else (lambda note: note.text.partition("-")[0])
    rig = Rig(app := _app(rate_limit=RateLimit(5, key=key, scope=scope)))
    whose: dict[str, str] = {}
    for who in ("one", "two"):
        texts = (f"{who}-{number}" for number in range(60))
        whose |= dict.fromkeys(await rig.submit(app.types["work"], *texts, tenant=who), who)
    await rig.submit(app.types["work"], "quick", tenant="three")
    async with rig.working(concurrency=50):
        began = rig.clock.monotonic()
        await rig.happens(JobCompleted, 121)
        took_s = rig.clock.monotonic() - began
    for who in ("one", "two"):
        starts = [event.at for event in rig.heard(JobStarted) if whose.get(event.job_id) == who]
        assert len(starts) == 60
        assert _most_in_any(starts, timedelta(seconds=1)) == 5
    assert took_s < 60 / 5 * 1.25, "60 jobs of each at 5 a second"
    assert rig.remaining() == 0


@pytest.mark.looptime
async def test_a_tenants_flood_behind_its_rate_delays_no_other_tenant() -> None:
    rig = Rig(app := _app(rate_limit=RateLimit(1, per=60, key="tenant")))
    await rig.submit(app.types["work"], *map(str, range(300)), tenant="flood")
    async with rig.working(concurrency=50):
        await asyncio.sleep(600)
        for number in range(5):
            before, done = rig.clock.monotonic(), len(rig.heard(JobCompleted))
            await rig.submit(app.types["work"], "quick", tenant=f"quiet-{number}")
            await rig.happens(JobCompleted, done + 1)
            assert rig.clock.monotonic() - before < 2
            await asyncio.sleep(60)
    assert {event.limit for event in rig.heard(LimitReached)} == {"rate:queue:calls"}
    assert len(rig.heard(JobStarted)) >= 10 + 5


@pytest.mark.looptime
async def test_that_a_limit_holds_is_told_once_and_that_it_no_longer_does() -> None:
    rig = Rig(app := _app(rate_limit=RateLimit(5, per=timedelta(seconds=10))))
    await rig.submit(app.types["work"], *map(str, range(12)))
    async with rig.working(concurrency=50):
        await rig.happens(JobCompleted, 12)
        await rig.happens(LimitCleared)
        await asyncio.sleep(30)
    assert {event.limit for event in rig.heard(LimitReached)} == {"rate:queue:calls"}
    assert len(rig.heard(LimitReached)) == len(rig.heard(LimitCleared)) <= 3


# --- concurrency ---------------------------------------------------------------------------------


@pytest.mark.looptime
async def test_at_most_the_limit_runs_at_once_and_all_jobs_run() -> None:
    rig = Rig(app := _app(concurrency=Concurrency(3), takes_s=1))
    await rig.submit(app.types["work"], *map(str, range(30)))
    async with rig.working(concurrency=50) as worker:
        most, began = 0, rig.clock.monotonic()
        while len(rig.heard(JobCompleted)) < 30:
            most = max(most, len(worker.active()))
            await asyncio.sleep(0.1)
        assert rig.clock.monotonic() - began < 12
    assert most == 3
    assert {event.attempt for event in rig.heard(JobStarted)} == {1}


@pytest.mark.looptime
@pytest.mark.parametrize("by", ["tenant", "payload"])
async def test_one_key_s_flood_leaves_the_slots_of_others_alone(by: str) -> None:
    running: Counter[str] = Counter()
    most: defaultdict[str, int] = defaultdict(int)
    app = App("shop")
    key: Any = "tenant" if by == "tenant" else (lambda note: note.text.partition("-")[0])
    calls = app.queue("calls", concurrency=Concurrency(2, key=key))

    @calls.job("work")
    async def work(note: Note) -> None:
        who = note.text.partition("-")[0]
        running[who] += 1
        most[who] = max(most[who], running[who])
        await asyncio.sleep(1)
        running[who] -= 1

    rig = Rig(app)
    await rig.submit(work, *(f"flood-{number}" for number in range(12)), tenant="flood")
    await rig.submit(work, *(f"quiet-{number}" for number in range(4)), tenant="quiet")
    async with rig.working(concurrency=50):
        await rig.happens(JobCompleted, 16)
    assert dict(most) == {"flood": 2, "quiet": 2}


@pytest.mark.looptime
async def test_jobs_without_a_tenant_are_not_limited_by_tenant() -> None:
    rig = Rig(app := _app(concurrency=Concurrency(1, key="tenant"), takes_s=10))
    await rig.submit(app.types["work"], *map(str, range(20)))
    async with rig.working(concurrency=50):
        began = rig.clock.monotonic()
        await rig.happens(JobCompleted, 20)
        assert rig.clock.monotonic() - began < 12


@pytest.mark.looptime
async def test_a_key_function_that_fails_costs_no_job(caplog: pytest.LogCaptureFixture) -> None:
    def broken(note: Note) -> str:
        raise ValueError(note.text)

    rig = Rig(app := _app(concurrency=Concurrency(1, key=broken)))
    await rig.submit(app.types["work"], "secret", "secret too")
    async with rig.working(concurrency=5):
        await rig.happens(JobCompleted, 2)
    assert "the key function of concurrency:queue:calls failed" in caplog.text
    assert "secret" not in caplog.text


# --- costs ---------------------------------------------------------------------------------------


class Prompt(BaseModel):
    tokens: int


def _prompts(rate: RateLimit) -> tuple[App, JobType[Prompt, None]]:
    app = App("shop", records="off")
    calls = app.queue("calls", priorities=[Priority.NORMAL], retry=MANY)

    @calls.job("work", rate_limit=rate)
    async def work(_prompt: Prompt) -> None:
        await asyncio.sleep(0.01)

    return app, work


def _tokens(prompt: Prompt) -> int:
    return prompt.tokens


async def _submit(rig: Rig, job: JobType[Prompt, None], *tokens: int) -> dict[str, int]:
    """Submit a job for each number of tokens; return the numbers by job id."""
    async with AsyncClient(rig.app, backend=rig.backend) as client:
        return {(await client.submit(job, Prompt(tokens=each))).id: each for each in tokens}


def _spent_in_any(rig: Rig, tokens: dict[str, int], per: timedelta) -> int:
    """Return the most tokens that jobs have used which started within any such time."""
    starts = [(event.at, tokens[event.job_id]) for event in rig.heard(JobStarted)]
    return max(sum(cost for at, cost in starts if first <= at < first + per) for first, _ in starts)


@pytest.mark.looptime
async def test_what_jobs_cost_in_any_minute_stays_within_the_limit_and_comes_near_it() -> None:
    minute = timedelta(minutes=1)
    app, work = _prompts(RateLimit(1000, per=minute, cost=_tokens))
    rig = Rig(app)
    tokens = await _submit(rig, work, *[10, 400, 50, 900, 5, 5, 300, 20] * 8)
    async with rig.working(concurrency=50):
        began = rig.clock.monotonic()
        await rig.happens(JobCompleted, len(tokens))
        took_s = rig.clock.monotonic() - began
    assert _spent_in_any(rig, tokens, minute) <= 1000
    assert took_s < 60 * 2 * sum(tokens.values()) / 1000
    assert {event.attempt for event in rig.heard(JobStarted)} == {1}


@pytest.mark.looptime
async def test_a_stream_of_small_jobs_does_not_keep_a_large_one_waiting() -> None:
    app, work = _prompts(RateLimit(100, per=10, cost=_tokens))
    rig = Rig(app)
    await _submit(rig, work, *[10] * 10)
    async with rig.working(concurrency=50):
        await rig.happens(JobCompleted, 10)
        [large] = await _submit(rig, work, 90)
        await _submit(rig, work, *[10] * 100)
        await rig.happens(JobCompleted, 60)
    started = [event.job_id for event in rig.heard(JobStarted)]
    assert started.index(large) < 40, "not behind the hundred small ones"


@pytest.mark.looptime
async def test_a_job_whose_cost_can_not_be_told_or_met_runs_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def cost(prompt: Prompt) -> int:
        if prompt.tokens == 13:
            raise ValueError("secret")
        return prompt.tokens

    rig = Rig(_prompts(RateLimit(100, per=10, cost=cost))[0])
    other, same = _prompts(RateLimit(100, per=10))
    async with AsyncClient(other, backend=rig.backend) as client:  # it knows nothing of the cost
        for tokens in (13, 500, 13, 50):
            await client.submit(same, Prompt(tokens=tokens))
    async with rig.working(concurrency=5):
        await rig.happens(JobCompleted, 4)
    assert "the cost function of rate:type:work failed with ValueError" in caplog.text
    assert "returned more than 100" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.looptime
async def test_a_fleet_runs_jobs_that_cost_more_than_a_workers_part() -> None:
    minute = timedelta(minutes=1)
    app, work = _prompts(RateLimit(100, per=minute, cost=_tokens, scope="fleet"))
    rig = Rig(app)
    tokens = await _submit(rig, work, *[10, 90, 30, 80, 5, 5] * 3)
    others = [_second(rig, f"other-{number}", concurrency=5) for number in range(2)]
    async with rig.working(concurrency=5):
        tasks = [asyncio.create_task(other.run()) for other in others]
        await rig.happens(JobCompleted, len(tokens))
        for other in others:
            other.stop()
        await asyncio.gather(*tasks)
    assert _spent_in_any(rig, tokens, minute) <= 100


# --- breakers ------------------------------------------------------------------------------------


class Dependency:
    """A service that jobs call; it is up or down."""

    def __init__(self) -> None:
        self.is_up = False
        self.calls = 0

    def call(self) -> None:
        self.calls += 1
        if not self.is_up:
            raise ConnectionError("it is down")


def _calling(dependency: Dependency, **limits: Any) -> tuple[Rig, JobType[Note, None]]:
    app = App("shop")
    calls = app.queue("calls", priorities=[Priority.NORMAL], retry=MANY, **limits)

    @calls.job("call")
    async def call(_note: Note) -> None:
        dependency.call()

    return Rig(app), call


_BREAKER = Breaker(0.5, min_runs=10, open_for=timedelta(minutes=5), probes=2)


@without_threads
async def test_an_open_breaker_makes_no_receive_and_burns_no_delivery() -> None:
    dependency = Dependency()
    rig, call = _calling(dependency, breaker=_BREAKER)
    await rig.submit(call, *map(str, range(100)))
    async with rig.working(concurrency=20):
        await rig.happens(BreakerOpened)
        await asyncio.sleep(30)  # everything on its way has arrived
        receives = rig.calls("receive", QUEUE)
        counts = {each.message_id: each.receive_count for each in rig.sqs.messages(QUEUE)}
        calls = dependency.calls
        await asyncio.sleep(4 * 60)
        assert rig.calls("receive", QUEUE) == receives
        assert {each.message_id: each.receive_count for each in rig.sqs.messages(QUEUE)} == counts
        assert dependency.calls == calls
        dependency.is_up = True
        await rig.happens(JobCompleted, 100)
        assert len(rig.heard(BreakerClosed)) == 1


@without_threads
async def test_a_long_outage_costs_a_few_probes_and_most_jobs_no_attempt() -> None:
    dependency = Dependency()
    rig, call = _calling(dependency, breaker=_BREAKER)
    await rig.submit(call, *map(str, range(200)))
    async with rig.working(concurrency=20):
        await asyncio.sleep(3600)
        assert dependency.calls < 20 + 10 + 2 * 12 + 10, "the minimum, then two every five minutes"
        dependency.is_up = True
        await rig.happens(JobCompleted, 200)
    first = sum(event.attempt == 1 for event in rig.heard(JobCompleted))
    assert first >= 200 - 20 - 10 - 2 * 13, "those that ran at first, the minimum, and the probes"
    assert rig.remaining() == 0


@pytest.mark.looptime
async def test_what_no_retry_mends_opens_no_breaker() -> None:
    app = App("shop")
    calls = app.queue("calls", priorities=[Priority.NORMAL], breaker=_BREAKER)

    @calls.job("refuse", retry=Retry(max_attempts=3, never_on=(ValueError,)))
    async def refuse(_note: Note) -> None:
        raise ValueError

    rig = Rig(app)
    await rig.submit(refuse, *map(str, range(50)))
    async with rig.working(concurrency=20):
        await rig.happens(JobDeadLettered, 50)
    assert rig.heard(BreakerOpened) == []


@pytest.mark.looptime
async def test_deferring_is_no_failure_to_a_breaker() -> None:
    app = App("shop")
    calls = app.queue("calls", priorities=[Priority.NORMAL], retry=MANY, breaker=_BREAKER)
    deferred: set[str] = set()

    @calls.job("later")
    async def later(note: Note) -> None:
        if note.text not in deferred:
            deferred.add(note.text)
            raise RetryLater(after=timedelta(seconds=5), reason="not yet")

    rig = Rig(app)
    await rig.submit(later, *map(str, range(50)))
    async with rig.working(concurrency=20):
        await rig.happens(JobCompleted, 50)
    assert rig.heard(BreakerOpened) == []


async def _submit_killer(rig: Rig) -> None:
    """Submit a job that has killed its worker as often as allowed."""
    [job_id] = await rig.submit(rig.app.types["send"])
    [message] = rig.sqs.messages(MAIL)
    for receive in (1, 2, 3):
        [got] = await rig.sqs.receive(MAIL, limit=1, wait_s=0)
        crashed = mark(job_id, message.message_id, receive, Mark.CRASHED, rig.clock.now())
        await rig.table.put([crashed])
        await rig.sqs.change_visibility(MAIL, [VisibilityChange(receipt=got.receipt, timeout_s=0)])


@pytest.mark.looptime
async def test_a_job_that_is_parked_unrun_does_not_open_its_breaker() -> None:
    app, mail = one_lane()

    @mail.job("send", breaker=Breaker(min_runs=1, failure_ratio=0.5))
    async def send(_note: Note) -> None: ...

    rig = Rig(app)
    await _submit_killer(rig)
    async with rig.working():
        await rig.happens(JobQuarantined)
    assert rig.heard(JobStarted) == []
    assert rig.heard(BreakerOpened) == []


@pytest.mark.looptime
async def test_a_job_that_is_parked_unrun_does_not_wait_behind_a_limit() -> None:
    app, mail = one_lane()

    @mail.job("send", rate_limit=RateLimit(1, per=timedelta(hours=1)))
    async def send(_note: Note) -> None: ...

    rig = Rig(app)
    await _submit_killer(rig)
    await rig.submit(send)  # takes the only token while the killer's records are read
    began = rig.clock.monotonic()
    async with rig.working():
        await rig.happens(JobCompleted)
        await rig.happens(JobQuarantined)
        assert rig.clock.monotonic() - began < 10


@pytest.mark.looptime
async def test_each_type_has_a_breaker_of_its_own() -> None:
    app = App("shop", breaker=_BREAKER)
    mixed = app.queue("calls", priorities=[Priority.NORMAL], retry=MANY)
    dependency = Dependency()

    @mixed.job("call")
    async def call(_note: Note) -> None:
        dependency.call()

    @mixed.job("fine")
    async def fine(_note: Note) -> None: ...

    rig = Rig(app)
    await rig.submit(call, *map(str, range(15)))
    async with rig.working(concurrency=20):
        await rig.happens(BreakerOpened)
        await rig.submit(fine, *map(str, range(50)))
        await rig.happens(JobCompleted, 50)
        assert {event.limit for event in rig.heard(BreakerOpened)} == {"breaker:type:call"}
        dependency.is_up = True
        await rig.happens(JobCompleted, 65)


@pytest.mark.looptime
async def test_a_breaker_by_key_stops_the_jobs_of_its_key_only() -> None:
    app = App("shop")
    calls = app.queue("calls", priorities=[Priority.NORMAL], retry=MANY)
    down = Dependency()

    @calls.job("call", breaker=replace(_BREAKER, key=lambda note: note.text.split("/")[0]))
    async def call(note: Note) -> None:
        if note.text.startswith("down"):
            down.call()

    rig = Rig(app)
    await rig.submit(call, *(f"down/{i}" for i in range(40)))
    async with rig.working(concurrency=20):
        await rig.happens(BreakerOpened)
        await rig.submit(call, *(f"up/{i}" for i in range(40)))
        await rig.happens(JobCompleted, 40)
        await asyncio.sleep(60)
        assert down.calls < 20 + 10, "those that ran at first, and the minimum"
        down.is_up = True
        await rig.happens(JobCompleted, 80)
    [key] = {event.key for event in rig.heard(BreakerOpened)}
    assert key is not None
    assert "down" not in key, "events quote no payload"
    assert [event.key for event in rig.heard(BreakerClosed)] == [key]
    assert rig.remaining() == 0


# --- retry budgets -------------------------------------------------------------------------------


@pytest.mark.looptime
async def test_retries_beyond_the_budget_wait_for_a_window_with_room() -> None:
    dependency = Dependency()
    budget = RetryBudget(10, per=timedelta(minutes=1))
    rig, call = _calling(dependency, retry_budget=budget)
    await rig.submit(call, *map(str, range(60)))
    async with rig.working(concurrency=100) as worker:
        await rig.happens(JobFailed, 60)
        assert worker.budgets_left() == {"budget:queue:calls": pytest.approx(0, abs=10)}
        failed = len(rig.heard(JobFailed))
        await asyncio.sleep(600)
        retried = len(rig.heard(JobFailed)) - failed
        assert retried <= 11 * 10
        assert rig.heard(BudgetSpent)
        dependency.is_up = True
        await rig.happens(JobCompleted, 60)
    assert rig.sqs.messages("shop-calls-normal-dlq") == []


@pytest.mark.looptime
async def test_retries_beyond_the_budget_are_dead_lettered_where_that_is_wanted() -> None:
    budget = RetryBudget(10, on_exhausted="dead-letter", per=timedelta(hours=1))
    rig, call = _calling(Dependency(), retry_budget=budget)
    await rig.submit(call, *map(str, range(30)))
    async with rig.working(concurrency=100):
        await rig.happens(JobDeadLettered, 20)
    dead = rig.sqs.messages("shop-calls-normal-dlq")
    assert len(dead) == 20
    assert {message.attributes["Reason"] for message in dead} == {"retry-budget"}
    assert {message.attributes["ErrorType"] for message in dead} == {"ConnectionError"}


# --- of the fleet --------------------------------------------------------------------------------


def _second(
    rig: Rig, name: str, hear: Callable[[Event], None] | None = None, **settings: Any
) -> Worker:
    return Worker(
        rig.app,
        async_over(rig.sqs, table=rig.table, clock=rig.clock, rng=random.Random(name)),  # noqa: S311 - spreads pauses
        WorkerSettings(**settings),
        name=name,
        events=Events(hear or rig.hear),
    )


@without_threads
async def test_a_fleet_rate_applies_to_all_workers_at_few_requests() -> None:
    rig = Rig(app := _app(rate_limit=RateLimit(100, scope="fleet")))
    await rig.submit(app.types["work"], *map(str, range(4000)))
    others = [_second(rig, f"other-{number}", concurrency=50) for number in range(2)]
    async with rig.working(concurrency=50):
        tasks = [asyncio.create_task(other.run()) for other in others]
        await rig.happens(JobCompleted, 4000)
        calls = len(rig.table.calls)
        for other in others:
            other.stop()
        await asyncio.gather(*tasks)
    starts = sorted(event.at for event in rig.heard(JobStarted))
    for first, last in zip(starts, starts[100:], strict=False):
        assert last - first >= timedelta(seconds=1), "more than a hundred in one second"
    took_s = (starts[-1] - starts[0]).total_seconds()
    assert took_s < 50, "4,000 jobs at 100 a second"
    assert calls <= 4 * 15, "about 14 requests per 1,000 jobs, for three workers"


@pytest.mark.looptime
async def test_a_concurrency_of_the_fleet_holds_for_all_workers_together() -> None:
    app = App("shop")
    calls = app.queue(
        "calls", priorities=[Priority.NORMAL], concurrency=Concurrency(4, scope="fleet")
    )
    running, most = 0, 0

    @calls.job("work")
    async def work(_note: Note) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(1)
        running -= 1

    rig = Rig(app)
    await rig.submit(work, *map(str, range(100)))
    other = _second(rig, "other", concurrency=50)
    async with rig.working(concurrency=50):
        task = asyncio.create_task(other.run())
        await rig.happens(JobCompleted, 100)
        other.stop()
        await task
    assert most == 4


class _Unsayable:
    def __str__(self) -> str:
        raise ValueError


@pytest.mark.looptime
@pytest.mark.parametrize(
    "key",
    ["x" * 3_000, "caf\udce9", "\x00", _Unsayable()],
    ids=["long", "surrogate", "control", "unsayable"],
)
async def test_a_key_that_no_table_can_hold_stops_neither_its_job_nor_the_worker(key: Any) -> None:
    rig = Rig(app := _app(concurrency=Concurrency(1, key=lambda _note: key, scope="fleet")))
    await rig.submit(app.types["work"], "a", "b")
    async with rig.working():
        async with asyncio.timeout(60):
            await rig.happens(JobCompleted, 2)
    assert rig.heard(LeaseFailed) == []


@pytest.mark.looptime
async def test_without_the_table_a_fleet_limit_blocks_everything_safely() -> None:
    rig = Rig(app := _app(rate_limit=RateLimit(100, scope="fleet")))
    rig.table.faults.raise_on("replace", ServiceUnavailable("gone"), times=20)
    await rig.submit(app.types["work"], *map(str, range(50)))
    async with rig.working(concurrency=50):
        [failed] = await rig.happens(LeaseFailed)
        assert failed.limit == "rate:queue:calls"
        await asyncio.sleep(30)
        assert rig.heard(JobStarted) == []
        assert rig.calls("receive", QUEUE) == 0
        await rig.happens(JobCompleted, 50)
    assert {event.attempt for event in rig.heard(JobStarted)} == {1}


@pytest.mark.looptime
@pytest.mark.parametrize("on_exhausted", ["wait", "dead-letter"])
async def test_a_table_that_is_away_gives_up_no_retry_and_puts_none_off_for_long(
    on_exhausted: OnExhausted,
) -> None:
    budget = RetryBudget(100, scope="fleet", on_exhausted=on_exhausted)
    dependency = Dependency()
    rig, call = _calling(dependency, retry_budget=budget)
    rig.table.faults.raise_on(None, ServiceUnavailable("gone"), times=10_000)
    await rig.submit(call, *map(str, range(90)))
    async with rig.working(concurrency=100):
        await rig.happens(JobFailed, 90)
        dependency.is_up = True
        await rig.happens(JobCompleted, 90)
    assert rig.heard(BudgetSpent) == []


@without_threads
async def test_later_workers_get_their_share_of_an_exhausted_rate() -> None:
    rig = Rig(app := _app(rate_limit=RateLimit(90, scope="fleet")))
    await rig.submit(app.types["work"], *map(str, range(9000)))
    started: Counter[str] = Counter()

    def worker(name: str) -> Worker:
        def hear(event: Event) -> None:
            started[name] += isinstance(event, JobStarted)
            rig.hear(event)

        return _second(rig, name, hear, concurrency=50)

    workers = [worker("first")]
    tasks = [asyncio.create_task(workers[0].run())]
    await rig.happens(JobStarted, 900)
    for name in ("second", "third"):
        workers.append(worker(name))
        tasks.append(asyncio.create_task(workers[-1].run()))
    await asyncio.sleep(30)
    started.clear()
    await asyncio.sleep(30)
    assert sum(started.values()) == pytest.approx(30 * 90, rel=0.05)
    assert min(started.values()) > 0.25 * sum(started.values())
    for each in workers:
        each.stop()
    await asyncio.gather(*tasks)
