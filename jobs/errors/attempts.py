"""An attempt ends otherwise than by its handler's return: by what the handler raises to steer
its job, by its timeout, or by the end of the process it ran in.
"""

from __future__ import annotations

from datetime import timedelta

from headgate.jobs.errors.root import HeadgateError


class JobTimeout(HeadgateError, TimeoutError):
    """An attempt ran past its type's timeout and was cancelled. It counts as transient."""

    def __init__(self, job_type: str, timeout_s: float, *, detail: str = "") -> None:
        self.timeout_s = timeout_s
        super().__init__(f"{job_type!r} ran past its timeout of {timeout_s:g} s{detail}")


class ChildFailed(HeadgateError):
    """A handler raised in its own process: what the worker knows of the error, without its object.

    The child judges the error by its type's policy, since only it has the error's class.
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
        self.retry_after = retry_after_s  # as errors of HTTP clients call it
        super().__init__(message)


class ChildDied(HeadgateError):
    """The process that ran a handler died: by a signal, by exiting, or for want of memory."""


class JobSignal(Exception):
    """What a handler raises to decide its job's fate; not an error of Headgate's."""


class RetryLater(JobSignal):
    """Give the job back and run it again after ``after``, at least a second.

    It is no failure, and uses up no attempt; but without records, where attempts are counted by
    deliveries, it uses one. A wait of more than a year is taken for a mistake: the job is
    dead-lettered as ``wait-too-long``.
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
    """Fail for good: the job goes to the dead-letter queue with ``reason``, whatever is left."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class Discard(JobSignal):
    """End the job without success or failure: it is deleted, and ``reason`` is recorded."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class Stopped(BaseException):
    """Give the job back unfinished, because it was asked to end; see ``ctx.raise_if_cancelled``.

    A `BaseException`, as `asyncio.CancelledError` is: a handler's own ``except Exception`` must not
    turn a job that was stopped into one that has completed.
    """

    def __init__(self) -> None:
        super().__init__("ended early, as it was asked to")
