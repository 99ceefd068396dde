"""An app whose handlers run in child processes, with resources and code around each attempt."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from datetime import timedelta

from headgate import App, Backoff, JobContext, Priority, Retry
from tests.support.isolated_app import Work

app = App("surrounded")
_queue = app.queue(
    "work", priorities=[Priority.NORMAL], retry=Retry(max_attempts=1, backoff=Backoff.fixed(0))
)

told: ContextVar[str] = ContextVar("told", default="nothing")


class Pool:
    """Opened once in each process."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.sessions = 0


class Session:
    """Opened for each attempt."""

    def __init__(self, pool: Pool, number: int) -> None:
        self.pool = pool
        self.number = number
        self.log: list[str] = []


@app.resource
async def pool() -> AsyncIterator[Pool]:
    yield Pool()


@app.resource(scope="job")
async def session(pool: Pool) -> AsyncIterator[Session]:
    pool.sessions += 1
    opened = Session(pool, pool.sessions)
    async with asyncio.timeout(3600):  # has to be left in the task that has entered it
        yield opened


@app.around
async def telling(ctx: JobContext, session: Session) -> AsyncIterator[None]:
    told.set("around")
    session.log.append("async")
    try:
        yield
    except LookupError as error:
        raise ValueError(f"translated {error} of {ctx.type}") from error
    except asyncio.CancelledError:
        _ = ctx.progress(99, "around")
        raise


@app.around
def plain() -> Iterator[None]:
    with contextlib.suppress(ZeroDivisionError):
        yield


def _act(work: Work, session: Session) -> dict[str, object]:
    work.say(str(session.number))
    match work.text:
        case "fail":
            raise LookupError("it")
        case "swallow":
            raise ZeroDivisionError
        case "exit":
            raise SystemExit("enough")
        case "stop-iteration":
            raise StopIteration
    return {
        "told": told.get(),
        "log": session.log,
        "here": session.pool.pid == os.getpid(),
        "number": session.number,
    }


@_queue.job("plain", isolation="process")
def run_plainly(work: Work, session: Session) -> dict[str, object]:
    # It would raise if the handler was called within a running loop.
    asyncio.run(asyncio.sleep(0))
    return _act(work, session)


@_queue.job("async", isolation="process")
async def run(work: Work, session: Session) -> dict[str, object]:
    return _act(work, session)


@_queue.job("submitting", isolation="process")
def submitting(_work: Work, ctx: JobContext) -> None:
    _ = ctx.submit(run, Work())


@_queue.job("endless", isolation="process", timeout=timedelta(seconds=1))
async def endless(_work: Work, _session: Session) -> None:
    await asyncio.Event().wait()


@_queue.job("sleeping", isolation="process")
async def sleeping(_work: Work, ctx: JobContext, _session: Session) -> None:
    try:
        _ = ctx.progress(1, "sleeping")
        await asyncio.sleep(600)
    finally:
        _ = ctx.progress(98, "handler")
