"""The endpoint that receives webhooks, and the app that delivers them."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from datetime import timedelta

from pydantic import BaseModel

from headgate import App, Backoff, Retry
from headgate.jobs.definitions.job_type import JobType

ANSWER_S = 0.1
"""Seconds that the endpoint takes to answer."""

REFUSAL_S = 0.02
"""Seconds that a refused request takes."""

REFUSED = "connection refused"
"""The message of its error."""

MAX_ATTEMPTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """The numbers of the story."""

    webhooks: int = 45_000
    """Webhooks that died while the endpoint was down."""
    most_per_s: int = 200
    """Requests a second above which the endpoint falls over."""
    quiet_s: float = 30.0
    """Seconds without any request after which it stands up again."""
    spread: timedelta = timedelta(minutes=10)
    """The ``spread`` of the replay."""
    canary: int = 20
    """The ``canary`` of the replay."""
    redrive_per_s: int = 500
    """Messages a second of AWS's redrive; this is its highest rate.
    https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_StartMessageMoveTask.html"""
    workers: int = 4
    concurrency: int = 50


class EndpointDown(ConnectionError):
    """The endpoint refuses the request."""


class Endpoint:
    """A fragile endpoint, which counts its requests.

    Args:
        story: says what it stands.
    """

    def __init__(self, story: Story) -> None:
        self._story = story
        self._lately: deque[float] = deque()
        """The times of the requests of the last second."""
        self._is_down = False
        self._last_s = 0.0
        self.requests: list[float] = []
        """The time of each request, in seconds of the loop."""
        self.falls = 0
        """Number of times that it fell over."""

    async def post(self) -> None:
        """Take a request.

        Raises:
            EndpointDown: it is refused.
        """
        now = asyncio.get_running_loop().time()
        self.requests.append(now)
        if self._refuses(now):
            await asyncio.sleep(REFUSAL_S)
            raise EndpointDown(REFUSED)
        await asyncio.sleep(ANSWER_S)

    def _refuses(self, now: float) -> bool:
        quiet_s, self._last_s = now - self._last_s, now
        if self._is_down and quiet_s < self._story.quiet_s:
            return True
        self._is_down = False
        self._lately.append(now)
        while self._lately[0] <= now - 1:
            self._lately.popleft()
        if len(self._lately) > self._story.most_per_s:
            self._is_down = True
            self.falls += 1
            self._lately.clear()
        return self._is_down


class Webhook(BaseModel):
    """The payload of a delivery."""

    number: int


def build(endpoint: Endpoint) -> tuple[App, JobType[Webhook, None]]:
    """Return the app, and the type of its deliveries."""
    app = App("hooks", priorities="all")
    retry = Retry(max_attempts=MAX_ATTEMPTS, backoff=Backoff.exponential(base=2, factor=3, cap=60))
    deliver = app.define("deliver-webhook", Webhook, retry=retry)

    async def post(_webhook: Webhook) -> None:
        await endpoint.post()

    deliver.handler(post)
    return app, deliver
