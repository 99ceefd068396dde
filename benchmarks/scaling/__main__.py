"""``python -m benchmarks.scaling``: scale the fleets, print and draw their courses.

The plot is kept in docs/images, for docs/worker-service.md.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.environments import ROOT, python_with
from benchmarks.report import PLOTS_REQUIREMENTS
from benchmarks.scaling.scenarios import PARTS, SCENARIOS, Scenario

_RESULTS = Path(__file__).parents[1] / "results"
_PLOTS = Path(__file__).with_name("plots.py")
_IMAGE = ROOT / "docs" / "images" / "scaling.png"

_SCALED, _IDEAL, _IN_PARTS = "tasks", "ideal", f"{PARTS} policies"

Courses = Mapping[str, Sequence[int]]
"""Numbers of tasks by minute, by fleet."""


def main() -> None:
    """Scale, print, draw."""
    courses = {scenario.title: courses_of(scenario) for scenario in SCENARIOS}
    _RESULTS.mkdir(exist_ok=True)
    path = _RESULTS / "scaling.json"
    path.write_text(json.dumps(courses))
    print(table(courses))
    python = python_with(PLOTS_REQUIREMENTS)
    subprocess.run([python, str(_PLOTS), str(path), str(_IMAGE)], check=True)  # noqa: S603 - our own script


def courses_of(scenario: Scenario) -> dict[str, list[int]]:
    """Return the tasks of each fleet under one load."""
    found = {_IDEAL: scenario.ideal(), _SCALED: scenario.scaled()}
    if scenario.groups > 1:
        found[_IN_PARTS] = scenario.in_parts(PARTS)
    return found


def table(courses: Mapping[str, Courses]) -> str:
    """Return the most tasks and the task hours of each fleet, as a Markdown table."""
    lines = ["| load | fleet | most tasks | task hours |", "|---|---|---|---|"]
    for title, fleets in courses.items():
        for name, tasks in fleets.items():
            lines.append(f"| {title} | {name} | {max(tasks)} | {sum(tasks) / 60:.0f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
