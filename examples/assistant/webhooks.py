"""The queue of webhooks: signed, retried, and stopped where nobody answers."""

from __future__ import annotations

import json
from datetime import timedelta
from http import HTTPStatus

import aiohttp
from pydantic import BaseModel, ConfigDict, JsonValue

from examples.assistant import signing
from examples.assistant.billing import Notice, send_notice
from examples.assistant.clock import Clock
from examples.assistant.outbound import TIMEOUT_S, Http, Response
from examples.assistant.store import Endpoint, Store
from examples.assistant.tenancy import data_of
from headgate import (
    Backoff,
    Breaker,
    Concurrency,
    DoNotRetry,
    JobContext,
    Priority,
    Queue,
    RateLimit,
    Retry,
)


class Webhook(BaseModel):
    """An event to tell a customer's endpoint of."""

    model_config = ConfigDict(frozen=True)

    endpoint: str
    event: str
    data: dict[str, JsonValue] = {}


class EndpointError(Exception):
    """An endpoint answered with an error; its response tells whether to try again, and when."""

    def __init__(self, response: Response) -> None:
        self.response = response
        super().__init__(f"the endpoint answered {response.status_code}")


def by_endpoint(webhook: Webhook) -> str:
    """Return the endpoint by which limits and breakers count."""
    return webhook.endpoint


webhooks = Queue(
    "webhooks",
    priorities=[Priority.HIGH, Priority.LOW],
    retry=Retry(max_attempts=5, backoff=Backoff.exponential(base=5, cap=3_600)),
    concurrency=Concurrency(5, key=by_endpoint, scope="fleet"),
    rate_limit=RateLimit(50, per=1, key=by_endpoint, scope="fleet"),
    # An endpoint that is down keeps its own webhooks waiting, and no other's.
    breaker=Breaker(0.5, min_runs=20, open_for=60, key=by_endpoint),
)


@webhooks.job(
    "dispatch-webhook",
    priority=Priority.HIGH,
    timeout=timedelta(seconds=TIMEOUT_S + 5),  # the request ends by itself after ten
)
async def dispatch_webhook(
    webhook: Webhook, store: Store, http: Http, clock: Clock, ctx: JobContext
) -> int:
    """Send a webhook; return the status.

    HTTP 429 and 5xx, time-outs and lost connections are retried; any other error is not.
    """
    endpoint = data_of(store, ctx).endpoints.get(webhook.endpoint)
    if endpoint is None:
        raise DoNotRetry("there is no such endpoint")
    if endpoint.disabled:
        raise DoNotRetry(f"the endpoint is disabled: {endpoint.disabled}")
    try:
        response = await _sent(webhook, endpoint, http, clock, ctx.id)
    except (aiohttp.ClientError, TimeoutError, EndpointError) as error:
        if endpoint.failed():
            await _tell(ctx, webhook, endpoint)
            raise DoNotRetry(f"the endpoint is disabled: {endpoint.disabled}") from error
        raise
    endpoint.succeeded()
    return response.status_code


async def _sent(
    webhook: Webhook, endpoint: Endpoint, http: Http, clock: Clock, delivery: str
) -> Response:
    body = json.dumps(
        {"id": delivery, "event": webhook.event, "data": webhook.data}, sort_keys=True
    ).encode()
    headers = {
        "Content-Type": "application/json",
        "X-Assistant-Delivery": delivery,  # the same for every attempt: receivers can drop repeats
        signing.HEADER: signing.signature(endpoint.secret, body, clock.now()),
    }
    response = await http.post(endpoint.url, body, headers)
    if response.status_code >= HTTPStatus.MULTIPLE_CHOICES:
        raise EndpointError(response)
    return response


async def _tell(ctx: JobContext, webhook: Webhook, endpoint: Endpoint) -> None:
    text = f"Webhooks to {endpoint.url} have been stopped: {endpoint.disabled}"
    await ctx.submit(send_notice, Notice(key=f"endpoint-{webhook.endpoint}", text=text))
