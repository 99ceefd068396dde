"""The rows of the report, and what Headgate set out to reach in each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.contestants import BARE, HEADGATE, PEERS_ALONE
from benchmarks.results import Results


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One thing to reach; the bounds are inclusive."""

    text: str
    measure: Callable[[Results], float | None]
    """The figure that is judged; None when something that it needs was not measured."""
    at_most: float | None = None
    at_least: float | None = None
    when_missed: str = ""
    """Why it was not reached, as far as we know."""

    def verdict(self, results: Results) -> str:
        """``met``, ``not met``, or nothing when it was not measured."""
        value = self.measure(results)
        if value is None:
            return ""
        met = (self.at_most is None or value <= self.at_most) and (
            self.at_least is None or value >= self.at_least
        )
        reason = "" if met or not self.when_missed else f": {self.when_missed}"
        return f"{self.text}: **{'met' if met else 'not met'}** ({value:.3g}){reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table."""

    key: str
    title: str
    targets: tuple[Target, ...] = ()
    digits: int = 0
    plotted: bool = False


def _ours(row: str) -> Callable[[Results], float | None]:
    def measure(results: Results) -> float | None:
        figure = results.get(row, HEADGATE.name)
        return figure.median if figure else None

    return measure


def _best_peer(row: str, results: Results) -> float | None:
    medians = [
        figure.median
        for figure in results.of_row(row)
        if figure.contestant in {peer.name for peer in PEERS_ALONE}
    ]
    return max(medians, default=None)


def _times_best_peer(row: str) -> Callable[[Results], float | None]:
    def measure(results: Results) -> float | None:
        ours, best = _ours(row)(results), _best_peer(row, results)
        return ours / best if ours is not None and best else None

    return measure


def _of_bare(row: str) -> Callable[[Results], float | None]:
    def measure(results: Results) -> float | None:
        ours, bare = _ours(row)(results), results.get(row, BARE.name)
        return ours / bare.median if ours is not None and bare and bare.median else None

    return measure


def _above_server(row: str) -> Callable[[Results], float | None]:
    """Above the bare loop's median, which is the server's and the client library's own time."""

    def measure(results: Results) -> float | None:
        ours, floor = _ours(row)(results), results.get("pickup-p50", BARE.name)
        return ours - floor.median if ours is not None and floor else None

    return measure


ROWS = (
    Row(
        key="requests",
        title="SQS requests a no-op job: `submit_many` and one worker",
        targets=(Target(text="≤ 0.33", measure=_ours("requests"), at_most=0.33),),
        digits=3,
        plotted=True,
    ),
    Row(
        key="requests-single",
        title="the same, single concurrent `submit`s on `AsyncClient`",
        targets=(Target(text="≤ 0.45", measure=_ours("requests-single"), at_most=0.45),),
        digits=3,
    ),
    Row(
        key="drain-0",
        title="no-op jobs/s of one worker, no latency added",
        targets=(
            Target(text="≥ 0.7 of the bare loop", measure=_of_bare("drain-0"), at_least=0.7),
            Target(
                text="≥ 3 times the fastest peer", measure=_times_best_peer("drain-0"), at_least=3
            ),
        ),
        plotted=True,
    ),
    Row(
        key="drain-10",
        title="no-op jobs/s of one worker, 10 ms of latency",
        targets=(
            Target(
                text="≥ 4 times the fastest peer", measure=_times_best_peer("drain-10"), at_least=4
            ),
        ),
        plotted=True,
    ),
    Row(
        key="cpu",
        title="seconds of the worker's CPU for 1,000 no-op jobs",
        targets=(Target(text="≤ 0.2", measure=_ours("cpu"), at_most=0.2),),
        digits=2,
        plotted=True,
    ),
    Row(
        key="slots-0",
        title="jobs of 50 ms a second at 50 slots (1,000 possible), no latency added",
        targets=(Target(text="≥ 930", measure=_ours("slots-0"), at_least=930),),
        plotted=True,
    ),
    Row(
        key="slots-10",
        title="the same, 10 ms of latency",
        targets=(Target(text="≥ 850", measure=_ours("slots-10"), at_least=850),),
        plotted=True,
    ),
    Row(
        key="pickup-p50",
        title="ms from sending to running, idle worker on four queues, p50",
        targets=(
            Target(text="< 4 above the bare loop", measure=_above_server("pickup-p50"), at_most=4),
        ),
        digits=1,
        plotted=True,
    ),
    Row(
        key="pickup-p99",
        title="the same, p99",
        targets=(
            Target(
                text="< 10 above the bare loop's p50",
                measure=_above_server("pickup-p99"),
                at_most=10,
            ),
        ),
        digits=1,
    ),
    Row(
        key="critical-p50",
        title="ms from sending to running, critical job while 10,000 low ones of 1 s wait, p50",
    ),
    Row(
        key="critical-p99",
        title="the same, p99",
        targets=(
            Target(
                text="< 100",
                measure=_ours("critical-p99"),
                at_most=100,
            ),
        ),
    ),
    Row(
        key="sustained",
        title="jobs/s of one worker under a steady 1,000 a second of all priorities, 60 s",
        targets=(Target(text="≥ 990", measure=_ours("sustained"), at_least=990),),
    ),
    Row(
        key="sustained-lost",
        title="jobs lost of those 60,000",
        targets=(Target(text="none", measure=_ours("sustained-lost"), at_most=0),),
    ),
    Row(
        key="sustained-twice",
        title="jobs run twice of those",
        targets=(Target(text="none", measure=_ours("sustained-twice"), at_most=0),),
    ),
    Row(
        key="sustained-critical-p50",
        title="ms from sending to running of its 3,000 critical jobs, p50",
        digits=1,
    ),
    Row(
        key="sustained-critical-p99",
        title="the same, p99",
        targets=(
            Target(
                text="< 100, the server's own time included",
                measure=_ours("sustained-critical-p99"),
                at_most=100,
            ),
        ),
        digits=1,
    ),
    Row(key="sustained-memory", title="MB of its memory at the end (PSS)"),
    Row(
        key="idle",
        title="requests a minute of an idle worker on four queues",
        targets=(Target(text="≤ 12", measure=_ours("idle"), at_most=12),),
        plotted=True,
    ),
    Row(
        key="memory",
        title="MB of memory at 50 slots (PSS)",
        targets=(Target(text="< 100", measure=_ours("memory"), at_most=100),),
        plotted=True,
    ),
    Row(
        key="import-jobs",
        title="ms of `import jobs`",
        targets=(Target(text="< 150", measure=_ours("import-jobs"), at_most=150),),
    ),
    Row(
        key="import-bridge",
        title="ms of `import lambdas.bridge`",
        targets=(Target(text="< 500", measure=_ours("import-bridge"), at_most=500),),
    ),
    Row(key="proxy", title="ms of one small request of boto3's", digits=2),
)
