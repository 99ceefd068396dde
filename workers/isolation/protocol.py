"""What a worker and its child processes say to each other: JSON objects, each after its length.

Nothing is pickled: a child runs the users' code, and what it says must not run any in the worker.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from pydantic_core import from_json, to_json

from headgate.jobs.errors import ChildFailed, Discard, DoNotRetry, JobSignal, RetryLater, Stopped
from headgate.jobs.execution import job_events
from headgate.jobs.execution.delivery import LARGE
from headgate.jobs.retry.classification import retry_after_s
from headgate.jobs.retry.policy import Retry
from headgate.jobs.values.texts import legible, text_of, type_of
from headgate.jobs.values.yielding import read as read_json

Frame = Mapping[str, Any]
"""One message; ``kind`` says which, the other fields depend on it."""

LARGEST = 256 * 2**20
"""The most bytes of a frame, so that a length out of a broken stream allocates no memory."""

_LENGTH = struct.Struct("!I")


class Kind(StrEnum):
    """What a frame is about."""

    SETUP = "setup"
    """To the child, once: the app, the import path, and how to log."""
    READY = "ready"
    """From the child, once: it could run a job."""
    UNFIT = "unfit"
    """From the child instead: why it never could. It ends."""
    RUN = "run"
    """To the child: a job."""
    STARTED = "started"
    """From the child: it has got the job, so whatever happens now is the job's doing."""
    PROGRESS = "progress"
    """From the child: how far the job is."""
    CALL = "call"
    """From the child: the job asks the worker for something, under a number."""
    ANSWER = "answer"
    """To the child: what the worker says to that number."""
    CANCEL = "cancel"
    """To the child: the job should end early."""
    RETURNED = "returned"
    """From the child: the handler has returned, so its result is on its way and must not be cut."""
    DONE = "done"
    """From the child: what the handler returned."""
    FAILED = "failed"
    """From the child: what the handler raised; the fields are those of `failure_fields`."""
    STOP = "stop"
    """To the child: there are no more jobs, so end."""


class FrameError(ValueError):
    """What came, or should be sent, is no frame."""


def encode(kind: Kind, **fields: Any) -> bytes:
    """A frame as it is sent.

    Raises:
        FrameError: JSON can't hold a field, or the frame would be too large.
    """
    try:
        body = to_json({"kind": kind, **fields})
    except (ValueError, TypeError, RecursionError) as error:
        raise FrameError(f"JSON can't hold it: {error}") from error
    if len(body) > LARGEST:
        raise FrameError(f"it takes {len(body):,} bytes as JSON; the limit is {LARGEST:,}")
    return _LENGTH.pack(len(body)) + body


def encode_result(value: Any) -> bytes:
    """The frame of what a handler returned, proven to be readable.

    Raises:
        FrameError: JSON can't hold it, NaN and infinities included, or it is too large.
    """
    frame = encode(Kind.DONE, value=value)
    try:
        from_json(frame[_LENGTH.size :], allow_inf_nan=False)
    except ValueError as error:
        raise FrameError(
            "JSON can't hold it, for it is nested too deeply or has a NaN or an infinity in it: "
            f"{error}"
        ) from error
    return frame


async def read(reader: asyncio.StreamReader) -> Frame | None:
    """The next frame, in the worker; None at the end of the stream, in mid-frame too.

    A large one is decoded in a thread.

    Raises:
        FrameError: what came is none.
    """
    try:
        body = await reader.readexactly(_length(await reader.readexactly(_LENGTH.size)))
    except asyncio.IncompleteReadError:
        return None
    return _decoded(body) if len(body) <= LARGE else await asyncio.to_thread(_decoded, body)


def receive(channel: socket.socket) -> Frame | None:
    """The next frame, in a child; None at the end of the stream.

    Raises:
        FrameError: what came is none.
        OSError: the socket failed.
    """
    header = _receive_exactly(channel, _LENGTH.size)
    if header is None:
        return None
    body = _receive_exactly(channel, _length(header))
    return None if body is None else _decoded(body)


def _receive_exactly(channel: socket.socket, size: int) -> bytes | None:
    received = bytearray()
    while len(received) < size:
        part = channel.recv(min(size - len(received), 1 << 20))
        if not part:
            return None
        received += part
    return bytes(received)


def _length(header: bytes) -> int:
    length: int = _LENGTH.unpack(header)[0]
    if length > LARGEST:
        raise FrameError(f"a frame of {length:,} bytes was announced; the limit is {LARGEST:,}")
    return length


def _decoded(body: bytes) -> Frame:
    try:
        frame = read_json(body)
    except ValueError as error:
        raise FrameError(f"a frame is not JSON: {error}") from error
    if not isinstance(frame, dict) or frame.get("kind") not in set(Kind):
        raise FrameError("a frame is of no known kind")
    return frame


# --- what a handler raised -----------------------------------------------------------------------


def failure_fields(error: BaseException, policy: Retry, now: datetime) -> dict[str, Any]:
    """What a handler raised, as JSON values. Judged here, where its class is known.

    Args:
        policy: the job type's.
        now: aware; what the error asks to wait is counted from then.
    """
    match error:
        case RetryLater(after=after, reason=reason):
            later = {"after_s": after.total_seconds(), "reason": legible(reason)}
            return {"signal": "retry-later", **later}
        case DoNotRetry(reason=reason):
            trace = job_events.trimmed(error)
            return {"signal": "do-not-retry", "reason": legible(reason), "traceback": trace}
        case Discard(reason=reason):
            return {"signal": "discard", "reason": legible(reason)}
        case Stopped():
            return {"signal": "stopped"}
        case _:
            return {
                "error_type": type_of(error),
                "message": text_of(error),
                "traceback": job_events.trimmed(error),
                "retryable": policy.should_retry(error),
                "retry_after_s": retry_after_s(error, now),
            }


def failure_of(frame: Frame) -> JobSignal | Stopped | ChildFailed:
    """What to raise in the worker for a frame of `failure_fields`.

    Raises:
        FrameError: a field is missing or wrong.
    """
    try:
        match frame.get("signal"):
            case "retry-later":
                return RetryLater(timedelta(seconds=frame["after_s"]), frame["reason"])
            case "do-not-retry":
                signal = DoNotRetry(frame["reason"])
                signal.add_note(frame["traceback"])
                return signal
            case "discard":
                return Discard(frame["reason"])
            case "stopped":
                return Stopped()
        return ChildFailed(
            frame["error_type"],
            frame["message"],
            traceback=frame["traceback"],
            retryable=frame["retryable"],
            retry_after_s=frame["retry_after_s"],
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise FrameError(f"a failure can't be read: {error!r}") from error
