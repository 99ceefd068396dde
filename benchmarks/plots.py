"""Plots of results, drawn in an environment of their own, so that only it needs matplotlib.

``python plots.py results/latest.json KEY=TITLE ...`` writes one PNG per key next to the file; lines
are ``KEY=TITLE=X=Y=SCALE``, with the axes' labels and the scale of the horizontal one.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("agg")

from matplotlib import pyplot as plt


def draw(cells: list[dict[str, object]], title: str, path: Path) -> None:
    """Draw bars of medians, with lines from the smallest to the largest value."""
    names = [str(cell["contestant"]) for cell in cells]
    # Parsed from JSON, so its types are unknown; report.py wrote lists of numbers.
    values = [list(map(float, cell["values"])) for cell in cells]  # type: ignore[call-overload]  # JSON
    medians = [statistics.median(each) for each in values]
    spans = [
        [middle - min(each) for middle, each in zip(medians, values, strict=True)],
        [max(each) - middle for middle, each in zip(medians, values, strict=True)],
    ]
    colours = ["#1f6feb" if name == "headgate" else "#9aa4b2" for name in names]
    figure, axes = plt.subplots(figsize=(8, 0.5 * len(names) + 1.2))
    axes.barh(names, medians, xerr=spans, color=colours, error_kw={"ecolor": "#57606a"})
    axes.invert_yaxis()
    axes.set_title(title, fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def draw_lines(curves: list[dict[str, object]], told: list[str], path: Path) -> None:
    """Draw one line per contestant; ``told`` has the title, the axes' labels and the scale."""
    title, x, y, scale = told
    figure, axes = plt.subplots(figsize=(8, 4))
    for curve in curves:
        # Parsed from JSON, as above: pairs of numbers.
        counts, values = zip(*curve["points"], strict=True)  # type: ignore[misc]  # JSON
        ours = curve["contestant"] == "headgate"
        axes.plot(counts, values, label=curve["contestant"], linewidth=2.5 if ours else 1)
    axes.set_ylim(bottom=0)
    axes.set_xscale(scale)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.legend(fontsize=8)
    axes.set_title(title, fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main() -> None:
    """Draw the results that the command line names."""
    source = Path(sys.argv[1])
    results = json.loads(source.read_text())
    for argument in sys.argv[2:]:
        key, title, *axes = argument.split("=")
        path = source.with_name(f"{key}.png")
        if cells := [cell for cell in results["figures"] if cell["row"] == key]:
            draw(cells, title, path)
        if curves := [curve for curve in results["curves"] if curve["row"] == key]:
            draw_lines(curves, [title, *axes], path)


if __name__ == "__main__":
    main()
