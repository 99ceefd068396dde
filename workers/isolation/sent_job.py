"""A job that a child process has been sent, and how it ended there."""

from __future__ import annotations

import asyncio
from typing import Any

from headgate.jobs.definitions.handlers.context import JobContext
from headgate.jobs.errors import ChildDied, ChildFailed, Stopped
from headgate.jobs.values.light_dataclass import light_dataclass


class NotStarted(Exception):
    """A child died before it had received the job sent to it; the message tells the cause."""


@light_dataclass(frozen=True, slots=True)
class Returned:
    """The result of a handler that returned."""

    value: Any


Ending = Returned | Exception | Stopped
"""The end of a job: its handler returned, or what `SentJob.result` raises."""


class SentJob:
    """A job that was sent to a child, and its end."""

    def __init__(self, ctx: JobContext) -> None:
        self.ctx = ctx
        self.started = False
        self.returned = False
        """True once its handler has returned."""
        self.over: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()

    def end(self, how: Ending) -> None:
        """Set the end of the attempt; later ends are ignored."""
        if not self.over.done():
            self.over.set_result(how)

    @property
    def was_cut(self) -> bool:
        """True if it ended before the handler returned or raised by itself."""
        if not self.over.done():
            return True
        match self.over.result():
            case ChildFailed(error_type=kind):
                return kind == asyncio.CancelledError.__name__
            case end:
                return isinstance(end, ChildDied | NotStarted)

    def result(self) -> Any:
        """Return the handler's result; raise its exception, or the one that ended the attempt."""
        match self.over.result():
            case Returned(value=value):
                return value
            case error:
                raise error
