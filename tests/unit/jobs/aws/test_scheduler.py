"""A scheduler that is given the account looks it up nowhere, as in a network without STS."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

import headgate.jobs.aws.connections.clients
from headgate.jobs.aws.scheduler import AsyncEventBridgeScheduler
from headgate.jobs.core.ports.scheduler import ScheduleSpec

SPEC = ScheduleSpec(
    group="shop",
    name="delay.1",
    expression="at(2030-01-01T00:00:00)",
    timezone="UTC",
    function="shop-bridge",
    role="shop-scheduler",
    input="{}",
)


class Aws:
    """Records which services were called, and the requests to EventBridge Scheduler."""

    meta = SimpleNamespace(region_name="eu-central-1", partition="aws")

    def __init__(self) -> None:
        self.services: list[str] = []
        self.created: list[dict[str, Any]] = []

    @asynccontextmanager
    async def client(self, service: str, *_connection: object) -> AsyncIterator[Any]:
        self.services.append(service)
        yield self

    async def create_schedule(self, **request: Any) -> None:
        self.created.append(request)

    async def get_caller_identity(self) -> dict[str, str]:
        return {"Account": "999999999999", "Arn": "arn:aws:iam::999999999999:user/ada"}


@pytest.mark.parametrize(
    ("account", "owner", "services"),
    [
        ("123456789012", "123456789012", ["scheduler"]),
        (None, "999999999999", ["scheduler", "sts"]),
    ],
    ids=["told", "asked"],
)
async def test_the_account_is_asked_of_sts_unless_it_is_told(
    account: str | None, owner: str, services: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    aws = Aws()
    monkeypatch.setattr(headgate.jobs.aws.connections.clients, "async_aws_client", aws.client)
    async with AsyncEventBridgeScheduler(account=account) as scheduler:
        assert await scheduler.create(SPEC, token=str(uuid4()))
    assert aws.services == services
    [request] = aws.created
    assert request["Target"]["Arn"] == f"arn:aws:lambda:eu-central-1:{owner}:function:shop-bridge"
    assert f":{owner}:role/" in request["Target"]["RoleArn"]
