"""Webhooks over real HTTP on the loopback: signed, retried, and stopped where nobody answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from http import HTTPStatus

import aiohttp
import pytest

from examples.assistant import signing
from examples.assistant.billing import send_notice
from examples.assistant.outbound import TIMEOUT_S, connections
from examples.assistant.receiver import Receiver, serving
from examples.assistant.store import DISABLED_AFTER, Endpoint, TenantData
from examples.assistant.webhooks import Webhook, dispatch_webhook, webhooks
from headgate import AsyncJobHandle, DeadLetterFilter
from headgate.events import JobRetryScheduled
from headgate.testing import Harness, VirtualClock

SECRET = b"shared with the customer"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
EVENT = Webhook(endpoint="crm", event="memory.created", data={"text": "tea"})


@pytest.fixture
async def receiver(data: TenantData, clock: VirtualClock) -> AsyncIterator[Receiver]:
    async with serving(Receiver(SECRET, clock.now)) as found:
        data.endpoints["crm"] = Endpoint(url=found.url, secret=SECRET)
        yield found


async def dispatch(jobs: Harness) -> AsyncJobHandle[int]:
    handle = await jobs.async_client.submit(dispatch_webhook, EVENT, tenant="org-1")
    await jobs.adrain()
    return handle


# --- signatures ----------------------------------------------------------------------------------


def test_a_signature_is_right_for_its_body_secret_and_time() -> None:
    header = signing.signature(SECRET, b"{}", NOW)
    assert header == ("t=1767225600,v1=" + header.partition("v1=")[2])
    signing.verify(SECRET, b"{}", header, NOW + signing.TOLERANCE)


@pytest.mark.parametrize(
    ("secret", "body", "later"),
    [
        (b"another", b"{}", timedelta(0)),
        (SECRET, b"{ }", timedelta(0)),
        (SECRET, b"{}", signing.TOLERANCE + timedelta(seconds=1)),
        (SECRET, b"{}", -signing.TOLERANCE - timedelta(seconds=1)),
    ],
)
def test_what_was_changed_or_kept_too_long_is_refused(
    secret: bytes, body: bytes, later: timedelta
) -> None:
    header = signing.signature(SECRET, b"{}", NOW)
    with pytest.raises(signing.SignatureInvalid):
        signing.verify(secret, body, header, NOW + later)


@pytest.mark.parametrize("header", ["", "v1=ab", "t=x,v1=ab", "t=1767225600", "t=²,v1=ab"])
def test_a_header_that_is_no_signature_is_refused(header: str) -> None:
    with pytest.raises(signing.SignatureInvalid):
        signing.verify(SECRET, b"{}", header, NOW)


# --- deliveries ----------------------------------------------------------------------------------


async def test_a_webhook_arrives_signed_and_with_its_job_s_id(
    jobs: Harness, receiver: Receiver
) -> None:
    handle = await dispatch(jobs)
    assert await handle.result() == HTTPStatus.OK
    assert receiver.received == [
        {"id": handle.id, "event": "memory.created", "data": {"text": "tea"}}
    ]


async def test_a_wrong_secret_is_not_tried_again(
    jobs: Harness, receiver: Receiver, data: TenantData
) -> None:
    data.endpoints["crm"].secret = b"rotated"
    handle = await dispatch(jobs)
    assert await handle.state() == "dead"
    assert receiver.received == []
    [letter] = jobs.dead_letters(dispatch_webhook)
    assert (letter.attributes["Reason"], letter.attributes["Attempts"]) == ("permanent-error", "1")


@pytest.mark.parametrize(
    "status", [HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.INTERNAL_SERVER_ERROR]
)
async def test_a_server_s_error_is_retried_with_the_same_id(
    jobs: Harness, receiver: Receiver, data: TenantData, status: HTTPStatus
) -> None:
    receiver.answers.append(status)
    handle = await dispatch(jobs)
    assert await handle.result() == HTTPStatus.OK
    assert [each["id"] for each in receiver.received] == [handle.id] * 2
    assert data.endpoints["crm"].failures == 0


async def test_one_that_is_too_many_waits_as_long_as_the_endpoint_asks(
    jobs: Harness, receiver: Receiver
) -> None:
    receiver.answers.append(HTTPStatus.TOO_MANY_REQUESTS)
    await dispatch(jobs)
    [retry] = [event for event in jobs.events if isinstance(event, JobRetryScheduled)]
    assert 7 <= retry.delay_s <= 9


async def test_an_endpoint_that_keeps_failing_is_disabled_and_its_owner_told(
    jobs: Harness, receiver: Receiver, data: TenantData
) -> None:
    receiver.answers.extend([HTTPStatus.BAD_GATEWAY] * DISABLED_AFTER)
    for _ in range(3):
        await dispatch(jobs)
    endpoint = data.endpoints["crm"]
    assert endpoint.disabled == f"{DISABLED_AFTER} deliveries failed in a row"
    assert len(receiver.received) == DISABLED_AFTER  # the third webhook was not sent
    assert len(jobs.dead_letters(dispatch_webhook)) == 3
    assert len(jobs.completed(send_notice)) == 1
    assert endpoint.url in data.notices["endpoint-crm"]


async def test_once_it_is_enabled_again_its_webhooks_are_replayed(
    jobs: Harness, receiver: Receiver, data: TenantData
) -> None:
    data.endpoints["crm"].disabled = "by hand"
    await dispatch(jobs)
    data.endpoints["crm"].disabled = ""
    report = await jobs.async_client.dead_letters.replay(DeadLetterFilter())
    await jobs.adrain()
    assert (report.sent, len(receiver.received)) == (1, 1)


async def test_a_lost_connection_is_retried_and_counts(jobs: Harness, data: TenantData) -> None:
    async with serving(Receiver(SECRET)) as gone:
        data.endpoints["crm"] = Endpoint(url=gone.url, secret=SECRET)
    await dispatch(jobs)
    [letter] = jobs.dead_letters(dispatch_webhook)
    assert letter.attributes["Reason"] == "attempts-exhausted"
    assert data.endpoints["crm"].failures == webhooks.retry.max_attempts == 5


async def test_a_request_may_take_ten_seconds() -> None:
    async with connections() as http:
        assert http._session.timeout == aiohttp.ClientTimeout(total=10)
    assert dispatch_webhook.timeout == timedelta(seconds=TIMEOUT_S + 5)
