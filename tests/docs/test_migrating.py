"""The tables of docs/migrating: what they tell a reader to write runs, piece by piece."""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from headgate import App, JobContext
from headgate.testing import Deferred, Discarded, Done, Failed, Harness
from tests.docs.commands import unknown_options

FOLDER = Path(__file__).parents[2] / "docs" / "migrating"
PAGES = sorted(FOLDER.glob("*.md"))
SIGNALS = {"raise RetryLater": Deferred, "raise Discard": Discarded, "raise ": Failed}
"""The outcome of a piece of code that begins so; that of all others is `Done`."""


def pieces() -> Iterator[tuple[str, str]]:
    """Yield the code in the last column of each table, with its page."""
    for page in PAGES:
        for row in re.findall(r"^\| (.*) \|$", page.read_text(), re.MULTILINE):
            last = re.split(r"(?<!\\) \| ", row)[-1]
            yield from ((page.stem, code) for code in re.findall(r"`([^`]+)`", last))


PIECES = [*dict.fromkeys(pieces())]
COMMANDS = [each for each in PIECES if each[1].startswith("headgate ")]
CODE = [each for each in PIECES if each not in COMMANDS]


IMPORTS = """
from datetime import UTC, datetime, timedelta
from headgate import *
from headgate.testing import Harness
"""
"""The names that a table takes for granted."""


@pytest.fixture(scope="module")
def modules() -> Iterator[dict[str, ModuleType]]:
    """Each page's blocks, run in order, with what its tables use."""
    made = {}
    for page in PAGES:
        module = made[page.stem] = ModuleType(f"migrating_from_{page.stem.replace('-', '_')}")
        sys.modules[module.__name__] = module  # annotations are looked up there
        for block in (IMPORTS, *re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)):
            exec(compile(block, module.__name__, "exec"), vars(module))  # noqa: S102 - it is ours
    yield made
    for module in made.values():
        del sys.modules[module.__name__]


def function_of(code: str, module: ModuleType) -> Any:
    """Return a coroutine function ``(ctx)`` with a piece of code as its body."""
    if code.startswith("@"):
        code += "\ndef declared() -> None: ..."
    body = textwrap.indent(code, "    ")
    exec(f"async def piece(ctx):\n{body}\n", vars(module))  # noqa: S102 - it is ours
    return vars(module)["piece"]


@pytest.mark.parametrize(("page", "code"), CODE)
async def test_what_a_table_tells_to_write_runs_in_a_handler(
    page: str, code: str, modules: dict[str, ModuleType]
) -> None:
    module = modules[page]
    app: App = module.app
    function = function_of(code, module)

    @app.job(f"piece-{CODE.index((page, code))}")
    async def run(ctx: JobContext) -> None:
        await function(ctx)

    outcome = await Harness(app).arun(run)
    expected = next((kind for word, kind in SIGNALS.items() if code.startswith(word)), Done)
    assert type(outcome) is expected, outcome


@pytest.mark.parametrize(("page", "line"), COMMANDS)
def test_every_command_of_a_table_exists_with_its_options(page: str, line: str) -> None:
    assert not unknown_options(line.removeprefix("headgate ")), page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_that_a_reader_had_is_python(page: Path) -> None:
    for block in re.findall(r"^ *```py\n(.*?)```", page.read_text(), re.DOTALL | re.MULTILINE):
        ast.parse(textwrap.dedent(block))
