"""Attempts that end without the handler's return: by the timeout, by a request to stop, or by the
end of the process that it ran in.
"""

from __future__ import annotations

from headgate.jobs.errors.root import HeadgateError


class JobTimeout(HeadgateError, TimeoutError):
    """An attempt ran past its type's timeout, or used up all the time that a Lambda function has
    for a job; counts as transient."""

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


class Stopped(BaseException):
    """Give the job back unfinished, since it was asked to end; see ``ctx.raise_if_cancelled``.

    A `BaseException`, as `asyncio.CancelledError` is, so that a handler's own ``except Exception``
    can't turn a stopped job into a completed one.
    """

    def __init__(self) -> None:
        super().__init__("stopped early, on request")
