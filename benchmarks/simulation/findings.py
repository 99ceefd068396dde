"""Figures derived from simulated hours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Hour = Mapping[str, Any]


def outage_calls(hour: Hour) -> int:
    """Return the calls that the service got while it refused everything."""
    start, end = map(int, hour["outage_s"])
    return int(sum(hour["calls"][start:end]))


def worst_second(hour: Hour, what: str, *, after_s: float = 0) -> int:
    """Return the highest count of any second."""
    return int(max(hour[what][int(after_s) :]))


def share_in_overload(hour: Hour, priority: str) -> float:
    """Return a priority's share of all starts while more jobs came than could be run.

    The overload's first two minutes are left out: the backlog has to build up.
    """
    start, end = (int(second) // 60 for second in hour["overload_s"])
    minutes = slice(start + 2, end)
    total = sum(sum(each["starts"][minutes]) for each in hour["priorities"].values())
    return float(sum(hour["priorities"][priority]["starts"][minutes]) / total)


def worst_wait_s(hour: Hour, priority: str, percent: int = 99) -> float:
    """Return the largest of all minutes' quantiles of the wait for the first start, in seconds."""
    waits = hour["priorities"][priority][f"waits_p{percent}_s"]
    return float(max(wait for wait in waits if wait is not None))


def table(hours: Mapping[str, Hour]) -> str:
    """Return all figures, as a Markdown table."""
    lines = ["| | " + " | ".join(hours) + " |", "|---" * (len(hours) + 1) + "|"]

    def row(title: str, *cells: object) -> None:
        lines.append(f"| {title} | " + " | ".join(map(str, cells)) + " |")

    row("jobs", *(f"{hour['submitted']:,}" for hour in hours.values()))
    row("completed", *(f"{hour['completed']:,}" for hour in hours.values()))
    row("dead", *(f"{hour['dead']:,}" for hour in hours.values()))
    row("calls during the outage", *(f"{outage_calls(hour):,}" for hour in hours.values()))
    row("most calls in a second", *(worst_second(hour, "calls") for hour in hours.values()))
    row("most retries in a second", *(worst_second(hour, "retries") for hour in hours.values()))
    for priority, told in next(iter(hours.values()))["priorities"].items():
        floor = f", at least {told['share']:.0%}" if told["share"] else ""
        row(
            f"{priority}: part of starts in overload{floor}",
            *(f"{share_in_overload(hour, priority):.1%}" for hour in hours.values()),
        )
    for priority, told in next(iter(hours.values()))["priorities"].items():
        within = told["start_within_s"]
        row(
            f"{priority}: worst minute's p99 wait (start within {within:g} s)",
            *(f"{worst_wait_s(hour, priority):.2f} s" for hour in hours.values()),
        )
    return "\n".join(lines)
