"""Real servers that speak AWS's protocols, as child processes on free loopback ports, for tests.

They agree with AWS in different places (docs/emulators.md), so what must hold on SQS is tested on
every server that implements it: moto, MiniStack and ElasticMQ. DynamoDB Local is AWS's own.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, NoReturn

import pytest

from headgate.jobs.errors import ConfigurationError
from headgate.ops.local.aws import LocalAws
from headgate.ops.local.server_process import ServerProcess
from tests.support.java_servers import JavaServerUnavailable, java_process

ServerName = Literal["moto", "ministack", "elasticmq", "dynamodb"]

SERVERS: tuple[ServerName, ...] = ("moto", "ministack")

_SHORT_LIVED_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""A server that runs for minutes is gone before the code that C2 compiles pays for itself."""


@contextmanager
def running_server(name: ServerName) -> Iterator[str]:
    """Start a server, yield its endpoint URL, and end it. Meant to be used once a session.

    A server that is not installed skips the test, but fails it on CI (``CI=true``), where a gap in
    the tests would go unnoticed.
    """
    with _server(name) as server:
        yield server.endpoint_url


def _server(name: ServerName) -> ServerProcess:
    if name in ("elasticmq", "dynamodb"):
        try:
            return java_process(name, *_SHORT_LIVED_JVM)
        except JavaServerUnavailable as error:
            _give_up(str(error))
    if importlib.util.find_spec(name) is None:
        _give_up(f"{name} is not installed: pip install 'headgate[dev]'")
    if name == "ministack":
        return LocalAws()
    return ServerProcess(
        "moto.server", ready_path="/moto-api/", arguments=("-H", "127.0.0.1", "-p", "{port}")
    )


def _give_up(reason: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        raise ConfigurationError(f"{reason}; CI has to test on it")
    pytest.skip(reason)
