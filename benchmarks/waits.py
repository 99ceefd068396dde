"""The parts of the benchmark that measure how soon a job starts after it was sent."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping

from benchmarks import rows
from benchmarks.contestants import (
    BARE,
    BARE_BOTO3,
    CELERY_PREFORK,
    DRAMATIQ,
    HEADGATE,
    TASKIQ,
    Contestant,
    in_turn,
)
from benchmarks.results import Collector
from benchmarks.rows import URGENT
from benchmarks.scale import Scale
from benchmarks.stage import Stage
from headgate.jobs.core.ports.transport import OutgoingMessage
from tests.support.proxy import ProxyProcess

ON_FOUR_QUEUES = (HEADGATE, CELERY_PREFORK, DRAMATIQ, TASKIQ, BARE, BARE_BOTO3)


class Waits:
    """These parts, on one server.

    Args:
        server: the server's URL.
        stages: all contestants' queues.
        scale: number of repetitions.
        results: collects the figures.
        say: receives progress messages.
    """

    def __init__(
        self,
        server: str,
        stages: Mapping[Contestant, Stage],
        scale: Scale,
        results: Collector,
        say: Callable[[str, str], None],
    ) -> None:
        self._server = server
        self._stages = stages
        self._scale = scale
        self._results = results
        self._say = say

    def pickup(self) -> None:
        """Measure an idle worker on four queues that gets one job after another."""
        count = self._scale.pickups
        bodies = {}
        for contestant in ON_FOUR_QUEUES:
            stage = self._stages[contestant]
            stage.clear("jobs")
            stage.submit("jobs", 0, count + 4, self._server)
            bodies[contestant] = {
                queue: stage.record(queue, count + 4) for queue in stage.queues("jobs")
            }
        for latency, endpoint_url, rounds in self._latencies():
            for seed, contestant in enumerate(in_turn(ON_FOUR_QUEUES, rounds)):
                self._say(f"pickup-{latency}", contestant.name)
                stage = self._stages[contestant]
                took = rows.pickup(stage, endpoint_url, bodies[contestant], count, seed)
                self._results.add(f"pickup-{latency}-p50", contestant.name, took.p50_ms)
                self._results.add(f"pickup-{latency}-p99", contestant.name, took.p99_ms)

    def critical(self) -> None:
        """Measure critical jobs on a worker with a long backlog of low jobs."""
        stage, count = self._stages[HEADGATE], max(10, self._scale.pickups // 2)
        stage.clear("jobs")
        stage.submit("jobs", URGENT, count, self._server)
        critical, *_, low_queue = stage.queues("jobs")
        bodies = {"critical": sorted(stage.record(critical, count), key=_number)}
        stage.clear("jobs")
        stage.submit("jobs", 0, count, self._server)
        bodies["low"] = stage.record(low_queue, count)
        for latency, endpoint_url, rounds in self._latencies():
            for _ in range(rounds):
                self._say(f"critical-{latency}", HEADGATE.name)
                took = rows.critical_pickup(stage, endpoint_url, bodies, count, self._scale.low)
                self._results.add(f"critical-{latency}-p50", HEADGATE.name, took.p50_ms)
                self._results.add(f"critical-{latency}-p99", HEADGATE.name, took.p99_ms)

    def _latencies(self) -> Iterable[tuple[int, str, int]]:
        """Yield each latency in ms, the URL with that latency, and the number of rounds."""
        with ProxyProcess(self._server) as proxy:
            for latency_ms in self._scale.latencies_ms:
                proxy.delay(latency_ms / 1000)
                if latency_ms:
                    yield latency_ms, proxy.endpoint_url, self._scale.few_rounds
                else:
                    yield latency_ms, self._server, self._scale.rounds


def _number(message: OutgoingMessage) -> int:
    """Return the number of a job that Headgate submitted."""
    number: int = json.loads(message.body)["payload"]["number"]
    return number
