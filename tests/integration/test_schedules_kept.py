"""Settings of a schedule on AWS beyond Headgate's own fields survive pauses and changes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import pytest

from headgate import App, cron
from headgate.jobs.aws.provision import create_table
from headgate.jobs.schedules.firing import schedule_input
from tests.support.clients import KINDS, Kind, connected
from tests.support.environment import REGION, with_test_credentials

ACCOUNT = "123456789012"
LAMBDA = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:shop-bridge:live"
HELD: dict[str, Any] = {
    "FlexibleTimeWindow": {"Mode": "FLEXIBLE", "MaximumWindowInMinutes": 15},
    "KmsKeyArn": f"arn:aws:kms:{REGION}:{ACCOUNT}:key/1",
    "Description": "every week",
}
TARGET: dict[str, Any] = {
    "Arn": LAMBDA,
    "RoleArn": f"arn:aws:iam::{ACCOUNT}:role/teams/shop/fires",
    "RetryPolicy": {"MaximumRetryAttempts": 3, "MaximumEventAgeInSeconds": 120},
    "DeadLetterConfig": {"Arn": f"arn:aws:sqs:{REGION}:210987654321:elsewhere"},
}


class Stored:
    """The schedule of an app's type, as changed on AWS by hand."""

    def __init__(self, endpoint_url: str) -> None:
        self.app = App(f"s{uuid4().hex[:8]}", long_delays=False)
        weekly = self.app.define("weekly", dict[str, Any], schedule=cron("0 6 ? * MON *"))
        self._place = {"GroupName": self.app.topology.schedule_group, "Name": "weekly"}
        self._aws = boto3.client("scheduler", endpoint_url=endpoint_url, region_name=REGION)
        self._aws.create_schedule_group(Name=self._place["GroupName"])
        self._aws.create_schedule(
            **self._place,
            **HELD,
            ScheduleExpression="cron(0 6 ? * MON *)",
            Target=TARGET | {"Input": json.dumps(schedule_input(self.app, weekly))},
        )

    def read(self) -> dict[str, Any]:
        """Return the schedule as the service reports it."""
        answer: dict[str, Any] = self._aws.get_schedule(**self._place)
        del answer["ResponseMetadata"], answer["LastModificationDate"]
        return answer

    def close(self) -> None:
        self._aws.close()


@pytest.fixture
def stored(moto: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Stored]:
    with_test_credentials(monkeypatch, tmp_path)
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto)
    found = Stored(moto)
    asyncio.run(create_table(found.app.topology.table_name, endpoint_url=moto))  # for the audit
    yield found
    found.close()


@pytest.mark.parametrize("kind", KINDS)
async def test_pausing_keeps_what_a_schedule_has_beyond_our_model(
    stored: Stored, kind: Kind
) -> None:
    before = stored.read()
    async with connected(kind, stored.app) as client:
        await client.schedules.pause("weekly")
        assert stored.read() == before | {"State": "DISABLED"}
        await client.schedules.resume("weekly")
    assert stored.read() == before
    assert before.items() >= HELD.items()
    assert before["Target"].items() >= TARGET.items()
