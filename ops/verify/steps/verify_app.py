"""The app that `headgate verify` deploys and drives: a job type for each thing that it tries.

A copy of this file is deployed, as a user's app would be. So it imports public names alone.
"""

from __future__ import annotations

import asyncio
import os
from datetime import timedelta
from uuid import uuid4

from pydantic import BaseModel

from headgate import App, Backoff, DoNotRetry, JobContext, Priority, Queue, Retry, Schedule, Unique

NAME = "headgate"

ORDERED = "ordered"
"""The queue group that is FIFO, where schedules hold every delay."""

FUNCTIONS = "functions"
"""The queue group whose jobs a Lambda function runs."""

FLAKY_WAITS_S = (2, 3)
"""The backoff of the job that fails twice."""


class Note(BaseModel):
    """A text that comes back as the result."""

    text: str = ""


class Doom(BaseModel):
    """The payload of a job that is given up if it says so."""

    doomed: bool = True


class Nap(BaseModel):
    """A time to spend."""

    seconds: float


def make_app(stage: str | None = None) -> App:
    """Return the app of a stage; None takes ``HEADGATE_STAGE``."""
    app = App(
        NAME,
        stage=stage,
        records="full",
        keep=timedelta(days=1),
        default_queue=Queue("jobs", priorities=tuple(Priority)),
    )
    flaky_retry = Retry(max_attempts=3, backoff=Backoff.steps(*FLAKY_WAITS_S))
    app.job("echo")(echo)
    app.job("measure")(measure)
    app.job("flaky", retry=flaky_retry)(flaky)
    app.job("doomed")(doomed)
    app.job("counted", once=True)(count)
    app.job("single", unique=Unique(within=timedelta(hours=1)))(echo)
    app.job("paused")(echo)
    app.job("nap")(nap)
    app.job("chime")(chime)
    app.job("tick", schedule=Schedule.rate(timedelta(minutes=1)))(chime)
    ordered = app.queue(ORDERED, priorities=[Priority.NORMAL], fifo=True)
    ordered.job("in-order", group_by=lambda _note: "one")(echo)
    functions = app.queue(FUNCTIONS, priorities=[Priority.NORMAL])
    functions.job("in-function", timeout=timedelta(seconds=20))(in_function)
    return app


async def echo(note: Note) -> str:
    """Return the text."""
    return note.text


async def count() -> str:
    """Return a text that no other run returns."""
    return str(uuid4())


async def measure(note: Note) -> int:
    """Return the number of the text's characters."""
    return len(note.text)


async def flaky(ctx: JobContext) -> int:
    """Fail twice."""
    if ctx.attempt <= len(FLAKY_WAITS_S):
        raise ConnectionError("not yet")
    return ctx.attempt


async def doomed(doom: Doom) -> None:
    """Be given up, if the payload says so."""
    if doom.doomed:
        raise DoNotRetry("the payload says so")


async def nap(nap: Nap) -> None:
    """Take some time."""
    await asyncio.sleep(nap.seconds)


async def chime() -> None:
    """Do nothing, at a time."""


async def in_function() -> bool:
    """Return True if a Lambda function runs it."""
    return "AWS_LAMBDA_FUNCTION_NAME" in os.environ
