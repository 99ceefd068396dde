"""Temporary credentials, as ECS provides them, that expire while a worker works."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import botocore.session
import pytest
from aiohttp import web
from botocore.utils import ContainerMetadataFetcher

from headgate.jobs.aws.connections import instance_role
from headgate.jobs.aws.dynamo.table import AsyncDynamoTable
from headgate.jobs.aws.sqs.transport import AsyncSqsTransport, SqsTransport
from headgate.jobs.errors import CredentialsMissing, CredentialsNotConfigured
from tests.support.environment import REGION, without_aws


@dataclass
class Aws:
    """The endpoints of a task's and an instance's credentials and of the services, on one port.

    The signer of each request is recorded.
    """

    url: str = ""
    lasting: Sequence[timedelta] = (timedelta(minutes=5),)
    """Lifetimes of credentials, in turn: by default below the fifteen minutes before which they are
    refreshed."""
    handed_out: int = 0
    away: bool = False
    """True while the endpoints of credentials answer with 503."""
    signers: list[str] = field(default_factory=list)

    async def credentials(self, _request: web.Request) -> web.Response:
        if self.away:
            raise web.HTTPServiceUnavailable
        ends = datetime.now(UTC) + self.lasting[self.handed_out % len(self.lasting)]
        self.handed_out += 1
        return web.json_response(
            {
                "AccessKeyId": f"AKID{self.handed_out}",
                "SecretAccessKey": "secret",
                "Token": "token",
                "Expiration": ends.strftime("%Y-%m-%dT%H:%M:%SZ"),
            }
        )

    async def token(self, _request: web.Request) -> web.Response:
        if self.away:
            raise web.HTTPServiceUnavailable
        return web.Response(text="token")

    async def role(self, _request: web.Request) -> web.Response:
        if self.away:
            raise web.HTTPServiceUnavailable
        return web.Response(text="worker")

    async def service(self, request: web.Request) -> web.Response:
        found = re.search(r"Credential=(\w+)/", request.headers["Authorization"])
        assert found is not None
        self.signers.append(found[1])
        target = request.headers["X-Amz-Target"]
        return web.json_response({"QueueUrl": f"{self.url}/1/q"} if "GetQueueUrl" in target else {})


@asynccontextmanager
async def _serving(aws: Aws) -> AsyncIterator[Aws]:
    app = web.Application()
    roles = "/latest/meta-data/iam/security-credentials/"
    app.add_routes(
        [
            web.get("/credentials", aws.credentials),
            web.put("/latest/api/token", aws.token),
            web.get(roles, aws.role),
            web.get(f"{roles}worker", aws.credentials),
            web.post("/{path:.*}", aws.service),
        ]
    )
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        aws.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield aws
    finally:
        await runner.cleanup()


async def test_credentials_that_have_expired_are_replaced_before_the_next_call(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    without_aws(monkeypatch, tmp_path)
    async with _serving(Aws(lasting=[timedelta(0), timedelta(hours=6)])) as aws:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{aws.url}/credentials")
        monkeypatch.delenv("AWS_EC2_METADATA_DISABLED", raising=False)
        async with AsyncSqsTransport(endpoint_url=aws.url, region=REGION) as transport:
            for _ in range(2):
                assert await transport.receive("q", limit=1, wait_s=0) == []
        async with AsyncDynamoTable("t", endpoint_url=aws.url, region=REGION) as table:
            for _ in range(2):
                assert await table.get("pk", "sk") is None
    assert aws.signers == ["AKID2"] * 3 + ["AKID4"] * 2  # GetQueueUrl is the first


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
        AsyncSqsTransport(endpoint_url=aws.url, region=REGION) as transport,
        AsyncDynamoTable("t", endpoint_url=aws.url, region=REGION) as table,
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


@pytest.fixture(params=["task", "instance"])
def endpoint(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[[Aws], None]:
    """Configure a task's or an instance's endpoint of credentials."""
    without_aws(monkeypatch, tmp_path)
    monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
    monkeypatch.setattr(ContainerMetadataFetcher, "SLEEP_TIME", 0)

    def configure(aws: Aws) -> None:
        if request.param == "task":
            monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{aws.url}/credentials")
        else:
            monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", aws.url)

    return configure


async def test_an_endpoint_that_is_away_at_the_start_is_asked_again(
    endpoint: Callable[[Aws], None],
) -> None:
    async with _serving(Aws(away=True)) as aws:
        endpoint(aws)
        async with AsyncSqsTransport(endpoint_url=aws.url, region=REGION) as transport:
            with pytest.raises(CredentialsMissing) as raised:
                await transport.receive("q", limit=1, wait_s=0)
            assert type(raised.value) is CredentialsMissing, "not one that is there for good"
            aws.away = False
            assert await transport.receive("q", limit=1, wait_s=0) == []
    assert aws.signers


async def test_synchronous_code_retries_an_unreachable_credentials_endpoint(
    endpoint: Callable[[Aws], None],
) -> None:
    async with _serving(Aws(away=True)) as aws:
        endpoint(aws)
        with SqsTransport(endpoint_url=aws.url, region=REGION) as sqs:
            with pytest.raises(CredentialsMissing) as raised:
                await asyncio.to_thread(sqs.receive, "q", limit=1, wait_s=0)
            assert type(raised.value) is CredentialsMissing, "not one that is there for good"
            aws.away = False
            assert await asyncio.to_thread(sqs.receive, "q", limit=1, wait_s=0) == []
    assert aws.signers


async def test_where_nothing_could_give_credentials_they_are_not_configured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    without_aws(monkeypatch, tmp_path)
    async with AsyncSqsTransport(endpoint_url="http://127.0.0.1:1", region=REGION) as transport:
        with pytest.raises(CredentialsNotConfigured):
            await transport.receive("q", limit=1, wait_s=0)


@pytest.mark.parametrize(
    ("says", "expected"),
    [("Amazon EC2\n", True), ("ec2e1916-9099-7caf", False), ("QEMU\n", False), (None, False)],
)
@pytest.mark.parametrize("disabled", [True, False])
def test_an_instance_is_known_by_its_vendor(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    says: str | None,
    expected: bool,
    disabled: bool,
) -> None:
    without_aws(monkeypatch, tmp_path)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", str(disabled))
    vendor = tmp_path / "sys_vendor"
    if says is not None:
        vendor.write_text(says)
    monkeypatch.setattr(instance_role, "SIGNS", [(vendor, "Amazon EC2")])
    assert instance_role.expects_role(botocore.session.get_session()) == (expected and not disabled)


async def test_a_profile_that_is_missing_is_told_of_at_the_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    without_aws(monkeypatch, tmp_path)
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(CredentialsNotConfigured, match="nobody"):
        async with AsyncSqsTransport(region=REGION):
            pass
