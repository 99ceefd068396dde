"""Handlers in processes of their own."""

from __future__ import annotations

from typing import Any

from jobs.context import JobContext
from jobs.delivery import Job


class ChildPool:
    """Being written."""

    @property
    def free(self) -> int:
        """Children that could take a job."""
        return 0

    async def call(self, job: Job, body: str, ctx: JobContext) -> Any:
        """Run it."""
