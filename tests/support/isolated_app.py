"""An app whose handlers run in child processes, with one for every way to run and to fail there."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field, PlainSerializer, SecretStr

from headgate import App, Backoff, Discard, DoNotRetry, JobContext, Priority, Retry, RetryLater

app = App("isolated")
TRIES = 2
_queue = app.queue(
    "work", priorities=[Priority.NORMAL], retry=Retry(max_attempts=TRIES, backoff=Backoff.fixed(0))
)


class Work(BaseModel):
    """The steps of a job."""

    path: Path | None = None
    """The file that the job reports to."""
    text: str = ""

    def say(self, text: str) -> None:
        """Append a line to the file."""
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(text + "\n")


@_queue.job("echo", isolation="process")
def echo(work: Work, ctx: JobContext) -> dict[str, object]:
    work.say(f"{os.getpid()}")
    return {"text": work.text, "attempt": ctx.attempt, "pid": os.getpid()}


@_queue.job("nightly", isolation="process")
def nightly(ctx: JobContext) -> str:
    return ctx.type


@_queue.job("async-echo", isolation="process")
async def async_echo(work: Work, ctx: JobContext) -> str:
    await asyncio.sleep(0)
    await ctx.progress(40, "half", step="pdf")
    await ctx.submit(neighbour, Work(path=work.path, text="child of a child"))
    return work.text


@_queue.job("reporting", isolation="process")
def reporting(work: Work, ctx: JobContext) -> None:
    _ = ctx.progress(70, "nearly", path=work.path, odd=float("nan"), others={ctx.attempt})
    within: list[object] = []
    within.append(within)
    _ = ctx.progress(80, "\udc00", within=within)
    _ = ctx.submit(neighbour, Work(path=work.path, text="of a plain one"))


_go_on, _gone_on = threading.Event(), threading.Event()


@_queue.job("leaving", isolation="process")
def leaving(work: Work, ctx: JobContext) -> None:
    def go_on() -> None:
        while not _go_on.is_set() and not (work.path and work.path.exists()):
            time.sleep(0.01)
        _ = ctx.progress(99, "of the job that has ended")
        _ = ctx.submit(neighbour, Work(path=work.path, text="of its thread"))
        _gone_on.set()

    threading.Thread(target=go_on, daemon=True).start()


@_queue.job("following", isolation="process")
def following(_work: Work, ctx: JobContext) -> None:
    _ = ctx.progress(10, "its own")
    _go_on.set()
    _gone_on.wait()


@_queue.job("neighbour")
async def neighbour(work: Work) -> None:
    work.say(work.text)


@_queue.job("segfault", isolation="process")
def segfault(_work: Work) -> None:
    ctypes.string_at(0)


@_queue.job("exit", isolation="process")
def exit_at_once(_work: Work) -> None:
    os._exit(3)


@_queue.job("killed", isolation="process")
async def killed(_work: Work) -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    await asyncio.sleep(60)


@_queue.job("greedy", isolation="process", memory_mib=200)
def greedy(_work: Work) -> None:
    hoard = []
    while True:
        hoard.append(bytearray(os.urandom(1 << 20) * 10))
        time.sleep(0.01)


@_queue.job("endless", isolation="process", timeout=timedelta(seconds=1))
def endless(work: Work) -> None:
    work.say(f"{os.getpid()}")
    while True:
        pass


@_queue.job("sleeping", isolation="process")
async def sleeping(work: Work) -> None:
    work.say(f"{os.getpid()}")
    try:
        await asyncio.sleep(600)
    except asyncio.CancelledError:
        work.say("cancelled")
        raise


@_queue.job("busy", isolation="process")
def busy(work: Work) -> None:
    work.say(f"{os.getpid()}")
    while True:
        pass


@_queue.job("swallowing", isolation="process")
def swallowing(work: Work, ctx: JobContext) -> None:
    work.say(f"{os.getpid()}")
    while True:
        try:
            ctx.raise_if_cancelled()
        except Exception:  # noqa: BLE001 - as handlers do around each item of their work
            return


@_queue.job("with-child", isolation="process", timeout=timedelta(seconds=2))
def with_child(work: Work) -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    work.say(f"{process.pid}")
    time.sleep(600)


@_queue.job("failing", isolation="process")
def failing(work: Work) -> None:
    raise LookupError(work.text)


@_queue.job("steering", isolation="process")
def steering(work: Work) -> None:
    match work.text:
        case "discard":
            raise Discard("not needed")
        case "do-not-retry":
            raise DoNotRetry("hopeless")
        case "later" if work.path is not None and not work.path.exists():
            work.say("asked for another run")
            raise RetryLater(after=timedelta(seconds=1), reason="not yet")
        case "exit":
            sys.exit("enough")


@_queue.job("unsendable", isolation="process")
def unsendable(_work: Work) -> object:
    return object()


Token = Annotated[
    SecretStr, PlainSerializer(lambda secret: secret.get_secret_value(), when_used="json")
]


@_queue.job("annotated", isolation="process")
def annotated(work: Work) -> Annotated[list[Token], Field(max_length=1)]:
    return [SecretStr(work.text)]
