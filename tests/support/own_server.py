"""A server of this repository in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

_ROOT = Path(__file__).parents[2]
_STOP_BOUND_S = 5.0


class OwnServer:
    """A module that is run until its input ends, and first prints a line; a context manager.

    Args:
        module: what ``python -m`` runs, with further arguments.
    """

    def __init__(self, *module: str) -> None:
        self._module = module

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", *self._module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=_ROOT,
        )
        self.endpoint_url = self._address()
        """The value for ``AWS_ENDPOINT_URL``, or that of one service."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self._process.communicate(timeout=_STOP_BOUND_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def _address(self) -> str:
        """Return the address, which its first line has."""
        return self._line()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def _tell(self, line: str) -> None:
        """Write a line to it."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
