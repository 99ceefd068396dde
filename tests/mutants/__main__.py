"""``python -m tests.mutants``: break the code in chosen places, and check that tests notice."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

from tests.mutants.catalogue import Mutant, catalogue
from tests.mutants.trial import Copy, Fate, Trial


def main() -> int:
    """Try all mutants, or those asked for; return 0 if every one was killed."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--list", action="store_true", help="name them, and what each breaks")
    parser.add_argument(
        "--only", nargs="+", metavar="TEXT", help="those whose area, name or file has one of these"
    )
    parser.add_argument("-j", type=int, default=os.cpu_count() or 1, help="so many at once")
    options = parser.parse_args()
    mutants = [each for each in catalogue() if _is_wanted(each, options.only)]
    if options.list:
        for mutant in mutants:
            _print(f"{mutant.area:<12} {mutant.name:<40} {mutant.file:<28} {mutant.breaks}")
        return 0
    with tempfile.TemporaryDirectory(prefix="headgate-mutants-") as folder:
        return _try_all(mutants, Path(folder), max(1, options.j))


def _is_wanted(mutant: Mutant, only: Sequence[str] | None) -> bool:
    about = f"{mutant.area}/{mutant.name} {mutant.file}"
    return only is None or any(text in about for text in only)


def _try_all(mutants: Sequence[Mutant], folder: Path, at_once: int) -> int:
    began = time.monotonic()
    bench = _Bench([Copy(folder / str(number)) for number in range(at_once)])
    with ThreadPoolExecutor(at_once) as threads:
        tests = sorted({test for mutant in mutants for test in mutant.tests})
        _print(f"{len(mutants)} mutants; first their {len(tests)} selections of tests as they are")
        if not all(threads.map(bench.passes, tests)):
            _print("tests fail, or hang, without any mutant")
            return 2
        trials = list(threads.map(bench.try_, mutants))
    fates = Counter(trial.fate for trial in trials)
    took_s = time.monotonic() - began
    _print(f"\n{fates[Fate.KILLED]} of {len(mutants)} killed, in {took_s:.0f} s")
    for trial in trials:
        if trial.fate is not Fate.KILLED:
            _print(f"{trial.fate.value} {trial.mutant.area}/{trial.mutant.name}: {trial.note}")
    if fates[Fate.STALE]:
        return 2
    return 1 if fates[Fate.SURVIVED] else 0


class _Bench:
    """Copies of the tree, each in use by one thread at a time."""

    def __init__(self, copies: Sequence[Copy]) -> None:
        self._free: SimpleQueue[Copy] = SimpleQueue()
        for copy in copies:
            self._free.put(copy)

    def passes(self, test: str) -> bool:
        """Return True if a selection passes on the unchanged code; print its failures otherwise."""
        with self._copy() as copy:
            code, output = copy.run([test])
        if code != 0:
            _print(f"{test}:\n{output}")
        return code == 0

    def try_(self, mutant: Mutant) -> Trial:
        """Try one mutant, and report its fate."""
        with self._copy() as copy:
            trial = copy.try_(mutant)
        about = f"{mutant.area}/{mutant.name}"
        _print(f"{trial.fate.value:<8} {about:<52} {trial.took_s:5.1f} s  {trial.note}")
        return trial

    @contextmanager
    def _copy(self) -> Iterator[Copy]:
        copy = self._free.get()
        try:
            yield copy
        finally:
            self._free.put(copy)


def _print(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - what the command is for


if __name__ == "__main__":
    sys.exit(main())
