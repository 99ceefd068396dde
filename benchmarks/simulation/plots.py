"""Plots of simulated hours, drawn in the environment that has matplotlib.

``python plots.py simulation.json`` writes its PNGs next to the file.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

COLOURS = {"critical": "#cf222e", "high": "#bf8700", "normal": "#1f6feb", "low": "#57606a"}
_SMOOTH_S = 10


def main() -> None:
    """Draw the hours in a file."""
    source = Path(sys.argv[1])
    hours = json.loads(source.read_text())["hours"]
    draw_calls(hours, source.with_name("simulation-downstream.png"))
    draw_retries(hours, source.with_name("simulation-retries.png"))
    draw_shares(hours["protected"], source.with_name("simulation-shares.png"))
    draw_waits(hours["protected"], source.with_name("simulation-waits.png"))


def draw_calls(hours: dict[str, Any], path: Path) -> None:
    """Draw the load of the service that all jobs call."""
    figure, axes = _figure("Calls a second to the service that all jobs need", hours["protected"])
    _line(axes, hours["bare"]["calls"], "retries alone", "#cf222e")
    _line(axes, hours["protected"]["calls"], "breaker and retry budget", "#1f6feb")
    _save(figure, axes, path)


def draw_retries(hours: dict[str, Any], path: Path) -> None:
    """Draw the retries per second, which cluster unless they are spread."""
    figure, axes = _figure("Retries a second", hours["protected"])
    _line(axes, hours["no-jitter"]["retries"], "no jitter", "#9aa4b2", smooth_s=1)
    _line(axes, hours["bare"]["retries"], "full jitter", "#cf222e", smooth_s=1)
    _line(axes, hours["protected"]["retries"], "breaker and retry budget", "#1f6feb", smooth_s=1)
    _save(figure, axes, path)


def draw_shares(hour: dict[str, Any], path: Path) -> None:
    """Draw each priority's share of all starts, and its floor."""
    figure, axes = _figure("Part of all starts by priority (dashed: guaranteed share)", hour)
    totals = [
        sum(each) or 1 for each in zip(*(p["starts"] for p in _priorities(hour)), strict=True)
    ]
    for name, priority in hour["priorities"].items():
        parts = [count / all_ for count, all_ in zip(priority["starts"], totals, strict=True)]
        axes.plot(range(len(parts)), parts, label=name, color=COLOURS[name])
        if priority["share"]:
            axes.axhline(priority["share"], color=COLOURS[name], linestyle="--", linewidth=0.8)
    _save(figure, axes, path)


def draw_waits(hour: dict[str, Any], path: Path) -> None:
    """Draw the waits of jobs for their first start, with their targets."""
    figure, axes = _figure("Wait for the first start, p99 in s (dashed: start within)", hour)
    for name, priority in hour["priorities"].items():
        waits = [None if wait is None else max(wait, 1e-3) for wait in priority["waits_p99_s"]]
        axes.plot(range(len(waits)), waits, label=name, color=COLOURS[name])
        if priority["start_within_s"]:
            axes.axhline(
                priority["start_within_s"], color=COLOURS[name], linestyle="--", linewidth=0.8
            )
    axes.set_yscale("log")
    _save(figure, axes, path)


def _priorities(hour: dict[str, Any]) -> list[dict[str, Any]]:
    return list(hour["priorities"].values())


def _figure(title: str, hour: dict[str, Any]) -> tuple[Any, Axes]:
    figure, axes = plt.subplots(figsize=(9, 3.6))
    axes.set_title(title, fontsize=10)
    axes.set_xlabel("minutes")
    for name, (start_s, end_s), colour in (
        ("overload", hour["overload_s"], "#fff1c2"),
        ("outage", hour["outage_s"], "#ffd9d6"),
    ):
        axes.axvspan(start_s / 60, end_s / 60, color=colour, label=name, zorder=0)
    return figure, axes


def _line(
    axes: Axes, per_second: list[int], label: str, colour: str, *, smooth_s: int = _SMOOTH_S
) -> None:
    starts = range(0, len(per_second) - smooth_s + 1, smooth_s)
    means = [sum(per_second[start : start + smooth_s]) / smooth_s for start in starts]
    axes.plot([start / 60 for start in starts], means, label=label, color=colour, linewidth=0.9)


def _save(figure: Any, axes: Axes, path: Path) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, ncols=3)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    main()
