"""The port of `headgate verify`: an app that is deployed somewhere, and what to do to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from headgate.jobs.aws.sqs.transport import RequestMade
from headgate.jobs.client.async_client import AsyncClient
from headgate.jobs.definitions.app import App


class RequestCount:
    """Counts requests to SQS; the observer of a transport."""

    def __init__(self) -> None:
        self.total = 0

    def __call__(self, _request: RequestMade) -> None:
        self.total += 1


class VerifySite(Protocol):
    """A deployed stage of `ops.verify.steps.verify_app`, on AWS or on this machine."""

    @property
    def app(self) -> App: ...

    @property
    def client(self) -> AsyncClient: ...

    @property
    def lacks(self) -> Mapping[str, str]:
        """The needs that the site can't meet, by their `SiteNeed`, each with the reason."""

    def now(self) -> datetime:
        """Return the time, aware."""

    def requests(self) -> int:
        """Return the number of requests to SQS so far, of this process."""

    async def stop_worker(self) -> None:
        """Stop one worker as AWS would, with another to take its place."""

    async def alarms(self) -> Mapping[str, str]:
        """Return the state of each alarm by its name: ``OK``, ``ALARM``, ``INSUFFICIENT_DATA``."""

    async def excess(self) -> Sequence[str]:
        """Return the actions that the workers' role is allowed and never needs."""
