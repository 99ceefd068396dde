"""Temporary credentials, as ECS gives them, that run out while a worker works."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import web

from jobs.aws.dynamo import DynamoTable
from jobs.aws.sqs import SqsTransport
from jobs.errors import CredentialsMissing, CredentialsNotConfigured
from tests.support.environment import REGION, without_aws


@dataclass
class Aws:
    """The task's credentials endpoint and the services, on one port; who signs is written down."""

    url: str = ""
    lasting: timedelta = timedelta(minutes=5)
    """Under botocore's ten minutes, at which it has to have new ones."""
    handed_out: int = 0
    signers: list[str] = field(default_factory=list)

    async def credentials(self, _request: web.Request) -> web.Response:
        self.handed_out += 1
        ends = datetime.now(UTC) + self.lasting
        return web.json_response(
            {
                "AccessKeyId": f"AKID{self.handed_out}",
                "SecretAccessKey": "secret",
                "Token": "token",
                "Expiration": ends.strftime("%Y-%m-%dT%H:%M:%SZ"),
            }
        )

    async def service(self, request: web.Request) -> web.Response:
        found = re.search(r"Credential=(\w+)/", request.headers["Authorization"])
        assert found is not None
        self.signers.append(found[1])
        target = request.headers["X-Amz-Target"]
        return web.json_response({"QueueUrl": f"{self.url}/1/q"} if "GetQueueUrl" in target else {})


@asynccontextmanager
async def _serving(aws: Aws) -> AsyncIterator[Aws]:
    app = web.Application()
    app.add_routes([web.get("/credentials", aws.credentials), web.post("/{path:.*}", aws.service)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        aws.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield aws
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("lasting", [timedelta(minutes=5), timedelta(hours=6)])
async def test_credentials_that_run_out_are_replaced_between_two_calls(
    lasting: timedelta, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    without_aws(monkeypatch, tmp_path)
    async with _serving(Aws(lasting=lasting)) as aws:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{aws.url}/credentials")
        monkeypatch.delenv("AWS_EC2_METADATA_DISABLED", raising=False)
        async with SqsTransport(endpoint_url=aws.url, region=REGION) as transport:
            for _ in range(3):
                assert await transport.receive("q", limit=1, wait_s=0) == []
        async with DynamoTable("t", endpoint_url=aws.url, region=REGION) as table:
            for _ in range(2):
                assert await table.get("pk", "sk") is None
    fresh = lasting < timedelta(minutes=10)
    receives, reads = aws.signers[-5:-2], aws.signers[-2:]
    assert len(set(receives)) == (3 if fresh else 1)
    assert len(set(reads)) == (2 if fresh else 1)


class _Process:
    """A ``credential_process`` of the default profile; it fails until it `works`."""

    def __init__(self, directory: Path) -> None:
        self._answer = directory / "answer.json"
        self.config = directory / "config"
        self.config.write_text(f"[default]\ncredential_process = cat {self._answer}\n")

    def says(self, text: str) -> None:
        self._answer.write_text(text)

    def works(self) -> None:
        self.says('{"Version": 1, "AccessKeyId": "AKIDP", "SecretAccessKey": "secret"}')


@pytest.mark.parametrize("said", [None, "", "no JSON, but a secret", "[]", '{"Version": 2}'])
async def test_a_source_that_fails_at_the_start_is_asked_again_by_each_call(
    said: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    without_aws(monkeypatch, tmp_path)
    process = _Process(tmp_path)
    if said is not None:
        process.says(said)
    async with (
        _serving(Aws()) as aws,
        SqsTransport(endpoint_url=aws.url, region=REGION) as transport,
        DynamoTable("t", endpoint_url=aws.url, region=REGION) as table,
    ):
        for call in (transport.receive("q", limit=1, wait_s=0), table.get("pk", "sk")):
            with pytest.raises(CredentialsMissing) as raised:
                await call
            assert type(raised.value) is CredentialsMissing, "not one that is there for good"
            assert "secret" not in str(raised.value)
        process.works()
        assert await transport.receive("q", limit=1, wait_s=0) == []
        assert await table.get("pk", "sk") is None
    assert set(aws.signers) == {"AKIDP"}


async def test_a_profile_that_is_missing_is_told_of_at_the_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    without_aws(monkeypatch, tmp_path)
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(CredentialsNotConfigured, match="nobody"):
        async with SqsTransport(region=REGION):
            pass
