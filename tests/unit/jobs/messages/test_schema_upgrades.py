"""Payloads of older schemas are read by newer types, one step at a time."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from headgate import App, Priority
from headgate.jobs.core.ports.transport import ReceivedMessage
from headgate.jobs.errors import ConfigurationError, PayloadInvalid
from headgate.jobs.execution.delivery import Delivery, Job, load

GOLDEN = Path(__file__).parents[3] / "compat" / "v1" / "minimal.json"


class Email(BaseModel):
    """The third version of the payload."""

    recipients: list[str]
    locale: str


def to_list(values: Any) -> Any:
    """1 → 2: ``to`` becomes a list."""
    values["recipients"] = [values.pop("to")]
    return values


def with_locale(values: Any) -> Any:
    """2 → 3: ``locale`` is new."""
    return values | {"locale": "en"}


def declared(**options: Any) -> App:
    app = App("shop")

    @app.job("send-email", **options)
    async def send(_email: Email) -> None: ...

    return app


def read(app: App, body: str) -> Job:
    message = ReceivedMessage(
        message_id="m", receipt="r", body=body, receive_count=1, sent_at=datetime.now(UTC)
    )
    queue = app.topology.queue("jobs", Priority.NORMAL)
    return load(app, Delivery(message=message, queue=queue, received_at=0.0))


def body_of(schema: int, payload: Any) -> str:
    message = json.loads(GOLDEN.read_text())
    return json.dumps(message | {"schema": schema, "payload": payload})


THIRD = {"schema": 3, "upgrade": {1: to_list, 2: with_locale}}


def test_a_message_of_version_1_from_long_ago_is_read_by_today_s_type() -> None:
    job = read(declared(**THIRD), GOLDEN.read_text())

    assert job.payload == Email(recipients=["ada@example.com"], locale="en")


def test_only_the_steps_that_are_needed_are_taken() -> None:
    app = declared(**THIRD)

    second = read(app, body_of(2, {"recipients": ["a"]}))
    third = read(app, body_of(3, {"recipients": ["a"], "locale": "de"}))

    assert second.payload == Email(recipients=["a"], locale="en")
    assert third.payload == Email(recipients=["a"], locale="de")


def test_a_step_that_changes_what_it_is_handed_leaves_the_message_as_it_was() -> None:
    job = read(declared(**THIRD), GOLDEN.read_text())

    assert job.envelope.payload == {"to": "ada@example.com"}


def test_a_type_without_upgrades_reads_older_payloads_as_they_are() -> None:
    job = read(declared(schema=3), body_of(1, {"recipients": ["a"], "locale": "de"}))

    assert job.payload == Email(recipients=["a"], locale="de")


def test_a_payload_older_than_the_first_upgrade_is_refused() -> None:
    app = declared(schema=3, upgrade={2: with_locale})

    with pytest.raises(PayloadInvalid, match="of schema 1; the type upgrades those from 2 on"):
        read(app, GOLDEN.read_text())


def test_a_failed_upgrade_makes_the_payload_invalid_without_showing_it() -> None:
    def fails(values: Any) -> Any:
        raise KeyError(f"no cents in {values}")

    app = declared(schema=2, upgrade={1: fails})

    with pytest.raises(PayloadInvalid) as refused:
        read(app, GOLDEN.read_text())
    assert str(refused.value) == (
        "the payload of 'send-email' can't be upgraded from schema 1 to 2: its upgrade raised "
        "KeyError"
    )
    assert refused.value.__context__ is None


def test_what_an_upgrade_makes_of_it_is_checked_by_the_model() -> None:
    app = declared(schema=2, upgrade={1: with_locale})

    with pytest.raises(PayloadInvalid, match="recipients: Field required"):
        read(app, GOLDEN.read_text())


async def _async_step(values: Any) -> Any:
    return values


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"schema": 3, "upgrade": {1: to_list}}, "none from 2"),
        ({"schema": 4, "upgrade": {1: to_list, 3: to_list}}, "from version 1 to 4.*none from 2"),
        ({"schema": 2, "upgrade": {2: to_list}}, "versions before schema=2, from 1 on, got 2"),
        ({"schema": 2, "upgrade": {0: to_list, 1: to_list}}, "from 1 on, got 0"),
        ({"schema": 2, "upgrade": {"1": to_list}}, "from 1 on, got '1'"),
        ({"upgrade": {1: to_list}}, "versions before schema=1"),
        ({"schema": 2, "upgrade": {1: "to_list"}}, r"\[1\] must be a plain function"),
        ({"schema": 2, "upgrade": {1: _async_step}}, r"\[1\] must be a plain function"),
        ({"schema": 2, "upgrade": [to_list]}, "must map versions to functions"),
    ],
)
def test_upgrades_that_can_not_work_are_refused_where_they_are_declared(
    options: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"'send-email': upgrade.*{complaint}"):
        declared(**options)
