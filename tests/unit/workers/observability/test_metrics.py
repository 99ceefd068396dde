"""Metrics counted from events, and their cost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest
from aiohttp import ClientSession
from prometheus_client.parser import text_string_to_metric_families

from headgate import App, Backoff, Priority, Retry
from headgate.jobs.core.events import (
    BreakerClosed,
    BreakerOpened,
    BreakerProbing,
    Event,
    HeartbeatFailed,
    JobCompleted,
    JobDeadLettered,
    JobStarted,
    LoopBlocked,
    MessageUnrunnable,
    PollFailed,
    PollReceived,
    QueuePaused,
    QueueResumed,
    ReceiptLost,
    RecordsFailed,
)
from headgate.jobs.deployment.metric_names import COUNTED
from headgate.jobs.execution.outcome import Reason
from headgate.jobs.testing import Harness, VirtualClock
from headgate.jobs.values.own_version import own_version
from headgate.workers.observability.health import UNHEALTHY_AFTER_S, Health, Status
from headgate.workers.observability.health_server import Endpoint
from headgate.workers.observability.loop_lag import LagWatch
from headgate.workers.observability.prometheus import OUTCOMES, Metrics
from headgate.workers.observability.worker_gauges import WorkerGauges
from headgate.workers.worker import Worker
from tests.support.job_events import NOW, event_of
from tests.support.served_metrics import unread
from tests.unit.workers.rig import Note, Rig, one_lane

QUEUE = "shop-mail-normal"


def samples(metrics: Metrics) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Return every sample by its name and labels."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(metrics.text().decode())
        for sample in family.samples
    }


def value(metrics: Metrics, name: str, **labels: str) -> float:
    return samples(metrics)[name, frozenset(labels.items())]


def shop() -> App:
    app = App("shop")
    app.queue("mail").define("send", Note)
    return app


def gauges(worker: Worker, left: Mapping[str, float] | None = None) -> WorkerGauges:
    return WorkerGauges(active=worker.active, budgets=lambda: left or {}, depths=unread(), slots=50)


async def nothing_to_read() -> None:
    pass


def unrunnable(**fields: Any) -> MessageUnrunnable:
    named = {"message_id": "m", "job_id": None, "job_type": None, "detail": "", "receives": 1}
    return MessageUnrunnable(at=NOW, queue=QUEUE, **{**named, "retry_in_s": None, **fields})


def paused(**fields: Any) -> QueuePaused:
    until = NOW + timedelta(days=1)
    named = {"kind": "queue", "target": "mail", "since": NOW, "until": until}
    return QueuePaused(at=NOW, **{**named, "reason": "", "actor": "", **fields})


@pytest.mark.looptime
async def test_a_worker_s_jobs_are_counted_by_type_and_outcome() -> None:
    app, queue = one_lane(Retry(max_attempts=2, backoff=Backoff.fixed(1)))

    @queue.job("good")
    async def good(_note: Note) -> None:
        await asyncio.sleep(2)

    @queue.job("bad")
    async def bad(_note: Note) -> None:
        raise ConnectionError("down")

    metrics = Metrics(app)
    rig = Rig(app)
    rig.subscribers.append(metrics)
    await rig.submit(good, "a", "b")
    await rig.submit(bad)
    async with rig.working() as worker:
        metrics.watch(gauges(worker))
        await rig.happens(JobDeadLettered)
        await rig.happens(JobCompleted, 2)
    assert value(metrics, "headgate_jobs_started_total", type="good", queue="mail") == 2
    assert value(metrics, "headgate_jobs_started_total", type="bad", queue="mail") == 2
    assert value(metrics, "headgate_jobs_total", type="good", outcome="completed") == 2
    assert value(metrics, "headgate_jobs_total", type="bad", outcome="failed") == 2
    assert value(metrics, "headgate_jobs_total", type="bad", outcome="retried") == 1
    assert value(metrics, "headgate_jobs_total", type="bad", outcome="dead_lettered") == 1
    assert value(metrics, "headgate_job_duration_seconds_count", type="good") == 2
    assert value(metrics, "headgate_job_duration_seconds_bucket", type="good", le="1.0") == 0
    assert value(metrics, "headgate_job_duration_seconds_bucket", type="good", le="2.5") == 2
    assert value(metrics, "headgate_job_wait_seconds_count", priority="normal") == 3
    assert value(metrics, "headgate_messages_received_total", queue=QUEUE) >= 4
    assert value(metrics, "headgate_settlement_batch_size_count", action="delete") >= 1


@pytest.mark.looptime
async def test_what_runs_now_is_told_when_somebody_looks() -> None:
    app, queue = one_lane()
    let_go = asyncio.Event()

    @queue.job("slow")
    async def slow(_note: Note) -> None:
        await let_go.wait()

    metrics = Metrics(app)
    rig = Rig(app)
    await rig.submit(slow, "a", "b")
    async with rig.working() as worker:
        metrics.watch(gauges(worker, left={"budget:queue:mail": 7}))
        await rig.happens(JobStarted, 2)
        await asyncio.sleep(1)
        assert value(metrics, "headgate_jobs_active", type="slow", queue="mail") == 2
        assert value(metrics, "headgate_budget_left", limit="budget:queue:mail") == 7
        let_go.set()
        await rig.happens(JobCompleted, 2)
        await asyncio.sleep(1)
        assert ("headgate_jobs_active", frozenset({("type", "slow")})) not in samples(metrics)


def test_every_outcome_has_an_event_and_a_counter_of_its_own() -> None:
    metrics = Metrics(shop())
    assert len(set(OUTCOMES.values())) == len(OUTCOMES)
    metrics(event_of(JobDeadLettered, reason="r", error_type="E", error_message="m"))
    assert value(metrics, "headgate_jobs_total", type="send", outcome="dead_lettered") == 1


def test_a_breaker_s_state_is_a_number() -> None:
    metrics = Metrics(shop())
    opened = BreakerOpened(at=NOW, limit="breaker:type:pay", failures=9, runs=10, open_for_s=30)
    metrics(opened)
    assert value(metrics, "headgate_breaker_state", limit="breaker:type:pay") == 2
    metrics(BreakerProbing(at=NOW, limit="breaker:type:pay"))
    assert value(metrics, "headgate_breaker_state", limit="breaker:type:pay") == 1


def test_the_open_ones_among_the_breakers_of_many_keys_are_counted() -> None:
    metrics, limit = Metrics(shop()), "breaker:type:call"
    for key in ("one", "two"):
        metrics(BreakerOpened(at=NOW, limit=limit, key=key, failures=9, runs=10, open_for_s=30))
    metrics(BreakerProbing(at=NOW, limit=limit, key="one"))
    assert value(metrics, "headgate_breaker_keys_open", limit=limit) == 2
    metrics(BreakerClosed(at=NOW, limit=limit, key="one"))
    assert value(metrics, "headgate_breaker_keys_open", limit=limit) == 1


def test_what_is_paused_is_1_until_it_is_resumed() -> None:
    metrics = Metrics(shop())
    labels = {"kind": "queue", "target": "mail", "priority": "low"}
    metrics(paused(priority=Priority.LOW))
    assert value(metrics, "headgate_paused", **labels) == 1
    metrics(QueueResumed(at=NOW, kind="queue", target="mail", priority=Priority.LOW))
    assert value(metrics, "headgate_paused", **labels) == 0


def test_paused_tenants_are_counted_and_never_named() -> None:
    metrics = Metrics(shop())
    for tenant in ("acme", "initech", "acme"):
        metrics(paused(kind="tenant", target=tenant))
    assert value(metrics, "headgate_tenants_paused") == 2
    metrics(QueueResumed(at=NOW, kind="tenant", target="acme"))
    assert value(metrics, "headgate_tenants_paused") == 1
    assert "acme" not in metrics.text().decode()


def test_what_a_message_says_of_itself_makes_no_series_of_its_own() -> None:
    metrics = Metrics(shop())
    for number in range(20):
        metrics(unrunnable(job_type=f"made-up-{number}", reason="unknown-type"))
        metrics(unrunnable(job_type="send", reason=f"reason-{number}"))
        metrics(paused(target=f"queue-{number}"))
    counted = {name: n for name, n in samples(metrics).items() if name[0].endswith("able_total")}
    name = "headgate_messages_unrunnable_total"
    assert len(counted) == 2
    assert value(metrics, name, queue=QUEUE, type="unknown", reason="unknown-type") == 20
    assert value(metrics, name, queue=QUEUE, type="send", reason="unknown") == 20
    assert value(metrics, "headgate_paused", kind="queue", target="unknown", priority="all") == 1


def test_every_reason_for_which_a_message_is_not_run_is_a_label() -> None:
    metrics = Metrics(shop())
    for reason in Reason:
        metrics(unrunnable(job_type="send", reason=str(reason)))
    assert 'reason="unknown"' not in metrics.text().decode()


def test_a_worker_shows_its_version_and_its_slots() -> None:
    metrics = Metrics(shop())
    metrics.watch(
        WorkerGauges(active=list, budgets=dict, depths=unread(), slots=7, app_version="v3")
    )
    assert value(metrics, "headgate_worker_slots") == 7
    labels = {"version": own_version(), "app_version": "v3"}
    assert value(metrics, "headgate_worker_info", **labels) == 1


# --- CloudWatch ----------------------------------------------------------------------------------


def test_prometheus_and_cloudwatch_count_the_same_events_by_like_names() -> None:
    def camel(outcome: str) -> str:
        return "Jobs" + "".join(word.capitalize() for word in outcome.split("_"))

    assert {kind: camel(outcome) for kind, outcome in OUTCOMES.items()} == COUNTED


# --- health --------------------------------------------------------------------------------------


def polled(queue: str = QUEUE) -> PollReceived:
    return PollReceived(at=NOW, queue=queue, messages=0, took_s=20)


FAILED_POLL = PollFailed(at=NOW, queue=QUEUE, error="AWS is away", retry_in_s=1)


def test_what_is_paused_is_shown_with_its_reason_and_is_healthy() -> None:
    health = Health([QUEUE], clock=VirtualClock())
    health(paused(reason="a flood"))
    health(paused(kind="tenant", target="acme"))
    [check] = [each for each in health.assess().checks if each.name == "pauses"]
    assert check.status is Status.HEALTHY
    until = "until 2026-05-05T00:00:00Z"
    assert check.detail == f"queue mail {until}: a flood; tenant acme {until}"
    health(QueueResumed(at=NOW, kind="queue", target="mail"))
    [check] = [each for each in health.assess().checks if each.name == "pauses"]
    assert check.detail == f"tenant acme {until}"


def test_a_worker_whose_queues_answer_is_healthy() -> None:
    clock = VirtualClock()
    health = Health([QUEUE], clock=clock)
    clock.advance(UNHEALTHY_AFTER_S)
    health(polled())
    assert health.assess().status is Status.HEALTHY


def test_a_queue_that_fails_degrades_the_worker_until_it_answers_again() -> None:
    health = Health([QUEUE, "other"], clock=VirtualClock())
    health(PollFailed(at=NOW, queue="other", error="the queue does not exist", retry_in_s=1))
    assessed = health.assess()
    assert assessed.status is Status.DEGRADED
    assert "does not exist" in str(assessed.checks)
    health(polled("other"))
    assert health.assess().status is Status.HEALTHY


def test_a_worker_that_no_queue_has_answered_for_a_minute_is_unhealthy() -> None:
    clock = VirtualClock()
    health = Health([QUEUE], clock=clock)
    health(FAILED_POLL)
    clock.advance(UNHEALTHY_AFTER_S + 1)
    assert health.assess().status is Status.UNHEALTHY


@pytest.mark.parametrize(
    "event",
    [
        HeartbeatFailed(at=NOW, queue=QUEUE, error="reset", messages=3),
        ReceiptLost(at=NOW, queue=QUEUE, message_id="m", error="it has expired"),
        RecordsFailed(at=NOW, action="read", job_id="j", error="throttled"),
        LoopBlocked(at=NOW, blocked_s=4, job_types=("send",)),
        BreakerOpened(at=NOW, limit="breaker:app", failures=9, runs=10, open_for_s=30),
    ],
    ids=lambda event: event.name,
)
def test_what_fails_beside_the_queues_degrades(event: Event) -> None:
    health = Health([QUEUE], clock=VirtualClock())
    health(event)
    assert health.assess().status is Status.DEGRADED


def test_one_open_breaker_among_those_of_many_keys_degrades_nothing() -> None:
    health = Health([QUEUE], clock=VirtualClock())
    health(polled())
    limit = "breaker:type:call"
    health(BreakerOpened(at=NOW, limit=limit, key="one", failures=9, runs=10, open_for_s=30))
    assert health.assess().status is Status.HEALTHY


def test_a_failure_is_forgotten_after_a_minute() -> None:
    clock = VirtualClock()
    health = Health([QUEUE], clock=clock)
    health(HeartbeatFailed(at=NOW, queue=QUEUE, error="reset", messages=3))
    clock.advance(61)
    health(polled())
    assert health.assess().status is Status.HEALTHY


# --- the server ----------------------------------------------------------------------------------


async def get(port: int, path: str) -> tuple[int, str]:
    async with ClientSession() as http, http.get(f"http://127.0.0.1:{port}{path}") as answer:
        return answer.status, await answer.text()


async def test_the_server_tells_health_readiness_and_metrics() -> None:
    ready = True
    health, metrics = Health([QUEUE], clock=VirtualClock()), Metrics(shop())
    metrics(event_of(JobCompleted, ran_s=1))
    endpoint = Endpoint(health, metrics, ready=lambda: ready, refresh=nothing_to_read, port=0)
    await endpoint.start()
    try:
        assert await statuses(endpoint) == {"healthz": 200, "startupz": 503, "readyz": 503}
        health(polled())
        assert await statuses(endpoint) == {"healthz": 200, "startupz": 200, "readyz": 200}
        status, body = await get(endpoint.port, "/metrics")
        assert status == 200
        assert 'headgate_jobs_total{outcome="completed",type="send"} 1.0' in body
        ready = False
        assert await statuses(endpoint) == {"healthz": 200, "startupz": 200, "readyz": 503}
    finally:
        await endpoint.close()
    await endpoint.close()


async def test_an_outage_makes_a_worker_unready_and_restarts_none() -> None:
    clock = VirtualClock()
    health, metrics = Health([QUEUE], clock=clock), Metrics(shop())
    endpoint = Endpoint(health, metrics, ready=lambda: True, refresh=nothing_to_read, port=0)
    await endpoint.start()
    try:
        health(polled())
        health(FAILED_POLL)
        clock.advance(UNHEALTHY_AFTER_S + 1)
        assert await statuses(endpoint) == {"healthz": 200, "startupz": 200, "readyz": 503}
        for path in ("/healthz", "/readyz"):
            told = json.loads((await get(endpoint.port, path))[1])
            assert told["status"] == "unhealthy"
            assert "AWS is away" in str(told["checks"])
    finally:
        await endpoint.close()


async def statuses(endpoint: Endpoint) -> dict[str, int]:
    paths = ("healthz", "startupz", "readyz")
    return {path: (await get(endpoint.port, f"/{path}"))[0] for path in paths}


async def test_a_port_that_is_taken_is_the_configuration_s_fault() -> None:
    from headgate.jobs.errors import ConfigurationError

    health, metrics = Health([QUEUE], clock=VirtualClock()), Metrics(shop())
    first = Endpoint(health, metrics, ready=lambda: True, refresh=nothing_to_read, port=0)
    await first.start()
    second = Endpoint(health, metrics, ready=lambda: True, refresh=nothing_to_read, port=first.port)
    with pytest.raises(ConfigurationError, match="--health-port"):
        await second.start()
    await first.close()


# --- the loop ------------------------------------------------------------------------------------


@pytest.mark.looptime
async def test_a_handler_that_blocks_the_loop_is_told_of_with_what_ran() -> None:
    jobs = Harness(App("shop"))
    clock, happened = _StallingClock(), asyncio.Event()
    events: list[Event] = []

    def hear(event: Event) -> None:
        events.append(event)
        happened.set()

    from headgate.jobs.core.events import Events

    watch = LagWatch(clock=clock, events=Events(hear), running=lambda: ["send", "count"])
    run = asyncio.create_task(watch.run())
    await asyncio.sleep(5)
    assert events == []
    clock.stalled_s += 4  # as if an iteration of the loop had taken that long
    await asyncio.wait_for(happened.wait(), 60)
    run.cancel()
    [blocked] = events
    assert isinstance(blocked, LoopBlocked)
    assert blocked.job_types == ("count", "send")
    assert blocked.blocked_s == pytest.approx(4, abs=0.01)
    assert jobs.events == []


class _StallingClock:
    """The loop's clock, which a test can advance ahead of the loop."""

    def __init__(self) -> None:
        self.stalled_s = 0.0

    def now(self) -> datetime:
        return NOW

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time() + self.stalled_s
