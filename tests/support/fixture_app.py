"""An app with a job for every way to run and to fail, on queues that differ in visibility.

Every behaviour exists on each queue: the type of ``slow`` on the queue ``brief`` is ``brief-slow``.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from pydantic import BaseModel

from headgate import App, Backoff, JobContext, Lane, Priority, Retry
from headgate.jobs.core.retention import RecordsLevel, check_level
from tests.support.journal import Journal

APP_PATH = "tests.support.fixture_app:app"

DIRECTORY = "FIXTURE_DIR"
"""The variable that names the directory of `journal_in` and `gate_in`."""

RECORDS = "FIXTURE_RECORDS"
"""The variable that holds the level of records that workers write."""

FLAKY = "it fails at first"
"""The message of the one error of ``flaky`` jobs."""

KILLED = 86
"""The exit code of a worker ended by its job."""

QUEUES = {
    "steady": timedelta(seconds=60),  # a message hidden here stays hidden for the whole test
    "short": timedelta(seconds=4),
    "brief": timedelta(seconds=2),
}
"""Queue groups by their visibility timeout; each has one SQS queue."""


class Work(BaseModel):
    """The steps of a job."""

    seconds: float = 0
    note: str = ""
    """A stand-in for data that must never be in a log."""


def journal_in(directory: Path) -> Journal:
    """Return the journal that handlers write to."""
    return Journal(directory / "journal")


def gate_in(directory: Path) -> Path:
    """Return the file that ``gated`` jobs wait for."""
    return directory / "gate"


async def quick(_work: Work, ctx: JobContext) -> None:
    _say("start", ctx)
    _say("done", ctx)


async def slow(work: Work, ctx: JobContext) -> None:
    _say("start", ctx)
    try:
        await asyncio.sleep(work.seconds)
    except asyncio.CancelledError:
        _say("cancelled", ctx)
        raise
    _say("done", ctx)


async def gated(_work: Work, ctx: JobContext) -> None:
    _say("start", ctx)
    try:
        while not gate_in(_directory()).exists():  # noqa: ASYNC110 - the test is another process
            await asyncio.sleep(0.02)
    except asyncio.CancelledError:
        _say("cancelled", ctx)
        raise
    _say("done", ctx)


def blocking(work: Work, ctx: JobContext) -> None:
    _say("start", ctx)
    time.sleep(work.seconds)
    _say("done", ctx)


async def stubborn(work: Work, ctx: JobContext) -> None:
    _say("start", ctx)
    end = time.monotonic() + work.seconds
    while (left := end - time.monotonic()) > 0:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(left)
    _say("done", ctx)


async def failing(_work: Work, ctx: JobContext) -> None:
    _say("start", ctx)
    raise RuntimeError("it fails every time")


async def flaky(_work: Work, ctx: JobContext) -> None:
    _say("start", ctx)
    if ctx.attempt == 1:
        raise ConnectionError(FLAKY)
    _say("done", ctx)


async def poisonous(_work: Work, ctx: JobContext) -> None:
    _say("start", ctx)
    os._exit(KILLED)


async def lethal(_work: Work, ctx: JobContext) -> None:
    _say("start", ctx)
    if ctx.attempt == 1:
        os._exit(KILLED)
    _say("done", ctx)


ASYNC_BEHAVIOURS = (quick, slow, gated, stubborn, failing, flaky, lethal)
MANY = 20
"""More attempts than crashes are allowed."""


def make_app(stage: str | None = None) -> App:
    """Return the app, in a stage of its own for each test; None takes the environment's."""
    app = App("fixture", stage=stage, records=_records())
    for name, visibility in QUEUES.items():
        queue = app.queue(
            name,
            priorities=[Priority.NORMAL],
            lanes={
                Priority.NORMAL: Lane(
                    visibility=visibility, start_within=timedelta(minutes=1), share=0.0
                )
            },
            retry=Retry(max_attempts=2, backoff=Backoff.fixed(1)),
        )
        for behaviour in ASYNC_BEHAVIOURS:
            queue.job(f"{name}-{behaviour.__name__}")(behaviour)
        queue.job(f"{name}-blocking")(blocking)
        queue.job(f"{name}-poisonous", retry=Retry(max_attempts=MANY))(poisonous)
    return app


def _records() -> RecordsLevel:
    return check_level(os.environ.get(RECORDS, "off"))


def _directory() -> Path:
    return Path(os.environ[DIRECTORY])


def _say(event: str, ctx: JobContext) -> None:
    journal_in(_directory()).write(event, ctx.id)


@dataclass(frozen=True, slots=True)
class Fixture:
    """An app that tests run in separate processes."""

    path: str
    """The app's path, as an argument of ``headgate worker``."""
    make: Callable[[str], App]
    """Make the same app in a stage."""


FIXTURE = Fixture(APP_PATH, make_app)

app = make_app()
