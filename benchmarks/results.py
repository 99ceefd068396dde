"""Figures, with the circumstances needed to judge them: date, machine and versions."""

from __future__ import annotations

import json
import os
import platform
import re
import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.environments import PEERS

_PINNED = re.compile(r"^([a-z0-9._-]+)(?:\[.*\])?==(\S+)", re.MULTILINE)
_NAMED = ("celery", "kombu", "dramatiq", "dramatiq-sqs", "taskiq", "taskiq-aio-sqs", "aiobotocore")


@dataclass(frozen=True, slots=True)
class Figure:
    """One cell of the table: a contestant's values in a row, one per round."""

    row: str
    contestant: str
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median of the values."""
        return statistics.median(self.values)

    @property
    def low(self) -> float:
        """The smallest value."""
        return min(self.values)

    @property
    def high(self) -> float:
        """The largest value."""
        return max(self.values)


@dataclass(frozen=True, slots=True)
class Curve:
    """The course of a contestant's figure within one round."""

    row: str
    contestant: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Everything that one run measured."""

    measured: Mapping[str, Any]
    """Date, command, machine, versions."""
    figures: tuple[Figure, ...]
    curves: tuple[Curve, ...] = ()

    def get(self, row: str, contestant: str) -> Figure | None:
        """Return a cell, or None if it was not measured."""
        for figure in self.figures:
            if (figure.row, figure.contestant) == (row, contestant):
                return figure
        return None

    def of_row(self, row: str) -> Iterator[Figure]:
        """Yield all cells of a row."""
        return (figure for figure in self.figures if figure.row == row)

    def write(self, path: Path) -> None:
        """Save the results as JSON."""
        path.parent.mkdir(exist_ok=True)
        cells = [
            {"row": each.row, "contestant": each.contestant, "values": list(each.values)}
            for each in self.figures
        ]
        data = {"measured": self.measured, "figures": cells}
        # One curve per line: hundreds of points would bury the figures.
        curves = ",\n  ".join(json.dumps(asdict(curve)) for curve in self.curves)
        text = json.dumps(data, indent=1).removesuffix("\n}")
        path.write_text(f'{text},\n "curves": [\n  {curves}\n ]\n}}\n')

    @classmethod
    def read(cls, path: Path) -> Results:
        """Read the results that `write` saved."""
        data = json.loads(path.read_text())
        figures = tuple(
            Figure(cell["row"], cell["contestant"], tuple(cell["values"]))
            for cell in data["figures"]
        )
        curves = tuple(
            Curve(each["row"], each["contestant"], tuple((x, y) for x, y in each["points"]))
            for each in data.get("curves", ())
        )
        return cls(measured=data["measured"], figures=figures, curves=curves)


@dataclass(slots=True)
class Collector:
    """Collects values while they are measured."""

    _values: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    _curves: list[Curve] = field(default_factory=list)

    def add(self, row: str, contestant: str, value: float) -> None:
        """Add one round's value."""
        self._values.setdefault((row, contestant), []).append(round(value, 4))

    def add_curve(self, row: str, contestant: str, points: Iterable[tuple[float, float]]) -> None:
        """Add a curve, to be drawn as a line."""
        self._curves.append(Curve(row, contestant, tuple((x, round(y, 2)) for x, y in points)))

    def last(self, row: str, contestant: str) -> float | None:
        """Return the latest value of a cell."""
        values = self._values.get((row, contestant))
        return values[-1] if values else None

    def finish(self, command: str, *, server: str, took_s: float) -> Results:
        """Return the results, with the circumstances."""
        measured = {
            "date": datetime.now(UTC).date().isoformat(),
            "command": command,
            "took_s": round(took_s),
            "server": server,
            "machine": _machine(),
            "versions": _versions(),
        }
        figures = tuple(Figure(*cell, tuple(found)) for cell, found in self._values.items())
        return Results(measured=measured, figures=figures, curves=tuple(self._curves))


def _machine() -> str:
    cpu = platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists() and (model := re.search(r"model name\s*: (.+)", info.read_text())):
        cpu = model[1].strip()
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores of {cpu}, {memory_gb:.0f} GB, {platform.system()}"


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "headgate": version("headgate")}
    for path in sorted(PEERS.glob("*.txt")):
        pinned = dict(_PINNED.findall(path.read_text()))
        found |= {name: pinned[name] for name in _NAMED if name in pinned}
    return found
