"""The checks of an asynchronous call's jobs: at once, or in a thread where they take their time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Any

from headgate.jobs.client.turns import Turns
from headgate.jobs.definitions.app import App
from headgate.jobs.records.results import is_large
from headgate.jobs.submission.prepare import Submission


class Preparing:
    """Prepares the jobs of one client's calls; later ones of a FIFO queue follow earlier ones."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._turns = Turns()

    async def prepared(
        self,
        prepare: Callable[[], list[Submission]],
        queues: Collection[str],
        payloads: Sequence[Any],
    ) -> list[Submission]:
        """The jobs of one call, checked; large ones in a thread.

        Args:
            prepare: checks them.
            queues: the groups that they go to.
            payloads: what they carry.
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
