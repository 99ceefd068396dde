"""The proxy in a process of its own; see `tests.support.proxy.__main__` for its other end."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from tests.support.own_server import OwnServer


class ProxyProcess(OwnServer):
    """A proxy in front of the server at ``target``; a context manager."""

    def __init__(self, target: str) -> None:
        assert __package__ is not None
        super().__init__(__package__, target)

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
        self._tell(json.dumps(command))
        return self._read()

    def _address(self) -> str:
        return str(self._read()["endpoint_url"])

    def _read(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self._line())
        return answer
