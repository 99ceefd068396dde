"""``python -m benchmarks.instructions``: the instructions of a job, a submission and an import.

Each piece is counted in a process of its own, over real sockets to `tests.support.prompt_aws`, once
all that happens only at the start has happened. Two counts differ by a percent or two, whatever
else the machine does. `instructions.json` keeps the figures that
``tests/unit/test_instruction_budget.py`` holds the code to; ``--write`` writes them anew.

Python itself executes the same code in other instructions if it is another version, or built in
another way. So a *yardstick*, a piece of work without Headgate, is counted beside, and figures say
nothing where it takes another number.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from benchmarks.counted import PIECES, YARDSTICK
from benchmarks.counting import CpuCounter
from benchmarks.environments import ROOT
from benchmarks.stage import ACCOUNT
from tests.support.prompt_aws import PromptAws

KEPT = Path(__file__).with_suffix(".json")
BUDGETED = ("import", "submit", "drain")

_VALGRIND = (
    *("valgrind", "--tool=callgrind", "--instr-atstart=no"),
    "--callgrind-out-file=/dev/null",
)
_COLLECTED = re.compile(r"Collected : (\d+)")


class NoCounter(Exception):
    """Nothing counts instructions on this machine."""


def main() -> None:
    """Count, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=[*PIECES], default=[*PIECES])
    parser.add_argument(
        "--write", action="store_true", help=f"keep what has a budget, in {KEPT.name}"
    )
    options = parser.parse_args()
    kept = kept_figures()
    print("| 1,000 instructions | counted | kept |\n|---|---|---|")
    for name in options.only:
        figure = kept.get(name)
        was = "" if figure is None else f"{figure / 1000:,.1f}"
        print(f"| {name} | {instructions(name) / 1000:,.1f} | {was} |", flush=True)
    if options.write:
        figures = {name: round(instructions(name)) for name in (YARDSTICK, *BUDGETED)}
        KEPT.write_text(json.dumps(figures, indent=1) + "\n")


def kept_figures() -> Mapping[str, int]:
    """Return the instructions of each piece of work that has a budget, and of the yardstick."""
    figures: dict[str, int] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    return figures


def instructions(name: str) -> float:
    """Return the instructions that this piece of work takes each time.

    Raises:
        NoCounter: nothing counts them on this machine; says why.
    """
    kind = _counter()
    command = [sys.executable, "-m", "benchmarks.counted", name, kind]
    with PromptAws() as server:
        environment = os.environ | ACCOUNT
        environment |= {"PYTHONHASHSEED": "0", "AWS_ENDPOINT_URL": server.endpoint_url}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        compiles = [sys.executable, "-c", "from headgate import App"]
        subprocess.run(compiles, env=environment, cwd=ROOT, check=True)  # noqa: S603 - likewise
        ended = subprocess.run(  # noqa: S603 - our own
            [*(_VALGRIND if kind == "callgrind" else ()), *command],
            env=environment,
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    found = _COLLECTED.search(ended.stderr)
    if ended.returncode or found is None:
        raise RuntimeError(f"{name} was not counted:\n{ended.stderr}")
    return int(found[1]) / PIECES[name][1]


def _counter() -> str:
    """Return the name of the counter to use."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise NoCounter("instructions are counted on Linux, on x86_64, alone")
    try:
        CpuCounter()
    except OSError as error:
        if shutil.which("valgrind") is None:
            raise NoCounter(
                f"this process can't read the CPU's counter ({errno.errorcode[error.errno or 0]}), "
                "and valgrind, whose callgrind does without it, is not installed"
            ) from error
        return "callgrind"
    return "cpu"


if __name__ == "__main__":
    main()
