"""Charts as lines in a box of ``WIDTH`` by ``HEIGHT``, which the page stretches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 300.0, 48.0

_PAD = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One curve of a chart, as SVG's ``points``."""

    points: str
    area: str
    """The same, closed along the bottom."""
    last: float
    most: float


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
    )
