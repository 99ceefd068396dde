"""The cost of imports, in modules of ours, dataclasses and their methods, stays within a budget.

These take most of the time of an import, and their numbers are the same on any machine.
`benchmarks.imports` measures the time itself.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

TOLERANCE = 0.05

BUDGETS = {
    "from headgate import App": (72, 39, 57),
    "from headgate import App, Client": (139, 89, 111),
    "import headgate.lambdas.bridge": (75, 42, 51),
    "import headgate.ops.cli.main, headgate.ops.console.app": (335, 244, 273),
}
"""Modules of Headgate, dataclasses, and methods that are compiled for these, in a new process."""

MODELS = ("annotated_types", "pydantic.fields", "pydantic.types")
"""Modules that pydantic imports for the first model, which take a sixth of an app's import."""

_COUNT = """
import dataclasses, json, re, sys
made, compiled, counts, process = 0, 0, False, dataclasses._process_class
def counted(cls, *args, **options):
    global made, counts
    counts = cls.__module__.startswith("headgate.")
    made += counts
    return process(cls, *args, **options)
def executed(code, *spaces):
    global compiled
    compiled += counts * len(re.findall("def __(?!create_fn)", code))
    exec(code, *spaces)
dataclasses._process_class, dataclasses.exec = counted, executed
{statement}
modules = [name for name in sys.modules if name.partition(".")[0] == "headgate"]
print(json.dumps([len(modules), made, compiled, sorted(modules)]))
"""


@pytest.mark.parametrize("statement", BUDGETS)
def test_an_import_makes_no_more_than_its_budget(statement: str) -> None:
    code = _COUNT.format(statement=statement)
    counted = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    *made, names = json.loads(counted.stdout)
    modules, dataclasses, methods = made
    assert made == pytest.approx(BUDGETS[statement], rel=TOLERANCE), (
        f"{statement}: {modules} modules, {dataclasses} dataclasses and {methods} methods compiled "
        "for them (see `jobs.values.light_dataclass`). What this doesn't need can be imported "
        "where it is used. Well below the budget, lower it. The modules:\n" + "\n".join(names)
    )


def test_an_app_is_declared_without_what_pydantic_imports_for_models() -> None:
    code = """
import sys
from headgate import App
app = App("shop")
@app.job("sweep-stock")
def sweep_stock() -> None: ...
@app.job("count-stock")
def count_stock(shelves: dict[str, int]) -> None: ...
print(*sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert not set(run.stdout.split()) & {*MODELS}
