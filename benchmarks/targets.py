"""Headgate's targets, and the rules by which they are judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.contestants import BARE, HEADGATE, PEERS_ALONE, Contestant
from benchmarks.results import Results


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One target; its bounds are inclusive."""

    text: str
    measure: Callable[[Results], float | None]
    """Returns the judged figure; None if something it needs was not measured."""
    at_most: float | None = None
    at_least: float | None = None

    def verdict(self, results: Results) -> str:
        """Return ``met``, ``not met``, or nothing if it was not measured."""
        value = self.measure(results)
        if value is None:
            return ""
        met = (self.at_most is None or value <= self.at_most) and (
            self.at_least is None or value >= self.at_least
        )
        return f"{self.text}: **{'met' if met else 'not met'}** ({value:.3g})"


def ours(row: str) -> Callable[[Results], float | None]:
    """Return a measure: Headgate's median."""

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
    """Return a measure: Headgate's median as a multiple of the fastest peer's."""

    def measure(results: Results) -> float | None:
        figure, best = results.get(row, HEADGATE.name), _best_peer(row, results)
        return figure.median / best if figure and best else None

    return measure


def of_bare(
    row: str, *, bare_row: str = "", bare: Contestant = BARE
) -> Callable[[Results], float | None]:
    """Return a measure: Headgate's median as a multiple of the bare loop's.

    Args:
        row: the row of Headgate's figure.
        bare_row: the row of the other one, where it is another row.
        bare: the loop without a library.
    """

    def measure(results: Results) -> float | None:
        figure, floor = results.get(row, HEADGATE.name), results.get(bare_row or row, bare.name)
        return figure.median / floor.median if figure and floor and floor.median else None

    return measure


def times_row(row: str, other: str) -> Callable[[Results], float | None]:
    """Return a measure: Headgate's median as a multiple of its own in another row."""

    def measure(results: Results) -> float | None:
        figure, base = results.get(row, HEADGATE.name), results.get(other, HEADGATE.name)
        return figure.median / base.median if figure and base and base.median else None

    return measure


def above_bare(row: str) -> Callable[[Results], float | None]:
    """Return a measure: Headgate's median minus the bare loop's.

    The bare loop's is the server's and the client library's own time.
    """

    def measure(results: Results) -> float | None:
        figure, floor = results.get(row, HEADGATE.name), results.get(row, BARE.name)
        return figure.median - floor.median if figure and floor else None

    return measure


def worst(row: str) -> Callable[[Results], float | None]:
    """Return a measure: the largest value of all rounds, for what must never happen."""

    def measure(results: Results) -> float | None:
        figure = results.get(row, HEADGATE.name)
        return figure.high if figure else None

    return measure


def _fewest(row: str) -> Callable[[Results], float | None]:
    """Return a measure: the smallest value of all rounds."""

    def measure(results: Results) -> float | None:
        figure = results.get(row, HEADGATE.name)
        return figure.low if figure else None

    return measure


def again_beyond_running(results: Results) -> float | None:
    """Return the excess of jobs that ran again over those that were running, at the worst kill."""
    again = results.get("kill-again", HEADGATE.name)
    running = results.get("kill-running", HEADGATE.name)
    if again is None or running is None:
        return None
    return max(each - bound for each, bound in zip(again.values, running.values, strict=True))


def none_ever(row: str) -> tuple[Target]:
    """Return a target of none in any round."""
    return (Target(text="none, ever", measure=worst(row), at_most=0),)


def exactly_one(row: str, what: str) -> tuple[Target, Target]:
    """Return targets of exactly one in every round."""
    return (
        Target(text=f"no second {what}", measure=worst(row), at_most=1),
        Target(text=f"one {what}", measure=_fewest(row), at_least=1),
    )
