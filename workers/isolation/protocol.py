"""The protocol between a worker and its child processes: JSON objects, each after its length.

Nothing is pickled: a child runs users' code, and its frames must not run any in the worker.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from pydantic_core import from_json, to_json

from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.errors import ChildFailed, Stopped
from headgate.jobs.execution.delivery import LARGE
from headgate.jobs.retry.classification import retry_after_s
from headgate.jobs.retry.policy import Retry
from headgate.jobs.retry.signals import Discard, DoNotRetry, JobSignal, RetryLater
from headgate.jobs.values.redaction import NOTHING, Redaction
from headgate.jobs.values.texts import type_of
from headgate.jobs.values.yielding import read as read_json

Frame = Mapping[str, Any]
"""One message; the other fields depend on its ``kind``."""

LARGEST = 256 * 2**20
"""Maximum bytes of a frame, so that a length from a broken stream allocates no memory."""

_LENGTH = struct.Struct("!I")


class Kind(StrEnum):
    """The kind of a frame."""

    SETUP = "setup"
    """To the child, once: the app, the import path, and how to log."""
    READY = "ready"
    """From the child, once: it is ready to run jobs."""
    UNFIT = "unfit"
    """From the child instead: the reason why it can't run jobs. It then ends."""
    RUN = "run"
    """To the child: a job."""
    STARTED = "started"
    """From the child: it has received the job, which is accountable for whatever happens now."""
    PROGRESS = "progress"
    """From the child: the progress of the job with that id, which may have ended before."""
    CALL = "call"
    """From the child: a numbered request of a job, which may have ended, to the worker."""
    ANSWER = "answer"
    """To the child: the worker's answer to the request of that number."""
    CANCEL = "cancel"
    """To the child: the job should end early."""
    RETURNED = "returned"
    """From the child: the handler has returned, so its result follows and must not be cut off."""
    DONE = "done"
    """From the child: the handler's result."""
    FAILED = "failed"
    """From the child: the handler's exception; the fields are those of `failure_fields`."""
    STOP = "stop"
    """To the child: there are no more jobs; it ends."""


class FrameError(ValueError):
    """The data received, or to be sent, is not a valid frame."""


def encode(kind: Kind, **fields: Any) -> bytes:
    """Encode a frame for sending.

    Raises:
        FrameError: JSON can't hold a field, or the frame would be too large.
    """
    return _framed(lambda: to_json({"kind": kind, **fields}))


def _framed(write: Callable[[], bytes]) -> bytes:
    try:
        body = write()
    except (ValueError, TypeError, RecursionError) as error:
        raise FrameError(f"JSON can't hold it: {error}") from error
    if len(body) > LARGEST:
        raise FrameError(f"it takes {len(body):,} bytes as JSON; the limit is {LARGEST:,}")
    return _LENGTH.pack(len(body)) + body


def encode_result(value: Any, write: Callable[[Any], bytes]) -> bytes:
    """Encode a handler's result as a frame, and check that it can be read back.

    Args:
        value: the result.
        write: writes it as JSON.

    Raises:
        FrameError: JSON can't hold it, NaN and infinities included, or it is too large.
    """
    frame = _framed(lambda: b'{"kind":"%b","value":%b}' % (Kind.DONE.encode(), write(value)))
    try:
        from_json(frame[_LENGTH.size :], allow_inf_nan=False)
    except ValueError as error:
        raise FrameError(
            "JSON can't hold it: it is nested too deeply or has a NaN or an infinity in it: "
            f"{error}"
        ) from error
    return frame


async def read(reader: asyncio.StreamReader) -> Frame | None:
    """Read the next frame, in the worker; None at the end of the stream, even within a frame.

    A large one is decoded in a thread.

    Raises:
        FrameError: the data received is not a frame.
    """
    try:
        body = await reader.readexactly(_length(await reader.readexactly(_LENGTH.size)))
    except asyncio.IncompleteReadError:
        return None
    return _decoded(body) if len(body) <= LARGE else await asyncio.to_thread(_decoded, body)


def receive(channel: socket.socket) -> Frame | None:
    """Receive the next frame, in a child; None at the end of the stream.

    Raises:
        FrameError: the data received is not a frame.
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
        raise FrameError("a frame is of unknown kind")
    return frame


def message_fields(message: OutgoingMessage) -> dict[str, Any]:
    """Return a message that a handler submits as JSON values; they are the message's arguments."""
    return {
        "body": message.body,
        "attributes": message.attributes,
        "delay_s": message.delay_s,
        "group": message.group,
        "deduplication_id": message.deduplication_id,
    }


# --- exceptions of handlers ----------------------------------------------------------------------


def failure_fields(
    error: BaseException,
    policy: Retry,
    now: datetime,
    *,
    redaction: Redaction = NOTHING,
    secrets: Collection[str] = (),
) -> dict[str, Any]:
    """Return a handler's exception as JSON values, classified here, where its class is known.

    Args:
        error: the exception.
        policy: the job type's retry policy.
        now: the present time, aware; a wait that the error asks for is counted from it.
        redaction: redacts the texts, which the worker then takes as they are.
        secrets: of the job's payload.
    """
    match error:
        case RetryLater(after=after, reason=reason):
            later = {"after_s": after.total_seconds(), "reason": redaction.text(reason, secrets)}
            return {"signal": "retry-later", **later}
        case DoNotRetry(reason=reason):
            trace = redaction.traceback(error, secrets)
            told = redaction.text(reason, secrets)
            return {"signal": "do-not-retry", "reason": told, "traceback": trace}
        case Discard(reason=reason):
            return {"signal": "discard", "reason": redaction.text(reason, secrets)}
        case Stopped():
            return {"signal": "stopped"}
        case _:
            return {
                "error_type": type_of(error),
                "message": redaction.text(error, secrets),
                "traceback": redaction.traceback(error, secrets),
                "retryable": policy.should_retry(error),
                "retry_after_s": retry_after_s(error, now),
            }


def failure_of(frame: Frame) -> JobSignal | Stopped | ChildFailed:
    """Return the exception to raise in the worker for a frame of `failure_fields`.

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
