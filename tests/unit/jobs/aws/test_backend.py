"""AWS as a backend: connections that open when needed, and users' own sessions and settings."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from aiobotocore.config import AioConfig
from aiobotocore.session import get_session
from botocore.config import Config
from pydantic import BaseModel

import headgate.jobs.aws.lean.opening
from headgate import App, AsyncClient, Client, Schedule
from headgate.jobs.aws.connections.connection import (
    Connection,
    async_aws_client,
    aws_client,
)
from headgate.jobs.aws.dynamo.table import AsyncDynamoTable, DynamoTable
from headgate.jobs.errors import ConfigurationError
from headgate.lambdas.consume import consumer
from headgate.testing import MemoryBackend

OF_ASYNC: Any = get_session()
OF_BOTO3: Any = boto3.Session()
NO_CONFIG: Any = {"read_timeout": 3}
JOB = "0196a2b4-0000-7000-8000-000000000001"


class Note(BaseModel):
    """The payload of the tests' jobs."""

    text: str = ""


class Sdk:
    """A session of boto3 or aiobotocore; records its clients, their settings, and their closing."""

    region_name = "eu-west-3"

    def __init__(self) -> None:
        self.made: list[str] = []
        self.closed: list[str] = []
        self.configs: list[Config] = []
        self.regions: set[str] = set()

    def client(self, service: str, *, config: Config, region_name: str, **_: Any) -> Any:
        self.made.append(service)
        self.configs.append(config)
        self.regions.add(region_name)
        return SimpleNamespace(
            close=lambda: self.closed.append(service),
            exceptions=None,
            meta=SimpleNamespace(
                region_name=region_name, partition="aws", endpoint_url="https://aws.test"
            ),
            query=lambda **_request: {"Items": []},
            get_queue_url=lambda QueueName: {"QueueUrl": f"https://sqs.test/{QueueName}"},  # noqa: N803
            send_message_batch=lambda QueueUrl, Entries: {  # noqa: N803, ARG005 - as in SQS
                "Successful": [{"Id": each["Id"]} for each in Entries]
            },
        )


class AsyncSdk(Sdk):
    @asynccontextmanager
    async def create_client(self, service: str, **options: Any) -> AsyncIterator[Any]:
        made = self.client(service, **options)

        def awaited(name: str) -> Any:
            async def call(**request: Any) -> Any:
                await asyncio.sleep(0)
                return getattr(made, name)(**request)

            return call

        names = ("query", "get_queue_url", "send_message_batch")
        try:
            yield SimpleNamespace(meta=made.meta, **{name: awaited(name) for name in names})
        finally:
            made.close()

    def get_config_variable(self, name: str) -> str:
        assert name == "region"
        return self.region_name


@pytest.fixture
def app() -> App:
    app = App("shop", records="outcomes")
    app.define("note", Note)
    return app


# --- opening and closing -------------------------------------------------------------------------


def test_a_synchronous_table_opens_once_and_again_after_a_close(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sdk = Sdk()
    monkeypatch.setattr(
        headgate.jobs.aws.lean.opening,
        "aws_client",
        lambda service, *_: sdk.client(service, config=Config(), region_name="eu-west-3"),
    )
    table = DynamoTable("shop-test-records", lean=False)
    table.close()
    assert sdk.made == sdk.closed == []
    with ThreadPoolExecutor(8) as pool:
        assert [*pool.map(lambda _: table.query("p"), range(50))] == [[]] * 50
    assert sdk.made == ["dynamodb"]
    table.close()
    assert sdk.closed == ["dynamodb"]
    assert table.query("p") == []
    assert sdk.made == ["dynamodb"] * 2


async def test_an_async_table_opens_at_its_first_call_once() -> None:
    sdk: Any = AsyncSdk()
    async with AsyncDynamoTable("shop-test-records", session=sdk, lean=False) as table:
        assert sdk.made == []
        await asyncio.gather(*(table.query("p") for _ in range(50)))
        assert sdk.made == ["dynamodb"]
    assert sdk.closed == ["dynamodb"]


def test_a_client_opens_what_it_uses_through_the_given_session_and_closes_it(app: App) -> None:
    sdk: Any = Sdk()
    with Client(app, session=sdk, config=Config(read_timeout=3)) as client:
        client.submit(app.types["note"], Note())
        assert sdk.made == ["sqs"]
        client.handle(JOB).state()
    assert sdk.made == ["sqs", "dynamodb", "scheduler", "sts"]
    assert sorted(sdk.closed) == sorted(sdk.made)
    assert {config.read_timeout for config in sdk.configs} == {3}
    assert sdk.regions == {"eu-west-3"}


async def test_an_async_client_opens_and_closes_through_the_given_session(
    app: App,
) -> None:
    sdk: Any = AsyncSdk()
    async with AsyncClient(app, session=sdk, config=Config(read_timeout=3)) as client:
        await client.submit(app.types["note"], Note())
        assert set(sdk.made) == {"sqs"}
        await client.handle(JOB).state()
    assert sorted(sdk.made) == sorted(sdk.closed)
    assert set(sdk.made) == {"sqs", "dynamodb", "scheduler", "sts"}
    assert {config.read_timeout for config in sdk.configs} == {3}
    assert sdk.regions == {"eu-west-3"}


async def test_a_client_leaves_a_given_backend_open(app: App) -> None:
    backend = MemoryBackend(app)
    for _ in range(2):
        with Client(app, backend=backend) as client:
            client.handle(JOB).state()
        async with AsyncClient(app, backend=backend) as awaited:
            await awaited.handle(JOB).state()
    assert backend.table.calls == ["query"] * 8


# --- sessions and settings -----------------------------------------------------------------------


def test_a_given_config_wins_and_leaves_the_rest_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    session = boto3.Session(region_name="eu-west-3")
    mine = Config(read_timeout=3, retries={"total_max_attempts": 7})
    client = aws_client("sqs", Connection(session=session, config=mine))
    assert client.meta.region_name == "eu-west-3"
    assert client.meta.config.read_timeout == 3
    assert client.meta.config.retries["total_max_attempts"] == 7
    assert client.meta.config.connect_timeout == Connection().connect_timeout_s
    client.close()
    elsewhere = Config(region_name="eu-north-1")
    client = aws_client("sqs", Connection(session=session, config=elsewhere))
    assert client.meta.region_name == "eu-north-1"
    client.close()


@pytest.mark.parametrize("config", [Config(read_timeout=3), AioConfig(read_timeout=3)])
async def test_a_given_config_of_either_sdk_wins_for_an_event_loop(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    session = get_session()
    session.set_config_variable("region", "eu-west-3")
    session.set_credentials("id", "secret")
    async with async_aws_client("sqs", Connection(session=session, config=config)) as client:
        assert client.meta.region_name == "eu-west-3"
        assert client.meta.config.read_timeout == 3
        assert client.meta.config.connect_timeout == Connection().connect_timeout_s


def test_all_services_have_clients_of_one_shared_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    connection = Connection()
    services = ("sqs", "dynamodb", "s3", "scheduler", "kms", "secretsmanager", "sns", "cloudwatch")
    for service in (*services, *services):
        client = aws_client(service, connection)
        assert client.meta.service_model.service_name == service
        client.close()


def test_a_session_without_a_region_takes_the_environments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    client = aws_client("sqs", Connection(session=boto3.Session()))
    assert client.meta.region_name == "us-east-1"
    client.close()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda app: Client(app, session=OF_ASYNC), "takes a boto3.Session"),
        (lambda app: AsyncClient(app, session=OF_BOTO3), "take an aiobotocore session"),
        (lambda app: consumer(app, session=OF_BOTO3), "take an aiobotocore session"),
        (lambda app: Client(app, config=NO_CONFIG), "botocore.config.Config, got dict"),
        (lambda app: AsyncClient(app, config=NO_CONFIG), "botocore.config.Config, got dict"),
        (lambda app: Client(app, config=Config(), backend=MemoryBackend(app)), "leave these out"),
        (
            lambda app: AsyncClient(app, session=OF_ASYNC, backend=MemoryBackend(app)),
            "leave these out",
        ),
        (lambda app: consumer(app, config=Config(), backend=MemoryBackend(app)), "leave these out"),
    ],
)
def test_a_session_or_config_of_the_wrong_kind_is_refused(make: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        make(App("shop"))


# --- in memory -----------------------------------------------------------------------------------


async def test_one_backend_in_memory_serves_both_clients_and_fires_what_is_due(app: App) -> None:
    backend = MemoryBackend(app)
    with Client(app, backend=backend) as client:
        client.schedules.create(
            "hourly", app.types["note"], Note(), schedule=Schedule.rate(timedelta(hours=1))
        )
    async with AsyncClient(app, backend=backend) as awaited:
        assert [each.name for each in await awaited.schedules.list()] == ["hourly"]
    backend.clock.advance(timedelta(hours=2))
    assert len(backend.sqs.messages("shop-jobs-normal")) == 3
