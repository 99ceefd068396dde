"""Tracebacks that begin where the user's own code does."""

from __future__ import annotations

import traceback

from headgate.jobs.errors import HeadgateError
from headgate.jobs.values.tracebacks import users_frames


def users_traceback(error: BaseException) -> str:
    """Return the traceback of an error's first cause in the user's code, with that code alone.

    An error of Headgate's ends it without its text, which the reason repeats. Empty if none of the
    user's code was at fault.
    """
    found = ""
    cause: BaseException | None = error
    while cause is not None:
        frames = users_frames(cause)
        if frames or isinstance(cause, SyntaxError):
            found = _shown(cause, frames)
        cause = cause.__cause__
    return found


def _shown(cause: BaseException, frames: traceback.StackSummary) -> str:
    if isinstance(cause, HeadgateError):
        return "".join(("Traceback (most recent call last):\n", *frames.format()))
    told = traceback.TracebackException.from_exception(cause)
    told.stack = frames
    return "".join(told.format(chain=False))
