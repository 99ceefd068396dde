"""Endpoints without TLS: of this host, or of others where that is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest
from botocore.config import Config

from headgate import AsyncClient
from headgate.jobs.aws.connections.connection import Connection, async_aws_client, aws_client
from headgate.jobs.aws.sqs.transport import SqsTransport
from headgate.jobs.errors import ConfigurationError, SettingsInvalid, TransportError
from tests.support.environment import with_test_credentials
from tests.unit.workers.rig import one_lane


@pytest.fixture(autouse=True)
def _surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with_test_credentials(monkeypatch, tmp_path)


async def _open(connection: Connection) -> None:
    """Open a client of either kind, which sends nothing."""
    aws_client("sqs", connection).close()
    async with async_aws_client("sqs", connection):
        pass


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:4566",
        "http://sqs.localhost:4566",
        "http://127.0.0.1:9324",
        "http://127.1.2.3",
        "http://[::1]:9324",
        "https://sqs.eu-west-1.amazonaws.com",
        "https://localstack:4566",
    ],
)
async def test_this_hosts_own_endpoints_and_those_with_tls_need_no_word(url: str) -> None:
    await _open(Connection(endpoint_url=url))


@pytest.mark.parametrize(
    "url",
    [
        "http://localstack:4566",
        "http://sqs.eu-west-1.amazonaws.com",
        "http://localhost.evil.example",
        "http://127.0.0.1.evil.example",
        "http://10.0.0.5:4566",
    ],
)
async def test_another_hosts_endpoint_without_tls_is_refused(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = r"has no TLS.*set HEADGATE_ALLOW_HTTP=1"
    with pytest.raises(SettingsInvalid, match=refused):
        aws_client("sqs", Connection(endpoint_url=url))
    with pytest.raises(SettingsInvalid, match=refused):
        async with async_aws_client("sqs", Connection(endpoint_url=url)):
            pass
    monkeypatch.setenv("HEADGATE_ALLOW_HTTP", "1")
    await _open(Connection(endpoint_url=url))


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_SQS"])
async def test_so_is_one_from_the_environment(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "http://localstack:4566")
    with pytest.raises(SettingsInvalid, match="HEADGATE_ALLOW_HTTP"):
        SqsTransport().depth("any")
    app, _ = one_lane()
    with pytest.raises(ConfigurationError, match="HEADGATE_ALLOW_HTTP"):
        async with AsyncClient(app):
            pass


async def test_settings_of_ones_own_change_nothing() -> None:
    given = Connection(endpoint_url="http://localstack:4566", config=Config(retries={}))
    with pytest.raises(SettingsInvalid, match="HEADGATE_ALLOW_HTTP"):
        aws_client("sqs", given)


def test_an_endpoint_without_a_scheme_is_answered_with_how_to_write_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "127.0.0.1:4566")
    with pytest.raises(
        TransportError, match=r"127\.0\.0\.1:4566; write it with http:// or https://"
    ):
        aws_client("sqs", Connection())
