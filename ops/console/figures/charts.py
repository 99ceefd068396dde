"""Drawings by the server: curves, and the attempts of a failing job on a line of time."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, islice
from typing import Any

from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.deployment.retry_timeline import Planned, failures
from headgate.jobs.values.light_dataclass import light_dataclass

WIDTH, HEIGHT = 300.0, 48.0
"""The box of a curve, which the page stretches."""

_PAD = 2.0

LINE_WIDTH = 600.0
"""Width of the line of time, in the units of the drawing."""

MOST_SHOWN = 50
"""Number of attempts that are drawn."""

_TICKS = (1, 10, 60, 600, 3_600, 6 * 3_600, 86_400, 7 * 86_400, 30 * 86_400, 365 * 86_400)


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One curve of a chart, as SVG's ``points``."""

    points: str
    area: str
    """The same, closed along the bottom."""
    last: float
    most: float
    length_s: float
    """Seconds from the first value to the last."""


def curve(times: Sequence[float], values: Sequence[float], *, most: float | None = None) -> Curve:
    """Return the curve through values at times.

    Args:
        times: in seconds, ascending; the first is at the left edge, the last at the right.
        values: one for each time; 0 is the bottom.
        most: the value at the top; None is the largest value.
    """
    top = max(most or 0.0, *values, 1e-9) if values else 1.0
    begin, length = (times[0], (times[-1] - times[0]) or 1.0) if times else (0.0, 1.0)
    points = [
        (WIDTH * (at - begin) / length, HEIGHT - _PAD - (HEIGHT - 2 * _PAD) * value / top)
        for at, value in zip(times, values, strict=True)
    ]
    text = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    closed = f"0,{HEIGHT:g} {text} {WIDTH:g},{HEIGHT:g}" if points else ""
    return Curve(
        points=text,
        area=closed,
        last=values[-1] if values else 0.0,
        most=max(values, default=0.0),
        length_s=times[-1] - times[0] if times else 0.0,
    )


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """One attempt on the line of time."""

    planned: Planned
    x: float
    """The left end."""
    width: float
    busiest: int
    """The jobs that start in the busiest second, of those that failed at once."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A time written under the line."""

    x: float
    seconds: float


def bands(job: JobType[Any, Any], planned: Sequence[Planned], jobs: int) -> list[Band]:
    """Return the attempts to draw.

    Args:
        job: the type.
        planned: its attempts.
        jobs: the number of jobs that fail at once, each time at once.

    Raises:
        SettingsInvalid: a custom backoff failed.
    """
    shown = planned[:MOST_SHOWN]
    end = shown[-1].latest_s
    busiest = _busiest_seconds(job, len(shown), jobs)
    return [
        Band(
            planned=each,
            x=_place(each.earliest_s, end),
            width=max(3.0, _place(each.latest_s, end) - _place(each.earliest_s, end)),
            busiest=most,
        )
        for each, most in zip(shown, busiest, strict=True)
    ]


def ticks(planned: Sequence[Planned]) -> list[Tick]:
    """Return the times to write under the line."""
    end = planned[:MOST_SHOWN][-1].latest_s
    return [Tick(x=_place(each, end), seconds=each) for each in _TICKS if each <= end]


def _place(seconds: float, end: float) -> float:
    """Return the place of a time on the line, which is logarithmic: delays grow by factors."""
    return LINE_WIDTH * math.log1p(seconds) / math.log1p(end) if end else 0.0


def _busiest_seconds(job: JobType[Any, Any], attempts: int, jobs: int) -> list[int]:
    """Return, for each attempt, the jobs of its busiest second: the backoff itself is tried."""
    rng = random.Random(0)  # noqa: S311 - the same picture each time
    seconds: list[Counter[int]] = [Counter() for _ in range(attempts)]
    for _ in range(jobs):
        waits = islice(job.retry.backoff.delays(rng, like=failures(job)), attempts - 1)
        for counted, at in zip(seconds, accumulate(waits, initial=0.0), strict=True):
            counted[int(at)] += 1
    return [max(counted.values()) for counted in seconds]
