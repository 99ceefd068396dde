"""Tracebacks that begin where the user's own code does."""

from __future__ import annotations

import traceback

from headgate.jobs.values.tracebacks import users_frames


def users_traceback(error: BaseException) -> str:
    """Return the traceback of an error's first cause, without the frames of Headgate's loading.

    Empty if none of the user's code was at fault.
    """
    cause = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    frames = users_frames(cause)
    if not frames and not isinstance(cause, SyntaxError):
        return ""
    told = traceback.TracebackException.from_exception(cause)
    told.stack = frames
    return "".join(told.format(chain=False))
