"""Jobs that can't start now: held within a quota, given back in time, and never in the way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from headgate import App, Backoff, Breaker, Concurrency, Priority, RateLimit, Retry
from headgate.jobs.core.events import JobCompleted, JobStarted
from headgate.jobs.core.retention import RecordsLevel
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.errors import ServiceUnavailable
from headgate.jobs.execution.delivery import Job
from headgate.workers.limits.guards import Block, Guard
from tests.unit.workers.rig import Note, Rig, without_threads

pytestmark = without_threads

QUEUE = "shop-calls-normal"
MINUTE = 60.0


class Shop:
    """A queue shared by jobs of a limited type and of a free one."""

    def __init__(self, takes_s: float, records: RecordsLevel = "outcomes", **limits: Any) -> None:
        self.app = App("shop", records=records)
        calls = self.app.queue("calls", priorities=[Priority.NORMAL])
        self.running = self.most = 0
        self.starts: list[float] = []
        self.call: Callable[[], Awaitable[None]] = self._sleep
        self._takes_s = takes_s

        @calls.job("limited", **limits)
        async def limited(_note: Note) -> None:
            self.starts.append(self.rig.clock.monotonic())
            self.running += 1
            self.most = max(self.most, self.running)
            try:
                await self.call()
            finally:
                self.running -= 1

        @calls.job("free")
        async def free(_note: Note) -> None: ...

        self.limited, self.free = limited, free
        self.rig = Rig(self.app)

    async def _sleep(self) -> None:
        await asyncio.sleep(self._takes_s)

    async def finish(self, count: int, **settings: Any) -> float:
        """Work until that many jobs are done; return the seconds that it took."""
        async with self.rig.working(**settings):
            began = self.rig.clock.monotonic()
            await self.rig.happens(JobCompleted, count)
            took_s = self.rig.clock.monotonic() - began
        assert self.rig.remaining() == 0
        return took_s


# --- jobs held by a limit finish about as soon as it allows --------------------------------------


async def test_jobs_behind_a_concurrency_of_one_follow_each_other_without_gaps() -> None:
    shop = Shop(10 * MINUTE, concurrency=Concurrency(1))
    await shop.rig.submit(shop.limited, *map(str, range(6)))
    took_s = await shop.finish(6)
    assert shop.most == 1
    assert took_s < 61 * MINUTE, took_s


async def test_jobs_behind_a_slow_rate_start_soon_after_each_token() -> None:
    shop = Shop(0, rate_limit=RateLimit(1, per=timedelta(minutes=5)))
    await shop.rig.submit(shop.limited, *map(str, range(40)))
    took_s = await shop.finish(40)
    assert took_s < 39 * 5 * MINUTE * 1.1, took_s


async def test_a_tenants_slots_are_used_while_its_jobs_wait() -> None:
    shop = Shop(3 * MINUTE, concurrency=Concurrency(2, key="tenant"))
    for tenant in ("one", "two"):
        await shop.rig.submit(shop.limited, *map(str, range(20)), tenant=tenant)
    took_s = await shop.finish(40)
    assert took_s < 10 * 3 * MINUTE * 1.1, took_s


async def test_what_an_open_breaker_held_back_runs_once_it_has_closed() -> None:
    breaker = Breaker(0.5, min_runs=4, open_for=timedelta(minutes=5), probes=2)
    retry = Retry(max_attempts=100, backoff=Backoff.fixed(10))
    shop = Shop(0, breaker=breaker, retry=retry)
    up = False

    async def call() -> None:
        if not up:
            raise ConnectionError

    shop.call = call
    await shop.rig.submit(shop.limited, *map(str, range(30)))
    async with shop.rig.working():
        await asyncio.sleep(120 * MINUTE)
        up = True
        began = shop.rig.clock.monotonic()
        await shop.rig.happens(JobCompleted, 30)
        assert shop.rig.clock.monotonic() - began < 13 * MINUTE
    assert shop.rig.remaining() == 0


async def test_isolated_jobs_beside_others_keep_their_children_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    children = _Children(2, takes_s=10 * MINUTE)
    monkeypatch.setattr("headgate.workers.parts.ChildPool", children)
    monkeypatch.setattr("headgate.workers.parts.app_path", lambda _app: "shop:app")
    app = App("shop")
    calls = app.queue("calls", priorities=[Priority.NORMAL])

    @calls.job("report", isolation="process")
    async def report(_note: Note) -> None: ...

    @calls.job("send-email")
    async def send_email(_note: Note) -> None: ...

    rig = Rig(app)
    await rig.submit(report, *map(str, range(10)))
    async with rig.working():
        for minute in range(50):
            await rig.submit(send_email)
            before = rig.clock.monotonic()
            await rig.happens(JobCompleted, minute + 1)
            assert rig.clock.monotonic() - before < 1.5
            await asyncio.sleep(MINUTE)
        await rig.happens(JobCompleted, 60)
        assert rig.clock.monotonic() < 52 * MINUTE
    assert rig.remaining() == 0


class _Children:
    """Replaces `ChildPool` by children that only take time."""

    def __init__(self, capacity: int, *, takes_s: float) -> None:
        self.capacity = capacity
        self._takes_s = takes_s

    def __call__(self, *_args: object, **_options: object) -> _Children:
        return self

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def call(self, *_args: object) -> None:
        await asyncio.sleep(self._takes_s)


# --- jobs that can't start block no others -------------------------------------------------------


def _all_priorities(app: App, slots: int) -> tuple[JobType[Note, Any], JobType[Note, Any]]:
    """Return two types of the app's own queue: one limited, an hour long, and a free one."""

    @app.job("long", concurrency=Concurrency(slots))
    async def long(_note: Note) -> None:
        await asyncio.sleep(60 * MINUTE)

    @app.job("urgent", priority=Priority.CRITICAL)
    async def urgent(_note: Note) -> None:
        await asyncio.sleep(10)

    return long, urgent


async def _urgent_start_at_once(rig: Rig, urgent: JobType[Note, Any], count: int) -> None:
    await asyncio.sleep(10 * MINUTE)
    free = 50 - (len(rig.heard(JobStarted)) - len(rig.heard(JobCompleted)))
    assert free >= count
    for _ in range(5):
        started, before = len(rig.heard(JobStarted)), rig.clock.monotonic()
        await rig.submit(urgent, *map(str, range(count)))
        await rig.happens(JobStarted, started + count)
        assert rig.clock.monotonic() - before < 0.5
        await asyncio.sleep(5 * MINUTE)


async def test_critical_jobs_start_at_once_whatever_waits_behind_fifo_groups() -> None:
    app = App("shop")
    books = app.queue("books", priorities=[Priority.NORMAL], fifo=True)

    @books.job("post", group_by=lambda note: note.text)
    async def post(_note: Note) -> None:
        await asyncio.sleep(60 * MINUTE)

    _, urgent = _all_priorities(app, 1)
    rig = Rig(app)
    for group in range(24):
        await rig.submit(post, *[str(group)] * 10)
    async with rig.working(concurrency=50, drain=timedelta(0)):
        await _urgent_start_at_once(rig, urgent, 26)


async def test_critical_jobs_start_at_once_whatever_is_blocked_in_other_queues() -> None:
    app = App("shop")
    _, urgent = _all_priorities(app, 1)
    rig = Rig(app)
    for number in range(15):
        queue = app.queue(f"calls-{number}", priorities=[Priority.HIGH])

        @queue.job(f"limited-{number}", concurrency=Concurrency(1))
        async def limited(_note: Note) -> None:
            await asyncio.sleep(60 * MINUTE)

        @queue.job(f"free-{number}")
        async def free(_note: Note) -> None: ...

    rig = Rig(app)
    for number in range(15):
        await rig.submit(app.types[f"limited-{number}"], *map(str, range(30)))
    async with rig.working(concurrency=50, drain=timedelta(0)):
        await _urgent_start_at_once(rig, urgent, 26)


async def test_critical_jobs_start_at_once_whatever_is_blocked_in_their_queue() -> None:
    app = App("shop")
    long, urgent = _all_priorities(app, 24)
    rig = Rig(app)
    await rig.submit(long, *map(str, range(100)), priority=Priority.CRITICAL)
    async with rig.working(concurrency=50, drain=timedelta(0)):
        await _urgent_start_at_once(rig, urgent, 26)


async def test_critical_jobs_start_at_once_though_settled_ones_can_not_be_parked() -> None:
    app = App("shop")
    mail = app.queue("mail", priorities=[Priority.NORMAL], retry=Retry(max_attempts=1))

    @mail.job("broken")
    async def broken(_note: Note) -> None:
        raise ValueError

    _, urgent = _all_priorities(app, 1)
    rig = Rig(app)
    rig.sqs.faults.raise_on(
        "send", ServiceUnavailable("down"), queue="shop-mail-normal-dlq", times=10**6
    )
    await rig.submit(broken, *map(str, range(300)))
    async with rig.working(concurrency=50, drain=timedelta(0)):
        await asyncio.sleep(5 * MINUTE)
        before = rig.clock.monotonic()
        await rig.submit(urgent)
        await rig.happens(JobCompleted)
        assert rig.clock.monotonic() - before < 11


async def test_a_tenants_flood_keeps_no_other_tenants_jobs_from_being_received() -> None:
    app = App("shop")
    calls = app.queue(
        "calls",
        priorities=[Priority.NORMAL],
        rate_limit=RateLimit(20),
        concurrency=Concurrency(1, key="tenant"),
    )

    @calls.job("call")
    async def call(note: Note) -> None:
        await asyncio.sleep(60 * MINUTE if note.text == "long" else 0)

    rig = Rig(app)
    await rig.submit(call, *["long"] * 100, tenant="flood")
    async with rig.working(concurrency=50, drain=timedelta(0)):
        await asyncio.sleep(10 * MINUTE)
        before = rig.clock.monotonic()
        await rig.submit(call, "quick", tenant="quiet")
        await rig.happens(JobCompleted)
        assert rig.clock.monotonic() - before < 2


async def test_one_types_limit_does_not_block_other_types_of_its_queue() -> None:
    app = App("shop")
    calls = app.queue("calls", priorities=[Priority.NORMAL])

    @calls.job("slow", concurrency=Concurrency(1))
    async def slow(_note: Note) -> None:
        await asyncio.sleep(60 * MINUTE)

    @calls.job("quick", concurrency=Concurrency(5))
    async def quick(_note: Note) -> None:
        await asyncio.sleep(1)

    rig = Rig(app)
    await rig.submit(slow, *map(str, range(50)))
    async with rig.working(concurrency=50, drain=timedelta(0)):
        await asyncio.sleep(10 * MINUTE)
        before = rig.clock.monotonic()
        await rig.submit(quick, *map(str, range(50)))
        await rig.happens(JobCompleted, 50)
        assert rig.clock.monotonic() - before < 20, "50 s of work in five slots"


# --- the cost ------------------------------------------------------------------------------------


async def test_a_queue_full_of_blocked_jobs_is_searched_for_others_at_a_bounded_pace() -> None:
    shop = Shop(60 * MINUTE, concurrency=Concurrency(1))
    rig = shop.rig
    await rig.submit(shop.limited, *map(str, range(2000)))
    await rig.submit(shop.free, *map(str, range(20)))
    async with rig.working(concurrency=50, drain=timedelta(0)):
        await rig.happens(JobCompleted, 20)
        assert rig.clock.monotonic() < 5 * MINUTE
        before = rig.calls("receive", QUEUE)
        await asyncio.sleep(10 * MINUTE)
        assert rig.calls("receive", QUEUE) - before <= 10 * MINUTE * 1.1
        receives = [message.receive_count for message in rig.sqs.messages(QUEUE)]
    assert max(receives) <= 10, "each stays away for longer and longer"


async def test_what_waits_for_limits_costs_the_jobs_beside_it_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shop = Shop(60 * MINUTE, concurrency=Concurrency(1, key="tenant"))
    rig, asked, block = shop.rig, 0, Guard.block

    def counted(guard: Guard, job: Job, now: float) -> Block | None:
        nonlocal asked
        asked += 1
        return block(guard, job, now)

    monkeypatch.setattr(Guard, "block", counted)
    for tenant in range(20):
        await rig.submit(shop.limited, "", "", "", tenant=f"tenant-{tenant}")
    async with rig.working(concurrency=50, drain=timedelta(0)):
        await rig.happens(JobStarted, 20)
        await asyncio.sleep(1)
        asked, before = 0, rig.clock.monotonic()
        for _ in range(50):
            await rig.submit(shop.free, *map(str, range(10)))
        await rig.happens(JobCompleted, 500)
        assert asked <= 20 * 10 * (rig.clock.monotonic() - before + 1), "by time, not by jobs"


async def test_a_limited_type_beside_a_free_one_nearly_reaches_its_rate() -> None:
    shop = Shop(0, rate_limit=RateLimit(50))
    for number in range(100):
        await shop.rig.submit(shop.limited, *[str(number)] * 10)
        await shop.rig.submit(shop.free, *[str(number)] * 10)
    took_s = await shop.finish(2000, concurrency=50)
    assert took_s < 1000 / 50 * 1.2


@pytest.mark.parametrize("records", ["off", "outcomes"])
@pytest.mark.parametrize("key", [None, "tenant"])
async def test_short_jobs_behind_a_limit_follow_each_other_at_once(
    key: Any, records: RecordsLevel
) -> None:
    shop = Shop(0.05, records=records, concurrency=Concurrency(2, key=key))
    for _ in range(20):
        await shop.rig.submit(shop.limited, *map(str, range(10)), tenant="org")
        await shop.rig.submit(shop.free, *map(str, range(2)))
    took_s = await shop.finish(240)
    assert took_s < 200 * 0.05 / 2 * 1.5, took_s


@pytest.mark.parametrize("records", ["off", "outcomes"])
async def test_short_isolated_jobs_beside_others_follow_each_other_at_once(
    monkeypatch: pytest.MonkeyPatch, records: RecordsLevel
) -> None:
    monkeypatch.setattr("headgate.workers.parts.ChildPool", _Children(2, takes_s=0.05))
    monkeypatch.setattr("headgate.workers.parts.app_path", lambda _app: "shop:app")
    shop = Shop(0, records=records, isolation="process")
    await shop.rig.submit(shop.limited, *map(str, range(100)))
    took_s = await shop.finish(100)
    assert took_s < 100 * 0.05 / 2 * 1.5, took_s


async def test_what_a_limit_holds_back_is_offered_to_other_workers() -> None:
    """Two workers, each of which runs one: neither keeps jobs that the other could run."""
    shop = Shop(10 * MINUTE, concurrency=Concurrency(1))
    await shop.rig.submit(shop.limited, *map(str, range(10)))
    other = shop.rig.worker()
    async with shop.rig.working():
        await asyncio.sleep(30)  # by now it has all of them
        run = asyncio.create_task(other.run())
        await shop.rig.happens(JobCompleted, 10)
        other.stop()
        await run
    assert shop.rig.clock.monotonic() < 65 * MINUTE, "100 min of work in two slots"
