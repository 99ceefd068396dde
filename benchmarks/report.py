"""Results as a table, as plots, and as a section of the README.

``python -m benchmarks.report`` shows `results/latest.json` again; with ``--write`` it also writes
it into `README.md`, between the two markers.
"""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.contestants import ALL
from benchmarks.environments import ROOT, python_with
from benchmarks.results import Figure, Results
from benchmarks.row import Row
from benchmarks.table import CURVES, ROWS

_HERE = Path(__file__).parent
_LATEST = _HERE / "results" / "latest.json"
_README = _HERE / "README.md"
PLOTS_REQUIREMENTS = _HERE / "plots.txt"
_BEGIN, _END = "<!-- results -->\n", "<!-- end of results -->\n"


def save(results: Results) -> None:
    """Save results, and draw them."""
    results.write(_LATEST)
    plotted = [f"{row.key}={_plain(row.title)}" for row in ROWS if row.plotted]
    for each in CURVES:
        scale = "log" if each.is_logarithmic else "linear"
        plotted.append("=".join((each.key, each.title, each.x, each.y, scale)))
    subprocess.run(  # noqa: S603 - our own script in an environment of our own
        [python_with(PLOTS_REQUIREMENTS), str(_HERE / "plots.py"), str(_LATEST), *plotted],
        check=True,
        cwd=ROOT,
    )


def show(results: Results) -> None:
    """Print results as a table."""
    table = Table("what", "who", "median", "range", "target", title=_circumstances(results))
    for row in ROWS:
        targets = [target.verdict(results) for target in row.targets]
        for index, figure in enumerate(results.of_row(row.key)):
            title = _plain(row.title) if index == 0 else ""
            verdicts = _plain("\n".join(filter(None, targets))) if index == 0 else ""
            table.add_row(
                title, figure.contestant, _median(row, figure), _range(row, figure), verdicts
            )
        table.add_section()
    Console().print(table)


def write_into_readme(results: Results) -> None:
    """Replace the README's section of results.

    Raises:
        ValueError: the README has lost its markers.
    """
    before, _, rest = _README.read_text().partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not end:
        raise ValueError(f"{_README.name} lacks the markers {_BEGIN.strip()} {_END.strip()}")
    section = "\n".join(_markdown(results))
    _README.write_text(f"{before}{_BEGIN}{section}\n{_END}{after}")


def _markdown(results: Results) -> Iterator[str]:
    yield f"{_circumstances(results)}."
    yield ""
    versions = (f"{name} {number}" for name, number in results.measured["versions"].items())
    yield f"Versions: {', '.join(versions)}."
    yield ""
    measured = {figure.contestant for figure in results.figures}
    contestants = [each for each in ALL if each.name in measured]
    yield from (f"- **{each.name}**: {each.settings}." for each in contestants)
    yield ""
    names = [each.name for each in contestants]
    yield f"| median (range) | {' | '.join(names)} |"
    yield f"|---|{'---|' * len(names)}"
    for row in ROWS:
        cells = [results.get(row.key, name) for name in names]
        if any(cells):
            texts = [
                f"{_median(row, cell)} ({_range(row, cell)})" if cell else "" for cell in cells
            ]
            yield f"| {row.title} | {' | '.join(texts)} |"
    yield ""
    yield "What Headgate set out to reach, and what came of it:"
    yield ""
    for row in ROWS:
        for target in row.targets:
            if verdict := target.verdict(results):
                yield f"- {row.title}: {verdict}"
    yield from _proxy(results)


def _proxy(results: Results) -> Iterator[str]:
    if figures := list(results.of_row("proxy")):
        yield ""
        yield "What the proxy itself costs, in ms of one small request of boto3's: "
        yield "; ".join(f"{each.contestant} {each.median:.2f}" for each in figures) + "."


def _circumstances(results: Results) -> str:
    told = results.measured
    return (
        f"`{told['command']}` on {told['date']}: {told['machine']}, {told['server']}, "
        f"{told['took_s'] / 60:.0f} min"
    )


def _median(row: Row, figure: Figure) -> str:
    return f"{figure.median:,.{row.digits}f}"


def _range(row: Row, figure: Figure) -> str:
    return f"{figure.low:,.{row.digits}f} to {figure.high:,.{row.digits}f}"


def _plain(text: str) -> str:
    return text.replace("`", "").replace("**", "")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report")
    parser.add_argument("--write", action="store_true", help="into README.md as well")
    latest = Results.read(_LATEST)
    if parser.parse_args().write:
        write_into_readme(latest)
    show(latest)
