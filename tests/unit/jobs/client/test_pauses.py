"""``client.pauses``: what can be paused, for how long, and how it is resumed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from headgate import App, Priority, Tenant, acting_as
from headgate.jobs.client.pauses import AsyncPauses
from headgate.jobs.core.retention import RecordsLevel
from headgate.jobs.errors import (
    HeadgateError,
    SettingsInvalid,
    Throttled,
    UnknownJobType,
    UnknownQueue,
)
from headgate.jobs.records.pausing.pause import MOST_PAUSES, PauseTarget, pause_item
from headgate.jobs.testing import Harness
from tests.support.clients import Kind, awaited


class Report(BaseModel):
    kind: str = ""


class Shop:
    """An app, its harness, and a client's pauses."""

    def __init__(self, kind: Kind, records: RecordsLevel = "outcomes") -> None:
        app = App("shop", records=records)
        self.mail = app.queue("mail", priorities=[Priority.HIGH, Priority.LOW])
        self.ran: list[str] = []

        @self.mail.job("report", priority=Priority.LOW)
        def report(report: Report) -> None:
            self.ran.append(report.kind)

        self.report = report
        self.jobs = Harness(app)
        self.pauses: AsyncPauses
        if kind == "Client":
            self.pauses = awaited(self.jobs.client).pauses
        else:
            self.pauses = self.jobs.async_client.pauses


@pytest.fixture
def shop(kind: Kind) -> Shop:
    return Shop(kind)


async def test_queues_types_and_tenants_are_paused_by_name_or_as_they_are(shop: Shop) -> None:
    await shop.pauses.create(queue=shop.mail)
    with acting_as("ada"):
        await shop.pauses.create(queue="mail", priority="low", reason="slow")
    await shop.pauses.create(job_type=shop.report)
    await shop.pauses.create(tenant=Tenant(org="acme", workspace="w"))
    found = await shop.pauses.list()
    assert [str(each.target) for each in found] == [
        "the queue 'mail'",
        "the queue 'mail' with the priority low",
        "the tenant 'acme'",
        "the type 'report'",
    ]
    assert (found[1].reason, found[1].actor) == ("slow", "ada")
    assert await shop.pauses.remove(job_type="report")
    assert await shop.pauses.remove(tenant="acme")
    assert await shop.pauses.remove(queue="mail")
    assert [each.target.priority for each in await shop.pauses.list()] == [Priority.LOW]


async def test_what_is_not_paused_is_not_resumed(shop: Shop) -> None:
    assert not await shop.pauses.remove(queue="mail")


async def test_a_second_pause_replaces_the_first(shop: Shop) -> None:
    await shop.pauses.create(queue="mail", reason="first")
    second = await shop.pauses.create(queue="mail", reason="second", lasts=60)
    assert await shop.pauses.list() == [second]


async def test_a_pause_lasts_as_long_as_it_says_or_three_quarters_of_the_retention(
    shop: Shop,
) -> None:
    now = shop.jobs.clock.now()
    assert (await shop.pauses.create(queue="mail")).until - now == timedelta(days=3)
    assert (await shop.pauses.create(queue="mail", lasts=60)).until - now == timedelta(seconds=60)
    until = now + timedelta(hours=2)
    assert (await shop.pauses.create(queue="mail", until=until)).until == until
    shop.jobs.clock.advance(timedelta(hours=2))
    assert await shop.pauses.list() == []


@pytest.mark.parametrize(
    ("named", "error", "said"),
    [
        ({}, SettingsInvalid, "one of queue=, job_type= and tenant="),
        ({"queue": "mail", "tenant": "acme"}, SettingsInvalid, "one of queue="),
        ({"tenant": "acme", "priority": "low"}, SettingsInvalid, "together with queue="),
        ({"queue": "male"}, UnknownQueue, "did you mean 'mail'"),
        ({"queue": "mail", "priority": "normal"}, UnknownQueue, "no priority 'normal'"),
        ({"job_type": "reprot"}, UnknownJobType, "did you mean 'report'"),
        ({"tenant": ""}, SettingsInvalid, "1 to 128 printable characters"),
        ({"tenant": "a\ud800"}, SettingsInvalid, "1 to 128 printable characters"),
        ({"queue": "mail", "lasts": 0}, SettingsInvalid, "lasts must be positive"),
        ({"queue": "mail", "lasts": timedelta(days=4)}, SettingsInvalid, "at most 3 days"),
        (
            {"queue": "mail", "until": datetime(2020, 1, 1, tzinfo=UTC)},
            SettingsInvalid,
            "would have ended already",
        ),
        ({"queue": "mail", "until": datetime(2030, 1, 1)}, SettingsInvalid, "no time zone"),  # noqa: DTZ001 - that is the mistake
        (
            {"queue": "mail", "lasts": 60, "until": datetime(2030, 1, 1, tzinfo=UTC)},
            SettingsInvalid,
            "not both",
        ),
        ({"queue": "mail", "reason": "x" * 301}, SettingsInvalid, "reason has at most 300"),
    ],
)
async def test_a_pause_that_can_not_be_kept_is_refused_with_what_to_write(
    named: dict[str, Any], error: type[HeadgateError], said: str, shop: Shop
) -> None:
    with pytest.raises(error, match=said):
        await shop.pauses.create(**named)
    assert await shop.pauses.list() == []


async def test_no_more_is_paused_than_workers_read(shop: Shop) -> None:
    now = shop.jobs.clock.now()
    first = await shop.pauses.create(tenant="0")
    for start in range(1, MOST_PAUSES, 25):
        names = range(start, min(start + 25, MOST_PAUSES))
        targets = [PauseTarget(kind="tenant", name=str(number)) for number in names]
        await shop.jobs.table.put([pause_item(replace_target(first, target)) for target in targets])
    assert len(await shop.pauses.list()) == MOST_PAUSES
    with pytest.raises(SettingsInvalid, match="200 queues, types and tenants are paused already"):
        await shop.pauses.create(queue="mail")
    assert (await shop.pauses.create(tenant="7", lasts=60)).at == now  # it is paused already


def replace_target(pause: Any, target: PauseTarget) -> Any:
    return type(pause)(target=target, at=pause.at, until=pause.until)


async def test_an_app_without_records_can_not_be_paused(kind: Kind) -> None:
    shop = Shop(kind, records="off")
    with pytest.raises(SettingsInvalid, match="records='failures'"):
        await shop.pauses.create(queue="mail")
    with pytest.raises(SettingsInvalid, match="records='failures'"):
        await shop.pauses.remove(queue="mail")


async def test_a_table_that_stays_busy_is_told(shop: Shop) -> None:
    shop.jobs.table.faults.leave_unprocessed(times=100)
    with pytest.raises(Throttled, match="the queue 'mail' was not paused"):
        await shop.pauses.create(queue="mail")


async def test_the_harness_keeps_pauses_as_workers_do(shop: Shop) -> None:
    paused = await shop.pauses.create(job_type="report", lasts=30)
    await shop.jobs.async_client.submit(shop.report, Report(kind="waits"))
    await shop.jobs.adrain()
    assert shop.ran == ["waits"]
    assert shop.jobs.clock.now() >= paused.until
