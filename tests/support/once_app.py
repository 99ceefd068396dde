"""An app whose one job runs once, and ends only after its test has seen a worker die of it."""

from __future__ import annotations

import asyncio
import os
from datetime import timedelta
from pathlib import Path

from pydantic import BaseModel

from headgate import App, Backoff, JobContext, Lane, Priority, Retry
from tests.support.fixture_app import DIRECTORY, journal_in

VISIBILITY = timedelta(seconds=2)

MANY = 100
"""Attempts allowed: without records each delivery counts as one, and dying workers use them up."""


class Nothing(BaseModel):
    """The payload."""


def mark_of(directory: Path, job_id: str) -> Path:
    """Return the file by which the test lets the job end."""
    return directory / f"{job_id}.killed"


def make_app(stage: str | None = None) -> App:
    """Return the app, in a stage of its own for each test; None takes the environment's."""
    app = App("once", stage=stage, records="off")
    lane = Lane(visibility=VISIBILITY, start_within=timedelta(minutes=1), share=0.0)
    queue = app.queue(
        "payments",
        priorities=[Priority.NORMAL],
        lanes={Priority.NORMAL: lane},
        retry=Retry(max_attempts=MANY, backoff=Backoff.fixed(1)),
    )
    queue.job("charge", once=True)(_charge)
    return app


async def _charge(_nothing: Nothing, ctx: JobContext) -> int:
    directory = Path(os.environ[DIRECTORY])
    journal = journal_in(directory)
    journal.write("start", ctx.id)
    while not mark_of(directory, ctx.id).exists():  # noqa: ASYNC110 - the test is another process
        await asyncio.sleep(0.01)
    journal.write("done", ctx.id)
    return os.getpid()


app = make_app()
