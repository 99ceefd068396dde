"""The plot of scaled fleets, drawn in the environment that has matplotlib.

``python plots.py scaling.json scaling.png`` draws one panel for each load.
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

STYLES: dict[str, dict[str, Any]] = {
    "ideal": {"color": "#9aa4b2", "linestyle": "--", "linewidth": 1.4, "zorder": 3},
    "tasks": {"color": "#1f6feb", "linewidth": 1.8},
}
_OTHER: dict[str, Any] = {"color": "#cf222e", "linewidth": 1.0}


def main() -> None:
    """Draw the courses in a file."""
    source, image = map(Path, sys.argv[1:])
    courses = json.loads(source.read_text())
    figure, axes = plt.subplots(2, 2, figsize=(10, 6.4))
    for place, (title, fleets) in zip(axes.flat, courses.items(), strict=True):
        draw(place, title, fleets)
    figure.tight_layout()
    figure.savefig(image, dpi=110)
    plt.close(figure)


def draw(axes: Axes, title: str, fleets: dict[str, list[int]]) -> None:
    """Draw the tasks of each fleet over time."""
    for name, tasks in fleets.items():
        axes.step(range(len(tasks)), tasks, label=name, **STYLES.get(name, _OTHER))
    axes.set_title(title, fontsize=10)
    axes.set_xlabel("minutes", fontsize=8)
    axes.set_ylabel("tasks", fontsize=8)
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8)


if __name__ == "__main__":
    main()
