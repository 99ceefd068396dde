"""The host of an app's runs, as each run sees it: a worker, a Lambda function or the test kit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass

from headgate.jobs.execution.calling.means import Means

Backlog = Callable[[str], Awaitable[int]]
"""Returns the number of visible messages in a queue, given its physical name."""


async def _no_backlog(_queue: str) -> int:
    return 0


@dataclass(slots=True)
class Executor:
    """Executes an app's deliveries, each of them as a `jobs.execution.run.Run`.

    Args:
        means: the app, and the means of calling its handlers.
        backlog: measures queues for adaptive backoffs; by default every queue looks empty.
        records: whether a `Recorder` tells attempts from deliveries (`jobs.execution.recording`).
        backstop: whether a job without records that is delivered much too often is taken for one
            that kills its worker; false where a delivery may never have reached a worker.
        scheduled: whether the host has a scheduler, so that one-time schedules can hold jobs.
        received: whether its messages come from queues; one that was made in this process has not
            been sealed.
    """

    means: Means
    _: KW_ONLY
    backlog: Backlog = _no_backlog
    records: bool = False
    backstop: bool = True
    scheduled: bool = False
    received: bool = True
