"""Plot of the story, drawn in the environment that has matplotlib.

``python plots.py war-story.json war-story.png``
"""

from __future__ import annotations

import json
import sys
from itertools import accumulate
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")

from matplotlib import pyplot as plt

COLOURS = {"redrive": "#cf222e", "replay": "#1f6feb"}
LABELS = {"redrive": "AWS's redrive, at its full rate", "replay": "replay with spread and canary"}


def main() -> None:
    """Draw the courses in a file."""
    source, image = map(Path, sys.argv[1:])
    courses = json.loads(source.read_text())
    figure, (above, below) = plt.subplots(2, 1, figsize=(9, 5.2), sharex=True)
    longest = max(len(course["requests"]) for course in courses.values())
    for way, course in courses.items():
        requests = _filled(course["requests"], longest)
        above.plot(
            _minutes(longest), requests, color=COLOURS[way], label=LABELS[way], linewidth=0.9
        )
        delivered = [*accumulate(_filled(course["deliveries"], longest))]
        below.plot(_minutes(longest), delivered, color=COLOURS[way], label=LABELS[way])
    most = next(iter(courses.values()))["most_per_s"]
    above.axhline(most, color="#57606a", linestyle="--", linewidth=0.8, label="falls over above")
    above.set_yscale("symlog", linthresh=10)
    above.set_ylim(bottom=0)
    above.set_title("Requests a second to the endpoint", fontsize=10)
    below.set_title("Webhooks delivered", fontsize=10)
    below.set_xlabel("minutes after the endpoint is back")
    for axes in (above, below):
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(image, dpi=110)
    plt.close(figure)


def _filled(counts: list[int], length: int) -> list[int]:
    return counts + [0] * (length - len(counts))


def _minutes(length: int) -> list[Any]:
    return [second / 60 for second in range(length)]


if __name__ == "__main__":
    main()
