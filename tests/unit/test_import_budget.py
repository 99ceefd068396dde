"""The cost of imports, in modules of ours and dataclasses, stays within a budget.

These take most of the time of an import, and their numbers are the same on any machine.
`benchmarks.imports` measures the time itself.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

TOLERANCE = 0.1

BUDGETS = {
    "from headgate import App": (70, 38),
    "from headgate import App, Client": (127, 82),
    "import headgate.lambdas.bridge": (72, 54),
}
"""Modules of Headgate, and dataclasses, that an import in a new process makes."""

_COUNT = """
import dataclasses, json, sys
made, process = 0, dataclasses._process_class
def counted(cls, *args, **options):
    global made
    made += cls.__module__.startswith("headgate.")
    return process(cls, *args, **options)
dataclasses._process_class = counted
{statement}
modules = [name for name in sys.modules if name.partition(".")[0] == "headgate"]
print(json.dumps([len(modules), made, sorted(modules)]))
"""


@pytest.mark.parametrize("statement", BUDGETS)
def test_an_import_makes_no_more_modules_and_dataclasses_than_its_budget(statement: str) -> None:
    code = _COUNT.format(statement=statement)
    counted = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    modules, dataclasses, names = json.loads(counted.stdout)
    assert [modules, dataclasses] == pytest.approx(BUDGETS[statement], rel=TOLERANCE), (
        f"{statement}: {modules} modules and {dataclasses} dataclasses. What this doesn't need can "
        "be imported where it is used. Well below the budget, lower it. The modules:\n"
        + "\n".join(names)
    )
