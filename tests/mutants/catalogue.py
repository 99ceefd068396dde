"""The list of mutants: lines that a guarantee depends on, each with a change that breaks it.

It is in the TOML files next to this one. Tools such as cosmic-ray and mutmut make mutants of every
line by rule; these are chosen, and each names the tests that must notice it.

    [[mutant]]
    name = "delete-before-send"
    file = "workers/running/settler.py"
    original = '''...'''          # stands in the file exactly once
    replacement = '''...'''
    breaks = "A dead letter that can't be sent is lost."
    tests = ["tests/unit/workers/running/test_settler.py"]    # seconds, please
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One change of one file."""

    area: str
    """The catalogue's file that it is in."""
    name: str
    file: str
    """Path relative to the root of the repository."""
    original: str
    replacement: str
    breaks: str
    tests: tuple[str, ...]
    """Arguments of pytest: files, or single tests."""

    def applied(self, source: str) -> str:
        """Return the file's text with the change made.

        Raises:
            Stale: the original isn't in it exactly once, or the result is not valid Python.
        """
        if (times := source.count(self.original)) != 1:
            raise Stale(f"{self.name}: the original stands in {self.file} {times} times")
        mutated = source.replace(self.original, self.replacement)
        try:
            ast.parse(mutated)
        except SyntaxError as error:
            raise Stale(f"{self.name}: with it {self.file} is no Python: {error}") from error
        return mutated


class Stale(Exception):
    """A mutant no longer fits the code, and must be rewritten."""


def catalogue() -> Iterator[Mutant]:
    """Yield all mutants, by area."""
    for path in sorted(Path(__file__).parent.glob("*.toml")):
        for fields in tomllib.loads(path.read_text())["mutant"]:
            tests = tuple(fields.pop("tests"))
            yield Mutant(area=path.stem, tests=tests, **fields)
