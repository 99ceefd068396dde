"""Reports to Sentry of jobs that are given up, and of failed attempts if asked for.

    sentry_sdk.init(dsn=...)
    report_failures(app)

A report has the error with its traceback, and the job's id, type, queue and attempt as tags. It has
no payload and no local variables: what is sent is made from the events of jobs, as the log is. If
an exception's text quotes the payload, that text is sent, but for what the app's redaction hides.
"""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from headgate.jobs.core.events import (
    Event,
    JobDeadLettered,
    JobFailed,
    JobQuarantined,
    JobRetryScheduled,
)
from headgate.jobs.errors import ConfigurationError, LibraryMissing

if TYPE_CHECKING:
    from headgate.jobs.definitions.app import App

Report = Literal["last", "every"]
"""The failures that are reported: those that end a job, or those of every attempt."""

_MOST_KEPT = 1_000
"""Failures kept until it is known whether they are their job's last."""

_FLUSH_S = 2.0
"""The longest wait for Sentry, once for each report from a Lambda function."""

_FRAME = re.compile(r'^  File "(.+)", line (\d+), in (.+)(?:\n    (.+))?', re.MULTILINE)
_CHAINED = re.compile(r"\n\n(?:The above exception|During handling)[^\n]*:\n\n")

_LOGGER = "headgate.worker"
"""The logger of events, whose lines of level error Sentry would report besides."""


def report_failures(app: App, *, failures: Report = "last") -> Reporter:
    """Report the failures of an app's jobs to Sentry, from whatever runs them.

    Call it once, where `sentry_sdk.init` is called. Sentry then leaves the log of events out, which
    tells of the same failures.

    Args:
        app: the app; the reporter becomes one of its hooks.
        failures: ``"last"`` reports jobs that are dead-lettered or quarantined; ``"every"`` also
            each failed attempt, and a job that is dead-lettered after one only by that.

    Returns:
        the reporter, a subscriber of events.

    Raises:
        ConfigurationError: sentry-sdk is not installed, or ``failures`` is neither of the two.
    """
    reporter = Reporter(failures)
    app.on_failed(reporter)
    app.on_retry(reporter)
    app.on_dead(reporter)
    return reporter


class Reporter:
    """A subscriber that reports failures; made by `report_failures`, which has its arguments."""

    def __init__(self, failures: Report = "last") -> None:
        if failures not in ("last", "every"):
            raise ConfigurationError(
                f"failures={failures!r} names no failures to report: write 'last' or 'every'"
            )
        try:
            from sentry_sdk.integrations.logging import ignore_logger
        except ImportError as error:
            raise LibraryMissing("reporting to Sentry", "sentry-sdk", "headgate[sentry]") from error
        ignore_logger(_LOGGER)
        self._every = failures == "every"
        self._failed: OrderedDict[str, JobFailed] = OrderedDict()
        """The failures whose consequence is not known yet, by the job's id."""

    def __call__(self, event: Event) -> None:
        """Report an event, or keep it until its consequence is known."""
        match event:
            case JobFailed() if self._every:
                self._send(event, event)
            case JobFailed():
                self._failed[event.job_id] = event
                if len(self._failed) > _MOST_KEPT:
                    self._failed.popitem(last=False)
            case JobRetryScheduled():
                self._failed.pop(event.job_id, None)
            case JobDeadLettered() if self._every and event.error_type:
                pass  # its last attempt has been reported
            case JobDeadLettered() | JobQuarantined():
                self._send(event, self._failed.pop(event.job_id, None))
            case _:
                pass

    def _send(
        self, event: JobFailed | JobDeadLettered | JobQuarantined, failed: JobFailed | None
    ) -> None:
        from sentry_sdk import capture_event, flush

        tags = {
            "job.id": event.job_id,
            "job.type": event.job_type,
            "job.queue": event.queue,
            "job.attempt": str(event.attempt),
        }
        if isinstance(event, JobDeadLettered):
            tags["job.reason"] = event.reason
        report: Any = {
            "level": "error",
            "logger": "headgate",
            "timestamp": event.at,
            "transaction": event.job_type,
            "tags": tags,
            **_what(event, failed),
        }
        capture_event(report)
        if "AWS_LAMBDA_FUNCTION_NAME" in os.environ:
            # After the invocation the function is frozen, with the thread that sends reports.
            flush(timeout=_FLUSH_S)


def _what(
    event: JobFailed | JobDeadLettered | JobQuarantined, failed: JobFailed | None
) -> dict[str, Any]:
    """Return the error of a report, or a message where no attempt raised one."""
    if failed is not None:
        return {"exception": {"values": [*_errors(failed)]}}
    if isinstance(event, JobDeadLettered) and event.error_type:
        return {"exception": {"values": [_error(event.error_type, event.error_message, "")]}}
    why = event.detail if isinstance(event, JobQuarantined) else getattr(event, "reason", "")
    return {"message": f"{event.job_type}: {why}"}


def _errors(failed: JobFailed) -> Iterator[dict[str, Any]]:
    """Yield a failure's error after its causes, as Sentry orders them."""
    *causes, last = _CHAINED.split(failed.traceback)
    for cause in causes:
        kind, _, message = cause.rstrip().rsplit("\n", 1)[-1].partition(": ")
        yield _error(kind, message, cause)
    yield _error(failed.error_type, failed.error_message, last)


def _error(kind: str, message: str, traceback: str) -> dict[str, Any]:
    error: dict[str, Any] = {"type": kind, "value": message}
    if frames := [*_frames(traceback)]:
        error["stacktrace"] = {"frames": frames}
    return error


def _frames(traceback: str) -> Iterator[dict[str, Any]]:
    """Yield the frames of a traceback's text, the innermost last."""
    for path, line, function, code in _FRAME.findall(traceback):
        yield {
            "filename": path,
            "abs_path": path,
            "lineno": int(line),
            "function": function,
            "context_line": code,
        }
