"""What Headgate set out to reach, and how it is judged."""

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


def ours(row: str) -> Callable[[Results], float | None]:
    """Headgate's median."""

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


def times_best_peer(row: str) -> Callable[[Results], float | None]:
    """Headgate's median as a multiple of the fastest peer's."""

    def measure(results: Results) -> float | None:
        figure, best = results.get(row, HEADGATE.name), _best_peer(row, results)
        return figure.median / best if figure and best else None

    return measure


def of_bare(row: str) -> Callable[[Results], float | None]:
    """Headgate's median as a multiple of the bare loop's."""

    def measure(results: Results) -> float | None:
        figure, bare = results.get(row, HEADGATE.name), results.get(row, BARE.name)
        return figure.median / bare.median if figure and bare and bare.median else None

    return measure


def above_server(row: str, floor_row: str) -> Callable[[Results], float | None]:
    """Above the bare loop's median, which is the server's and the client library's own time."""

    def measure(results: Results) -> float | None:
        figure, floor = results.get(row, HEADGATE.name), results.get(floor_row, BARE.name)
        return figure.median - floor.median if figure and floor else None

    return measure


def worst(row: str) -> Callable[[Results], float | None]:
    """The largest value of all rounds: what must never happen is not judged by a median."""

    def measure(results: Results) -> float | None:
        figure = results.get(row, HEADGATE.name)
        return figure.high if figure else None

    return measure


def _fewest(row: str) -> Callable[[Results], float | None]:
    """The smallest value of all rounds."""

    def measure(results: Results) -> float | None:
        figure = results.get(row, HEADGATE.name)
        return figure.low if figure else None

    return measure


def again_beyond_running(results: Results) -> float | None:
    """By how many the jobs that ran again exceeded those that were running, at the worst kill."""
    again = results.get("kill-again", HEADGATE.name)
    running = results.get("kill-running", HEADGATE.name)
    if again is None or running is None:
        return None
    return max(each - bound for each, bound in zip(again.values, running.values, strict=True))


def none_ever(row: str) -> tuple[Target]:
    """Nothing of it in any round."""
    return (Target(text="none, ever", measure=worst(row), at_most=0),)


def exactly_one(row: str, what: str) -> tuple[Target, Target]:
    """One of it in every round."""
    return (
        Target(text=f"no second {what}", measure=worst(row), at_most=1),
        Target(text=f"one {what}", measure=_fewest(row), at_least=1),
    )
