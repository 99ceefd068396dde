"""``python -m benchmarks.simulation``: simulate the hours, print and draw the findings."""

from __future__ import annotations

import argparse
import json
import subprocess
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.environments import python_with
from benchmarks.report import PLOTS_REQUIREMENTS
from benchmarks.simulation import findings
from benchmarks.simulation.run import simulate
from benchmarks.simulation.world import Scenario

SCENARIOS = (
    Scenario(name="protected", protected=True),
    Scenario(name="bare"),
    Scenario(name="no-jitter", jitter=None),
)
"""The same hour three times: all protections, retries with jitter alone, and without."""

_RESULTS = Path(__file__).parents[1] / "results"
_PLOTS = Path(__file__).with_name("plots.py")


def main() -> None:
    """Simulate, print, draw."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulation", description=__doc__)
    parser.add_argument(
        "--scale", type=float, default=1.0, help="a part of the jobs and the slots, to save time"
    )
    options = parser.parse_args()
    with ProcessPoolExecutor(2) as pool:
        hours = pool.map(simulate, [each.scaled(options.scale) for each in SCENARIOS])
        results: dict[str, Any] = {hour["scenario"]: hour for hour in hours}
    path = _RESULTS / "simulation.json"
    path.write_text(json.dumps({"hours": results}))
    print(findings.table(results))
    python = python_with(PLOTS_REQUIREMENTS)
    subprocess.run([python, str(_PLOTS), str(path)], check=True)  # noqa: S603 - our own script


if __name__ == "__main__":
    main()
