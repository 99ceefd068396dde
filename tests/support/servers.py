"""Real servers that speak SQS, as child processes on free loopback ports, for tests.

moto and MiniStack agree with AWS in different places (docs/emulators.md), so what must hold on SQS
is tried on both.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import pytest

from jobs.errors import ConfigurationError
from ops.local_aws import LocalAws, ServerProcess

ServerName = Literal["moto", "ministack"]

SERVERS: tuple[ServerName, ...] = ("moto", "ministack")


@contextmanager
def running_server(name: ServerName) -> Iterator[str]:
    """Start a server, hand out its endpoint URL, and end it. Meant to be used once a session.

    A server that is not installed skips the test, but fails it on CI (``CI=true``), where a gap
    in what is tested would go unseen.
    """
    if importlib.util.find_spec(name) is None:
        if os.environ.get("CI") == "true":
            raise ConfigurationError(f"{name} is not installed, and CI has to test on it")
        pytest.skip(f"{name} is not installed: pip install 'headgate[dev]'")
    with _server(name) as server:
        yield server.endpoint_url


def _server(name: ServerName) -> ServerProcess:
    if name == "ministack":
        return LocalAws()
    return ServerProcess(
        "moto.server", ready_path="/moto-api/", arguments=("-H", "127.0.0.1", "-p", "{port}")
    )
