"""FIFO queue groups: names, groups, deduplication, and invalid settings."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel

from headgate import App, Priority, Tenant, cron
from headgate.jobs.errors import ConfigurationError, OptionInvalid
from headgate.jobs.schedules.firing import Firing, schedule_input
from headgate.jobs.testing import Harness

FIRED_AT = datetime(2026, 5, 4, 8, tzinfo=UTC)


class Entry(BaseModel):
    account: str = "main"


app = App("bank")
ledger = app.queue("ledger", fifo=True, priorities=[Priority.NORMAL])


@ledger.job("book", group_by=lambda entry: entry.account)
def book(_entry: Entry) -> None: ...


@ledger.job("audit", schedule=cron("0 8 * * ? *"))
def audit(_entry: Entry) -> None: ...


@app.job("mail")
def mail(_entry: Entry) -> None: ...


QUEUE = "bank-ledger-normal.fifo"


def test_a_fifo_group_has_fifo_queues_and_fifo_dead_letter_queues() -> None:
    [spec] = [spec for spec in app.topology.queues if spec.group == "ledger"]
    assert (spec.name, spec.dlq_name, spec.fifo) == (QUEUE, "bank-ledger-normal-dlq.fifo", True)


def test_a_jobs_group_comes_from_the_types_group_by() -> None:
    jobs = Harness(app)
    job = jobs.client.submit(book, Entry(account="a-1"))
    [message] = jobs.sqs.messages(QUEUE)
    assert (message.group, message.deduplication_id) == ("a-1", job.id)


def test_a_submission_names_a_group_or_else_the_tenant_is_one() -> None:
    jobs = Harness(app)
    jobs.client.submit(audit, Entry(), group="g")
    jobs.client.submit(audit, Entry(), tenant=Tenant(org="org-1"))
    assert [message.group for message in jobs.sqs.messages(QUEUE)] == ["g", "org-1"]


def test_without_a_group_the_submission_is_refused_and_says_what_to_write() -> None:
    with pytest.raises(OptionInvalid, match=r"group_by="):
        Harness(app).client.submit(audit, Entry())


def test_a_group_is_refused_on_a_queue_that_keeps_no_order() -> None:
    with pytest.raises(OptionInvalid, match=r"FIFO queue, and .* is not one"):
        Harness(app).client.submit(mail, Entry(), group="g")
    with pytest.raises(ConfigurationError, match="fifo=True"):
        App("shop").define("mail", Entry, group_by=lambda entry: entry.account)


def test_a_firing_that_is_invoked_twice_is_one_message_of_the_types_own_group() -> None:
    fired = schedule_input(app, audit) | {
        "schedule_arn": "arn",
        "scheduled_time": FIRED_AT.isoformat(),
        "execution_id": "e",
        "attempt_number": "1",
    }
    first, second = (Firing.model_validate(fired).message(FIRED_AT) for _ in range(2))
    assert first.group == "audit"
    assert first.deduplication_id == second.deduplication_id is not None


def test_a_schedule_s_own_payload_decides_its_fifo_group() -> None:
    bank = App("bank")
    close = bank.queue("ledger", fifo=True).define(
        "close",
        Entry,
        schedule=cron("0 0 * * ? *"),
        schedule_payload=Entry(account="a-7"),
        group_by=lambda entry: entry.account,
    )
    assert schedule_input(bank, close)["fifo_group"] == "a-7"


def failing(_entry: Entry) -> str:
    raise KeyError("account")


@pytest.mark.parametrize(
    ("group_by", "fault"),
    [
        (lambda _entry: "", "group_by made ''"),
        (lambda _entry: "Ada Lovelace", "group_by made 'Ada Lovelace'"),
        (lambda _entry: None, "group_by made None"),
        (lambda _entry: 7, "group_by made 7"),
        (failing, "group_by raised KeyError"),
    ],
)
def test_a_schedule_without_a_valid_fifo_group_is_refused_before_a_deploy(
    group_by: Callable[[Any], Any], fault: str
) -> None:
    bank = App("bank")
    nightly = bank.queue("ledger", fifo=True).define(
        "close", Entry, schedule=cron("0 0 * * ? *"), group_by=group_by
    )
    with pytest.raises(ConfigurationError, match=f"'close' has a schedule .*{fault}"):
        schedule_input(bank, nightly)


def test_a_dead_letter_goes_to_the_fifo_dead_letter_queue_and_keeps_its_group() -> None:
    shop = App("shop")
    orders = shop.queue("orders", fifo=True, priorities=[Priority.NORMAL])

    @orders.job("ship", group_by=lambda entry: entry.account)
    def ship(_entry: Entry) -> None:
        raise ValueError("no such address")

    jobs = Harness(shop)
    jobs.client.submit(ship, Entry(account="a-1"))
    jobs.drain()
    [letter] = jobs.dead_letters(ship)
    assert letter.group == "a-1"
