"""Trials of mutants: a copy of the tree, the change made in it, and the tests that must notice."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tests.mutants.catalogue import ROOT, Mutant, Stale

LIMIT_S = 240.0
"""Seconds after which hanging tests count as having noticed the mutant."""

_TEST_LIMIT_S = 60
_PASSED, _FAILED = 0, 1
"""Exit codes of pytest; others mean that it could not run the tests."""

_FIRST_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


class Fate(Enum):
    """The fate of a mutant."""

    KILLED = "killed"
    SURVIVED = "SURVIVED"
    STALE = "STALE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The result of trying a mutant."""

    mutant: Mutant
    fate: Fate
    took_s: float = 0.0
    note: str = ""
    """The test that killed it, or an error."""


class Copy:
    """A copy of the tree, in which one mutant after the other is tried.

    Args:
        folder: the copy's folder, which must not exist.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        listed = subprocess.run(
            # Found on the PATH, as the developer's own git.
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],  # noqa: S607
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        )
        for name in filter(None, listed.stdout.split("\0")):
            source, target = ROOT / name, folder / name
            if source.is_file() or source.is_symlink():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target, follow_symlinks=False)

    def try_(self, mutant: Mutant) -> Trial:
        """Make the change, run its tests, and undo it."""
        began = time.monotonic()
        file = self._folder / mutant.file
        source = file.read_text()
        try:
            mutated = mutant.applied(source)
        except Stale as error:
            return Trial(mutant=mutant, fate=Fate.STALE, note=str(error))
        try:
            _write(file, mutated)
            code, output = self.run(mutant.tests)
        finally:
            _write(file, source)
        found = _FIRST_FAILED.search(output)
        if code == _PASSED:
            fate, note = Fate.SURVIVED, mutant.breaks
        elif code in (_FAILED, None):
            fate, note = Fate.KILLED, found[1] if found else "a test that hangs"
        else:
            fate, note = Fate.STALE, f"pytest could not run its tests:\n{output[-2000:]}"
        took_s = time.monotonic() - began
        return Trial(mutant=mutant, fate=fate, took_s=took_s, note=note)

    def run(self, tests: Sequence[str]) -> tuple[int | None, str]:
        """Run tests in the copy; return pytest's exit code (None: they hung) and its output."""
        options = ["-x", "-q", "-p", "no:cacheprovider", "--tb=no"]
        options += ["--hypothesis-seed=1", "--hypothesis-profile=mutants"]
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *options, f"--timeout={_TEST_LIMIT_S}", *tests],
            cwd=self._folder,
            env=os.environ | {"PYTHONPATH": str(self._folder)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # its workers and servers, too
            process.communicate()
            return None, ""
        return process.returncode, output


def _write(file: Path, source: str) -> None:
    file.write_text(source)
    # Python compares the second and the size, which a quick change may leave unchanged.
    for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
        compiled.unlink()
