"""Attempts that end without the handler's return: by a signal that it raises to steer its job, by
the timeout, or by the end of the process that it ran in.
"""

from __future__ import annotations

from datetime import timedelta

from headgate.jobs.errors.root import HeadgateError


class JobTimeout(HeadgateError, TimeoutError):
    """An attempt ran past its type's timeout and was cancelled; counts as transient."""

    def __init__(self, job_type: str, timeout_s: float, *, detail: str = "") -> None:
        self.timeout_s = timeout_s
        super().__init__(f"{job_type!r} ran past its timeout of {timeout_s:g} s{detail}")


class ChildFailed(HeadgateError):
    """A handler raised in a child process; describes the error without the exception object.

    The child applies the type's retry policy, since only it has the exception's class.
    """

    def __init__(
        self,
        error_type: str,
        message: str,
        *,
        traceback: str,
        retryable: bool,
        retry_after_s: float | None,
    ) -> None:
        self.error_type = error_type
        self.traceback = traceback
        self.retryable = retryable
        self.retry_after = retry_after_s  # the name used by errors of HTTP clients
        super().__init__(message)


class ChildDied(HeadgateError):
    """The process that ran a handler died: by a signal, by exiting, or for lack of memory."""


class JobSignal(Exception):
    """Base of the signals that a handler raises to steer its own job; not a `HeadgateError`."""


class RetryLater(JobSignal):
    """Give the job back and run it again after ``after``, at least a second.

    It is not a failure, and uses no attempt, except without records, where every delivery counts
    as an attempt. A wait of more than a year is taken for a mistake: the job is dead-lettered as
    ``wait-too-long``.
    """

    def __init__(self, after: timedelta, reason: str = "") -> None:
        if not isinstance(after, timedelta):
            raise TypeError(f"RetryLater(after=...) must be a timedelta, got {after!r}")
        if after < timedelta(seconds=1):
            raise ValueError(f"RetryLater(after=...) must be at least a second, got {after}")
        self.after = after
        self.reason = reason
        super().__init__(reason or f"retry in {after}")


class DoNotRetry(JobSignal):
    """Fail for good: the job is dead-lettered with ``reason``, even if attempts are left."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class Discard(JobSignal):
    """End the job without success or failure: it is deleted, and ``reason`` is recorded."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class Stopped(BaseException):
    """Give the job back unfinished, since it was asked to end; see ``ctx.raise_if_cancelled``.

    A `BaseException`, as `asyncio.CancelledError` is, so that a handler's own ``except Exception``
    can't turn a stopped job into a completed one.
    """

    def __init__(self) -> None:
        super().__init__("ended early, as it was asked to")
