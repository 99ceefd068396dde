"""What may start now, by the limits of the app, its queues and its types."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from jobs.app import App
from jobs.clock import Clock
from jobs.delivery import Job
from jobs.events import Events
from jobs.outcome import Outcome
from jobs.ports import Table
from jobs.settlement import DeadLetter, RetryAfter
from jobs.topology import QueueSpec


@dataclass(frozen=True, slots=True)
class Block:
    """What holds a job back."""

    limit: str
    retry_in_s: float


class Gate:
    """Open, as long as no limit is enforced."""

    def __init__(
        self,
        app: App,
        *,
        clock: Clock,
        events: Events,
        rng: random.Random,
        table: Table | None,
        worker: str,
        on_change: Callable[[], None],
    ) -> None:
        pass

    def block(self, job: Job) -> Block | None:
        """Nothing holds it back."""
        return None

    def closed(self, queue: QueueSpec) -> float | None:
        """Nothing is closed."""
        return None

    def start(self, job: Job) -> object:
        """It starts."""
        return job

    def end(self, ticket: object, outcome: Outcome, *, retryable: bool) -> None:
        """It has ended."""

    def retry(self, job: Job, action: RetryAfter) -> RetryAfter | DeadLetter:
        """What becomes of its retry."""
        return action

    def budgets_left(self) -> Mapping[str, float]:
        """None."""
        return {}

    async def run(self) -> None:
        """Nothing."""
        await asyncio.Event().wait()

    async def close(self) -> None:
        """Nothing."""


def needs_table(app: App) -> bool:
    """Whether a limit of the app holds for the fleet."""
    return False
