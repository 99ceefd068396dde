"""A worker process under observation: its start, its end, and its costs. Linux only (/proc)."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

_TICKS = os.sysconf("SC_CLK_TCK")
_TAIL = 2_000
_INHERITED = ("HOME", "LANG", "PATH")


class WorkerEnded(Exception):
    """A worker ended by itself; its output is in the message."""


class WorkerProcess:
    """A command in a session of its own, which is killed with all of its children at the end.

    It is killed, not stopped, unless `stop` is called: a graceful shutdown takes time.
    """

    def __init__(
        self, command: Sequence[str], *, cwd: Path, environment: Mapping[str, str], log: Path
    ) -> None:
        self._command = list(command)
        self._cwd = cwd
        self._log = log
        self._environment = {
            **{name: os.environ[name] for name in _INHERITED if name in os.environ},
            **environment,
        }

    def __enter__(self) -> Self:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 - commands named in contestants.py
                self._command,
                cwd=self._cwd,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill()

    def kill(self) -> None:
        """``kill -9`` for all of its processes, as if the machine were lost. Idempotent."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self, within_s: float) -> float:
        """Send SIGTERM to the first process; return the seconds until it had ended.

        A process that has not ended within ``within_s`` seconds is killed, as ECS does."""
        began = time.monotonic()
        self._process.terminate()
        try:
            self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.kill()
        return time.monotonic() - began

    def check(self) -> None:
        """Check that it still runs.

        Raises:
            WorkerEnded: it has ended.
        """
        if (code := self._process.poll()) is not None:
            output = self._log.read_text(errors="replace")[-_TAIL:]
            raise WorkerEnded(f"{' '.join(self._command)} ended with {code}: {output}")

    def wait(self, within_s: float) -> None:
        """Wait until it ends by itself.

        Raises:
            TimeoutError: it still runs.
            WorkerEnded: it failed.
        """
        try:
            code = self._process.wait(within_s)
        except subprocess.TimeoutExpired as error:
            raise TimeoutError(f"{' '.join(self._command)} ran over {within_s:g} s") from error
        if code != 0:
            self.check()

    def cpu_s(self) -> float:
        """Return the seconds of CPU that it and its children have used so far."""
        return sum(_cpu_s(pid) for pid in self._pids())

    def memory_mb(self) -> float:
        """Return its memory and its children's, counting shared pages once (PSS), in MB."""
        return sum(_memory_kb(pid, "Pss") for pid in self._pids()) / 1024

    def resident_mb(self) -> float:
        """Return the sum of its processes' memory in MB, shared pages counted repeatedly (RSS)."""
        return sum(_memory_kb(pid, "Rss") for pid in self._pids()) / 1024

    def _pids(self) -> list[int]:
        """Return the processes of its session."""
        return [
            int(entry.name)
            for entry in Path("/proc").iterdir()
            if entry.name.isdigit() and _session(int(entry.name)) == self._process.pid
        ]


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the third on; none if the process has gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return text.rpartition(")")[2].split()


def _session(pid: int) -> int:
    fields = _stat(pid)
    return int(fields[3]) if fields else 0


def _cpu_s(pid: int) -> float:
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / _TICKS if fields else 0.0


def _memory_kb(pid: int, kind: str) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith(f"{kind}:"))
