"""The measurements: one function each, all on a contestant's stage."""

from __future__ import annotations

import random
import statistics
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from benchmarks.contestants import Contestant
from benchmarks.processes import WorkerProcess
from benchmarks.stage import REGION, Stage
from benchmarks.tally import Mark, Tally
from headgate.jobs.aws.sqs.transport import SqsTransport
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.core.topology import Priority
from tests.support.proxy import ProxyProcess

URGENT = 1_000_000  # as in peers/common.py

_START_BOUND_S = 60.0
_REQUESTS_BOUND_S = 300.0
_FLUSH_BOUND_S = 15.0
_ENOUGH = 50
_WARM_UP_S = 0.5
"""Seconds left out at the start of a drain: first connections, and receivers still multiplying."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """The figures of one drain."""

    jobs_per_s: float
    cpu_s_per_1000: float | None
    """None if too few jobs were left to measure: a process's CPU time advances by 10 ms."""
    memory_mb: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Pickup:
    """Milliseconds from just before a message is sent until its job runs, in one round."""

    p50_ms: float
    p99_ms: float
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sustained:
    """The figures of a steady load."""

    jobs_per_s: float
    lost: int
    twice: int
    critical: Pickup
    memory_mb: float


_MIX = {
    Priority.CRITICAL: 0.05,
    Priority.HIGH: 0.25,
    Priority.NORMAL: 0.5,
    Priority.LOW: 0.2,
}
_APART = 200_000  # distance between the first numbers of two priorities; all are below URGENT


def submitted_requests(
    stage: Stage, proxy: ProxyProcess, jobs: int, command: Sequence[str] = ()
) -> Counter[str]:
    """Return the number of requests needed to submit that many jobs."""
    before = proxy.counts()
    stage.submit("drain", 0, jobs, proxy.endpoint_url, command)
    return proxy.counts() - before


def drained_requests(
    stage: Stage, proxy: ProxyProcess, bodies: Sequence[OutgoingMessage], jobs: int
) -> Counter[str]:
    """Return the number of requests that one worker needs to process them, its deletes included."""
    stage.clear("drain")
    (queue,) = stage.queues("drain")
    stage.load(queue, bodies, jobs)
    before = proxy.counts()
    with stage.working("drain", endpoint_url=proxy.endpoint_url) as (worker, tally):
        if not tally.wait(jobs, within_s=_REQUESTS_BOUND_S, check=worker.check):
            raise TimeoutError(f"{stage.contestant.name} ran {tally.count()} of {jobs} jobs")
        deadline = time.monotonic() + _FLUSH_BOUND_S
        while stage.depth(queue) and time.monotonic() < deadline:
            time.sleep(0.05)
        return proxy.counts() - before


def drain(
    stage: Stage,
    endpoint_url: str,
    bodies: Sequence[OutgoingMessage],
    *,
    jobs: int,
    seconds: float,
    job_s: float = 0,
    table: str | None = None,
) -> Drained:
    """Measure the speed at which one worker drains a queue, after a warm-up."""
    stage.clear("drain")
    (queue,) = stage.queues("drain")
    stage.load(queue, bodies, jobs)
    with stage.working("drain", endpoint_url=endpoint_url, job_s=job_s, table=table) as (
        worker,
        tally,
    ):
        _await_first(tally, worker)
        time.sleep(_WARM_UP_S)
        cpu_s, started, first = worker.cpu_s(), time.monotonic(), tally.count()
        tally.wait(jobs, within_s=seconds, check=worker.check)
        used_s, last = worker.cpu_s() - cpu_s, tally.count()
        memory_mb = worker.memory_mb()
        marks = tally.marks()
    after = [mark for mark in marks if mark.at >= started]
    return Drained(
        jobs_per_s=_rate(after if len(after) >= _ENOUGH else marks),
        cpu_s_per_1000=1000 * used_s / (last - first) if last - first >= _ENOUGH else None,
        memory_mb=memory_mb,
    )


def pickup(
    stage: Stage,
    endpoint_url: str,
    bodies: Mapping[str, Sequence[OutgoingMessage]],
    count: int,
    seed: int,
) -> Pickup:
    """Measure how soon an idle worker on four queues starts a job, whichever queue it comes to."""
    rng = random.Random(seed)  # noqa: S311 - spreads the sends
    queues = stage.queues("jobs")
    stage.clear("jobs")
    with (
        stage.working("jobs", endpoint_url=endpoint_url) as (worker, tally),
        SqsTransport(endpoint_url=endpoint_url, region=REGION) as sqs,
    ):
        for number, queue in enumerate(queues):  # each queue once, so that it polls all of them
            sqs.send(queue, [bodies[queue][count + number]])
        _await_count(tally, worker, len(queues))
        waits = []
        for number in range(count):
            time.sleep(rng.uniform(0.02, 0.05))
            before = time.monotonic()
            sqs.send(queues[number % len(queues)], [bodies[queues[number % len(queues)]][number]])
            _await_count(tally, worker, len(queues) + number + 1)
            waits.append(tally.marks()[-1].at - before)
    return _percentiles(waits)


_CRITICAL_EVERY_S = 0.25


def critical_pickup(
    stage: Stage,
    endpoint_url: str,
    bodies: Mapping[str, Sequence[OutgoingMessage]],
    count: int,
    low: int,
) -> Pickup:
    """Measure how soon a critical job starts while ``low`` jobs of a second each wait and run.

    Critical jobs take a second too, and come at four a second: of the five slots reserved for them
    at least one is then free. Jobs that come faster would wait for low jobs to end, as they should.
    """
    queues = stage.queues("jobs")
    stage.clear("jobs")
    stage.load(queues[list(Priority).index(Priority.LOW)], bodies["low"], low)
    with (
        stage.working("jobs", endpoint_url=endpoint_url, job_s=1) as (worker, tally),
        SqsTransport(endpoint_url=endpoint_url, region=REGION) as sqs,
    ):
        sqs.depth(queues[0])  # looks up the queue's URL, and opens the connection
        _await_first(tally, worker)
        sent: list[float] = []
        for message in bodies["critical"][:count]:
            sent.append(time.monotonic())
            sqs.send(queues[0], [message])
            time.sleep(_CRITICAL_EVERY_S)
        deadline = time.monotonic() + _START_BOUND_S
        while len(ran := _urgent(tally)) < count and time.monotonic() < deadline:
            worker.check()
            time.sleep(0.05)
    starts = {mark.number - URGENT: mark.at for mark in ran}
    return _percentiles([starts[number] - at for number, at in enumerate(sent) if number in starts])


def sustained(stage: Stage, server: str, *, jobs_per_s: int, seconds: float) -> Sustained:
    """Measure one worker under a steady load of all priorities; jobs are followed by number."""
    stage.clear("jobs")
    counts = [round(share * jobs_per_s * seconds) for share in _MIX.values()]
    specs = [
        f"{queue}:{index * _APART}:{count}"
        for index, (queue, count) in enumerate(zip(stage.queues("jobs"), counts, strict=True))
    ]
    with (
        stage.working("jobs", endpoint_url=server) as (worker, tally),
        stage.submitting(specs, server, seconds) as (submitter, sent),
    ):
        submitter.wait(seconds + _START_BOUND_S)
        tally.wait(sum(counts), within_s=_START_BOUND_S, check=worker.check)
        memory_mb = worker.memory_mb()
        submitted, ran = sent.marks(), tally.marks()
    starts = {mark.number: mark.at for mark in reversed(ran)}
    critical = [mark for mark in submitted if mark.number < _APART and mark.number in starts]
    return Sustained(
        jobs_per_s=_rate(ran),
        lost=len(submitted) - len(starts),
        twice=len(ran) - len(starts),
        critical=_percentiles([starts[mark.number] - mark.at for mark in critical]),
        memory_mb=memory_mb,
    )


def request_ms(endpoint_url: str, queue: str, count: int) -> float:
    """Return the median milliseconds of small requests, made one after the other."""
    taken = []
    with SqsTransport(endpoint_url=endpoint_url, region=REGION) as sqs:
        sqs.depth(queue)  # looks up the queue's URL, and opens the connection
        for _ in range(count):
            before = time.perf_counter()
            sqs.depth(queue)
            taken.append(time.perf_counter() - before)
    return statistics.median(taken) * 1000


def idle_requests(
    stages: Mapping[Contestant, Stage], server: str, seconds: float, settle_s: float
) -> dict[str, float]:
    """Return the requests per minute of idle workers on four queues, measured side by side."""
    with ExitStack() as stack:
        proxies = {}
        for contestant, stage in stages.items():
            stage.clear("jobs")
            proxy = proxies[contestant] = stack.enter_context(ProxyProcess(server))
            stack.enter_context(stage.working("jobs", endpoint_url=proxy.endpoint_url))
        time.sleep(settle_s)
        before = {contestant: proxy.counts() for contestant, proxy in proxies.items()}
        time.sleep(seconds)
        return {
            contestant.name: (proxy.counts() - before[contestant]).total() * 60 / seconds
            for contestant, proxy in proxies.items()
        }


def _await_first(tally: Tally, worker: WorkerProcess) -> None:
    _await_count(tally, worker, 1)


def _await_count(tally: Tally, worker: WorkerProcess, count: int) -> None:
    if not tally.wait(count, within_s=_START_BOUND_S, every_s=0.002, check=worker.check):
        raise TimeoutError(f"{tally.count()} of {count} jobs ran")


def _urgent(tally: Tally) -> list[Mark]:
    return [mark for mark in tally.marks() if mark.number >= URGENT]


def _rate(marks: Sequence[Mark]) -> float:
    if len(marks) < 2 or marks[-1].at == marks[0].at:
        return 0.0
    return (len(marks) - 1) / (marks[-1].at - marks[0].at)


def _percentiles(waits_s: Sequence[float]) -> Pickup:
    cuts = statistics.quantiles(waits_s, n=100, method="inclusive")
    return Pickup(p50_ms=cuts[49] * 1000, p99_ms=cuts[98] * 1000, samples=len(waits_s))
