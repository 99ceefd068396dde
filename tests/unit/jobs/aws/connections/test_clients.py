"""An adapter's client is opened once, by its first call, and closed with all that came along."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

import headgate.jobs.aws.connections.clients
from headgate.jobs.aws.connections.clients import (
    AnyClients,
    AsyncClients,
    Clients,
    OnDemand,
    caller_identity,
    client_of,
)
from headgate.jobs.aws.connections.connection import Connection
from headgate.jobs.core.immediate import drive, driven, immediate
from headgate.jobs.errors import ConfigurationError, CredentialsMissing


class Sdk:
    """Both SDKs; records what is opened and closed."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.log: list[str] = []
        self.refuses: str | None = None
        patch.setattr(headgate.jobs.aws.connections.clients, "aws_client", self.make)
        patch.setattr(headgate.jobs.aws.connections.clients, "async_aws_client", self.make_async)
        patch.setattr(headgate.jobs.aws.connections.clients, "async_session", lambda given: given)

    def make(self, service: str, *_: object) -> Any:
        if service == self.refuses:
            raise CredentialsMissing("no credentials")
        self.log.append(f"opened {service}")
        return SimpleNamespace(
            close=lambda: self.log.append(f"closed {service}"),
            exceptions=None,
            meta=None,
            get_caller_identity=lambda: {"Account": "1", "Arn": "arn:aws:iam::1:user/ada"},
        )

    @asynccontextmanager
    async def make_async(self, service: str, *_: object) -> AsyncIterator[Any]:
        await asyncio.sleep(0)
        client = self.make(service)
        client.get_caller_identity = immediate(client.get_caller_identity)
        try:
            yield client
        finally:
            client.close()


@pytest.fixture
def sdk(monkeypatch: pytest.MonkeyPatch) -> Sdk:
    return Sdk(monkeypatch)


async def test_calls_that_need_a_client_at_once_share_one(sdk: Sdk) -> None:
    async with client_of(AsyncClients(Connection()), "sqs") as opened:
        first, *others = await asyncio.gather(*(opened.opened() for _ in range(20)))
        assert all(each is first for each in others)
    assert sdk.log == ["opened sqs", "closed sqs"]


def test_threads_that_need_a_client_at_once_share_one(sdk: Sdk) -> None:
    opened = client_of(Clients(Connection()), "sqs")
    with ThreadPoolExecutor(8) as pool:
        first, *others = [
            future.result() for future in [pool.submit(driven(opened.opened)) for _ in range(50)]
        ]
    assert all(each is first for each in others)
    assert sdk.log == ["opened sqs"]


async def test_in_an_event_loop_nothing_is_opened_outside_of_async_with(sdk: Sdk) -> None:
    opened = client_of(AsyncClients(Connection()), "sqs")
    await opened.stop()  # before a start, it is safe
    with pytest.raises(ConfigurationError, match="is not open"):
        await opened.opened()
    async with opened:
        await opened.opened()
    with pytest.raises(ConfigurationError, match="is not open"):
        await opened.opened()
    assert sdk.log == ["opened sqs", "closed sqs"]


def test_synchronous_code_opens_a_client_again_after_a_close(sdk: Sdk) -> None:
    opened = client_of(Clients(Connection()), "sqs")
    drive(opened.stop())
    for _ in range(2):
        drive(opened.opened())
        drive(opened.stop())
        drive(opened.stop())
    assert sdk.log == ["opened sqs", "closed sqs"] * 2


@pytest.mark.parametrize("clients", [AsyncClients, Clients])
async def test_what_was_opened_is_closed_when_the_rest_fails_and_tried_anew(
    clients: type[AsyncClients | Clients], sdk: Sdk
) -> None:
    made = clients(Connection())

    async def both(stack: AsyncExitStack) -> tuple[Any, dict[str, str]]:
        s3 = await stack.enter_async_context(made.open("s3"))
        return s3, await caller_identity(made, "bucket")

    async with OnDemand(made, both) as opened:
        sdk.refuses = "sts"
        with pytest.raises(CredentialsMissing):
            await opened.opened()
        assert sdk.log == ["opened s3", "closed s3"]
        sdk.refuses = None
        _, identity = await opened.opened()
    assert identity["Account"] == "1"
    assert sdk.log[2:] == ["opened s3", "opened sts", "closed sts", "closed s3"]


def test_both_kinds_of_clients_have_the_same_interface() -> None:
    kinds: list[AnyClients] = [AsyncClients(Connection()), Clients(Connection())]
    assert [each.reopens for each in kinds] == [False, True]
