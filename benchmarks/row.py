"""A row of the report, and a plot of lines."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.targets import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table."""

    key: str
    title: str
    targets: tuple[Target, ...] = ()
    digits: int = 0
    plotted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One plot of lines, with a line for each contestant or kind."""

    key: str
    title: str
    x: str
    y: str
    is_logarithmic: bool = False
    """True if the horizontal axis is."""
