"""The checks of an asynchronous call's jobs, made in a thread if they take long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Any

from headgate.jobs.client.submitting.turns import Turns
from headgate.jobs.definitions.app import App
from headgate.jobs.records.results import is_large
from headgate.jobs.submission.prepare import Submission


class Preparing:
    """Prepares the jobs of one client's calls, in the order of the calls for FIFO queues."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._turns = Turns()

    async def prepared(
        self,
        prepare: Callable[[], list[Submission]],
        queues: Collection[str],
        payloads: Sequence[Any],
    ) -> list[Submission]:
        """Return the jobs of one call, checked; large ones are checked in a thread.

        Args:
            prepare: checks the jobs, and returns their submissions.
            queues: the queue groups of the jobs.
            payloads: the payloads of the jobs.
        """
        waits = any(self._turns.busy(queue) and self._is_fifo(queue) for queue in queues)
        if not is_large(payloads) and not waits:
            return prepare()
        async with self._turns.of(queues):
            return await asyncio.to_thread(prepare)

    async def all_over(self) -> None:
        """Return when nothing is being prepared."""
        await self._turns.all_over()

    def _is_fifo(self, queue: str) -> bool:
        return queue in self._app.queues and self._app.queues[queue].fifo
