"""The bridge as it is deployed: its handler, over SQS and a table in memory."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from headgate.jobs.core.events import Event, Events
from headgate.jobs.schedules.bridging import Bridge
from headgate.jobs.schedules.routes import Routes
from headgate.lambdas import bridge
from tests.support.lambda_context import lambda_context

if TYPE_CHECKING:
    from headgate import App
    from headgate.jobs.core.clock import Clock
    from headgate.jobs.testing import MemorySqs, MemoryTable


class DeployedBridge:
    """Invokes `lambdas.bridge.handler`, each time as in an execution environment of its own.

    Args:
        app: the app that it is deployed with.
        sqs: where it sends.
        table: where it remembers what it has sent; None is a bridge without a table.
        clock: tells the time.
    """

    def __init__(self, app: App, sqs: MemorySqs, table: MemoryTable | None, clock: Clock) -> None:
        self._app = app
        self._sqs = sqs
        self._table = table
        self._clock = clock
        self.invoked: list[str] = []
        """The inputs, in order."""
        self.told: list[Event] = []
        """Its events, in order."""

    def __call__(self, text: str) -> None:
        """Invoke it with an input, as JSON; what `MemoryScheduler` fires."""
        self.invoked.append(text)
        self.handle(json.loads(text))

    def repeat(self) -> None:
        """Invoke it with the latest input once more, as after an answer that was lost."""
        self(self.invoked[-1])

    def handle(self, event: dict[str, Any]) -> dict[str, str]:
        """Invoke the handler; return its answer."""
        table = self._table.sync if self._table is not None else None
        routes = Routes.from_text(Routes.of(self._app).to_text())  # as its asset has them
        made = Bridge(
            self._sqs.sync, table, self._now, routes=routes, events=Events(self.told.append)
        )
        with patch.object(bridge, "_bridge", lambda: made):
            return bridge.handler(event, lambda_context())

    def _now(self) -> datetime:
        return self._clock.now()
