"""The proxy in a process of its own; see `tests.support.proxy.__main__` for its other end."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_ROOT = Path(__file__).parents[3]
_STOP_BOUND_S = 5.0


class ProxyProcess:
    """A proxy in front of the server at ``target``; a context manager."""

    def __init__(self, target: str) -> None:
        self._target = target

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __package__, self._target],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=_ROOT,
        )
        self.endpoint_url: str = self._read()["endpoint_url"]
        """The value for ``AWS_ENDPOINT_URL``."""
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

    def delay(self, latency_s: float) -> None:
        """Delay every request by that many seconds, from now on."""
        self._command({"latency_s": latency_s})

    def fail(self, share: float) -> None:
        """Answer this fraction of all requests with 503, drawn at random, from now on."""
        self._command({"failing": share})

    def counts(self) -> Counter[str]:
        """Return the number of requests so far, by action."""
        return Counter(self._command({}))

    def _command(self, command: dict[str, float]) -> dict[str, int]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer
