"""``python -m benchmarks.war_story``: let the story happen both ways, print and draw the findings.

The plot is kept in docs/images, for docs/dead-letters.md.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.environments import ROOT, python_with
from benchmarks.report import PLOTS_REQUIREMENTS
from benchmarks.war_story.run import Way, tell

WAYS: tuple[Way, ...] = ("redrive", "replay")

_RESULTS = Path(__file__).parents[1] / "results"
_PLOTS = Path(__file__).with_name("plots.py")
_IMAGE = ROOT / "docs" / "images" / "war-story.png"


def main() -> None:
    """Simulate, print, draw."""
    with ProcessPoolExecutor(len(WAYS)) as pool:
        courses = dict(zip(WAYS, pool.map(tell, WAYS), strict=True))
    _RESULTS.mkdir(exist_ok=True)
    path = _RESULTS / "war-story.json"
    path.write_text(json.dumps(courses))
    print(table(courses))
    python = python_with(PLOTS_REQUIREMENTS)
    subprocess.run([python, str(_PLOTS), str(path), str(_IMAGE)], check=True)  # noqa: S603 - our own script


def table(courses: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the figures, as a Markdown table."""
    lines = ["| | " + " | ".join(courses) + " |", "|---" * (len(courses) + 1) + "|"]
    for title, key in (
        ("dead letters sent back", "sent_back"),
        ("delivered", "delivered"),
        ("died again", "died_again"),
        ("times that the endpoint fell over", "falls"),
    ):
        lines.append(_row(title, (each[key] for each in courses.values())))
    lines.append(_row("requests", (sum(each["requests"]) for each in courses.values())))
    lines.append(_row("most in a second", (max(each["requests"]) for each in courses.values())))
    lines.append(_row("seconds", (len(each["requests"]) for each in courses.values())))
    return "\n".join(lines)


def _row(title: str, values: Any) -> str:
    return f"| {title} | " + " | ".join(f"{value:,}" for value in values) + " |"


if __name__ == "__main__":
    main()
