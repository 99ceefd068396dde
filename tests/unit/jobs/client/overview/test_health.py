"""``client.health()``: each reason, alone, and what is no reason."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from headgate import App, AsyncClient, Client, Priority, Schedule
from headgate.infra import (
    ConsumerGroup,
    Deployment,
    QueueThresholds,
    Thresholds,
    WorkerGroup,
)
from headgate.jobs.client.overview.health import SystemHealth, SystemState
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.errors import AccessDenied, Throttled
from headgate.jobs.records.fleet.worker_status import LimitState, status_item
from headgate.testing import MemoryBackend
from tests.support.clients import Kind, awaited
from tests.support.statuses import STATUS

HIGH, LOW = "shop-mail-high", "shop-mail-low"
ON_LAMBDA = Deployment(
    workers=(WorkerGroup(priorities=(Priority.HIGH,)),),
    consumers=(ConsumerGroup(name="slow", handler="shop.slow", priorities=(Priority.LOW,)),),
)


class Shop:
    """An app with two queues, one worker that polls both, and a client."""

    def __init__(self, kind: Kind) -> None:
        app = App("shop")
        mail = app.queue("mail", priorities=[Priority.HIGH, Priority.LOW])

        @mail.job("send", priority=Priority.HIGH)
        def send() -> None: ...

        @mail.job("charge", priority=Priority.LOW, alert_at_once=True)
        def charge() -> None: ...

        self.send = send
        self.backend = backend = MemoryBackend(app)
        self.client = AsyncClient(app, backend=backend)
        if kind == "Client":
            self.client = awaited(Client(app, backend=backend))

    async def work(self, **fields: Any) -> None:
        """Have a worker that polls both queues."""
        polls = {"mail": [Priority.HIGH, Priority.LOW]}
        calm = replace(STATUS, seen_at=self.backend.clock.now(), polls=polls, limits={}, pauses=())
        await self.backend.table.put([status_item(replace(calm, **fields))])

    async def wait(self, queue: str, jobs: int = 1) -> None:
        """Have jobs wait in a queue."""
        for _ in range(jobs):
            await self.backend.sqs.send(queue, [OutgoingMessage(body="{}")])

    async def health(self, deployment: Deployment | None = None) -> SystemHealth:
        return await self.client.health(deployment)


@pytest.fixture
def shop(kind: Kind) -> Shop:
    return Shop(kind)


def told(found: SystemHealth) -> list[tuple[str, str | None, str]]:
    return [(each.state.value, each.queue, each.text) for each in found.reasons]


async def test_a_system_with_workers_and_nothing_late_is_healthy(shop: Shop) -> None:
    await shop.work()
    await shop.wait(HIGH)
    found = await shop.health()
    assert (found.state, told(found), found.pauses, found.unknown) == ("healthy", [], (), {})


async def test_paused_schedules_are_named_and_are_no_reason(shop: Shop) -> None:
    schedules, send = shop.client.schedules, shop.send
    for name in ("hourly", "nightly"):
        hourly = Schedule.rate(timedelta(hours=1))
        await schedules.create(name, send, schedule=hourly)
    await schedules.pause("nightly")
    found = await shop.health()
    assert (found.state, found.paused_schedules, found.unknown) == ("healthy", ["nightly"], {})


async def test_schedules_that_can_not_be_read_are_unknown_and_hide_nothing(shop: Shop) -> None:
    await shop.wait(HIGH)
    shop.backend.scheduler.error = AccessDenied("not yours")
    found = await shop.health()
    assert (found.state, found.unknown) == ("degraded", {"schedules": "not yours"})


async def test_an_idle_system_without_workers_is_healthy(shop: Shop) -> None:
    assert (await shop.health()).state is SystemState.HEALTHY


async def test_jobs_that_nobody_is_known_to_work_on_degrade_it(shop: Shop) -> None:
    await shop.wait(HIGH, 2)
    text = (
        f"2 jobs wait in {HIGH}, and no live worker polls it; whether a Lambda function does is "
        "unknown"
    )
    assert told(await shop.health()) == [("degraded", HIGH, text)]


async def test_jobs_that_no_worker_polls_and_no_function_consumes_make_it_unhealthy(
    shop: Shop,
) -> None:
    await shop.wait(HIGH)
    await shop.wait(LOW)
    found = await shop.health(ON_LAMBDA)
    assert told(found) == [
        ("unhealthy", HIGH, f"1 job waits in {HIGH}, and no live worker polls it")
    ], "a function consumes the other queue"


async def test_whether_anybody_receives_is_told_by_cloudwatch_where_it_can_be_asked(
    shop: Shop,
) -> None:
    await shop.wait(HIGH)
    await shop.wait(LOW)
    shop.backend.metrics.put(HIGH, "NumberOfEmptyReceives", 0, 0)
    shop.backend.metrics.put(LOW, "NumberOfEmptyReceives", 0, 3)
    text = f"1 job waits in {HIGH}, and nobody has received from it for minutes"
    assert told(await shop.health()) == [("unhealthy", HIGH, text)]


async def test_a_paused_queue_is_named_and_is_no_reason(shop: Shop) -> None:
    await shop.wait(HIGH)
    shop.backend.metrics.put(HIGH, "ApproximateAgeOfOldestMessage", 7200)
    pause = await shop.client.pauses.create(queue="mail", priority="high")
    found = await shop.health()
    assert (found.state, found.pauses) == ("healthy", [pause])


@pytest.mark.parametrize(
    ("age_s", "state", "said"),
    [
        (60, "healthy", []),
        (61, "degraded", ["is 0:01:01 old, and jobs have to start within 0:01:00"]),
        (1801, "unhealthy", ["is 0:30:01 old: more than 0:30:00"]),
    ],
)
async def test_an_old_job_counts_by_its_priority_and_by_the_alarm_s_threshold(
    shop: Shop, age_s: int, state: str, said: list[str]
) -> None:
    await shop.work()
    await shop.wait(HIGH)
    shop.backend.metrics.put(HIGH, "ApproximateAgeOfOldestMessage", age_s)
    found = await shop.health()
    assert found.state == state
    assert [each.text for each in found.reasons] == [
        f"the oldest job of {HIGH} {text}" for text in said
    ]


async def test_a_long_job_is_not_late_while_none_waits(shop: Shop) -> None:
    await shop.work()
    shop.backend.metrics.put(HIGH, "ApproximateAgeOfOldestMessage", 7200)
    assert (await shop.health()).state is SystemState.HEALTHY


async def test_depth_dead_letters_and_the_quarantine_count_from_the_alarms_thresholds(
    shop: Shop,
) -> None:
    await shop.work()
    few = Deployment(alarms=Thresholds(depth=2, dead_letters=1))
    for queue in (HIGH, f"{HIGH}-dlq", f"{LOW}-dlq"):
        await shop.wait(queue, 1)
    assert told(await shop.health(few)) == [("degraded", LOW, f"1 dead letter of {LOW}")]
    for queue in (HIGH, HIGH, f"{HIGH}-dlq", "shop-quarantine"):
        await shop.wait(queue, 1)
    assert told(await shop.health(few)) == [
        ("degraded", HIGH, f"3 jobs wait in {HIGH}"),
        ("degraded", HIGH, f"2 dead letters of {HIGH}"),
        ("degraded", LOW, f"1 dead letter of {LOW}"),
        (
            "degraded",
            "shop-quarantine",
            "1 job in quarantine: it killed workers again and again",
        ),
    ]


@pytest.mark.parametrize("own_is", ["stricter", "looser"])
async def test_a_queue_s_own_thresholds_count_for_it_as_for_its_alarms(
    shop: Shop, own_is: str
) -> None:
    await shop.work()
    for queue in (HIGH, HIGH, f"{HIGH}-dlq", f"{HIGH}-dlq"):
        await shop.wait(queue)
    shop.backend.metrics.put(HIGH, "ApproximateAgeOfOldestMessage", 61)
    low: dict[str, Any] = {"depth": 1, "oldest": 60, "dead_letters": 1}
    high: dict[str, Any] = {"depth": 9, "oldest": 3600, "dead_letters": 9}
    own, others = (low, high) if own_is == "stricter" else (high, low)
    alarms = Thresholds(**others, queues={"mail": QueueThresholds(**own)})
    late = f"the oldest job of {HIGH} is 0:01:01 old"
    assert told(await shop.health(Deployment(alarms=alarms))) == (
        [
            ("unhealthy", HIGH, f"{late}: more than 0:01:00"),
            ("degraded", HIGH, f"2 jobs wait in {HIGH}"),
            ("degraded", HIGH, f"2 dead letters of {HIGH}"),
        ]
        if own_is == "stricter"
        else [("degraded", HIGH, f"{late}, and jobs have to start within 0:01:00")]
    )


async def test_an_open_breaker_degrades_it(shop: Shop) -> None:
    await shop.work(limits={"breaker:type:send": LimitState.OPEN, "rate:app": LimitState.HOLDING})
    assert told(await shop.health()) == [
        ("degraded", None, "breaker:type:send is open at 1 of 1 workers")
    ]


async def test_a_queue_that_does_not_exist_makes_it_unhealthy_and_comes_first(shop: Shop) -> None:
    await shop.wait(LOW)
    del shop.backend.sqs._queues[HIGH]
    first, second = told(await shop.health())
    assert first == ("unhealthy", HIGH, f"the queue {HIGH} doesn't exist")
    assert second[:2] == ("degraded", LOW)


async def test_an_sqs_that_can_not_be_asked_makes_it_unhealthy(shop: Shop) -> None:
    shop.backend.sqs.faults.raise_on("depth", Throttled("Rate exceeded"), times=9)
    assert told(await shop.health()) == [("unhealthy", None, "SQS can't be asked: Rate exceeded")]


async def test_a_cloudwatch_that_may_not_be_asked_counts_neither_way(shop: Shop) -> None:
    await shop.work()
    await shop.wait(HIGH)
    shop.backend.metrics.fail(AccessDenied("not allowed"))
    found = await shop.health()
    assert (found.state, found.unknown) == ("healthy", {"metrics": "not allowed"})


async def test_a_table_that_can_not_be_read_degrades_it_and_says_nothing_of_workers(
    shop: Shop,
) -> None:
    await shop.wait(HIGH)
    shop.backend.table.faults.raise_on(None, Throttled("busy"), times=2)
    found = await shop.health()
    assert told(found) == [("degraded", None, "the table can't be read: busy")]
    assert found.unknown == {"workers": "busy", "pauses": "busy"}


async def test_an_old_status_does_not_count_as_a_worker(shop: Shop) -> None:
    await shop.work(seen_at=shop.backend.clock.now() - timedelta(minutes=5))
    await shop.wait(HIGH)
    assert (await shop.health()).state is SystemState.DEGRADED
