"""Metrics for CloudWatch, as lines of the embedded metric format on standard output.

    namespace Headgate, dimensions service, type and queue
    JobsCompleted JobsFailed JobsRetried JobsDeadLettered JobsQuarantined JobsDeferred
    JobsDiscarded JobsCancelled JobsInterrupted JobsCrashed     counts of an invocation

A worker's metrics have the same names, so one dashboard shows jobs wherever they run.
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from aws_lambda_powertools.metrics.provider.cloudwatch_emf.cloudwatch import (
    AmazonCloudWatchEMFProvider,
)

from jobs.app import App
from jobs.events import (
    Event,
    JobCancelled,
    JobCompleted,
    JobCrashed,
    JobDeadLettered,
    JobDeferred,
    JobDiscarded,
    JobEvent,
    JobFailed,
    JobInterrupted,
    JobQuarantined,
    JobRetryScheduled,
)

NAMESPACE = "Headgate"

COUNTED: Mapping[type[Event], str] = {
    JobCompleted: "JobsCompleted",
    JobFailed: "JobsFailed",
    JobRetryScheduled: "JobsRetried",
    JobDeadLettered: "JobsDeadLettered",
    JobQuarantined: "JobsQuarantined",
    JobDeferred: "JobsDeferred",
    JobDiscarded: "JobsDiscarded",
    JobCancelled: "JobsCancelled",
    JobInterrupted: "JobsInterrupted",
    JobCrashed: "JobsCrashed",
}
"""What is counted, and as what."""


class Emf:
    """A subscriber that counts, and writes a line for each type at the end of an invocation.

    Args:
        app: its name and stage are the metrics' service.
        write: writes one line.
    """

    def __init__(self, app: App, *, write: Callable[[str], Any] = print) -> None:
        self._service = f"{app.name}-{app.stage}" if app.stage else app.name
        self._write = write
        self._counts: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)

    def __call__(self, event: Event) -> None:
        """Subscriber."""
        if isinstance(event, JobEvent) and (name := COUNTED.get(type(event))) is not None:
            self._counts[event.job_type, event.queue][name] += 1

    def flush(self) -> None:
        """Write what has been counted since the last time."""
        counted, self._counts = self._counts, defaultdict(Counter)
        for (job_type, queue), counts in counted.items():
            # One for each line: what it has counted and named is thus its own.
            emf = AmazonCloudWatchEMFProvider(namespace=NAMESPACE, service=self._service)
            emf.add_dimension("type", job_type)
            emf.add_dimension("queue", queue)
            for name, count in counts.items():
                emf.add_metric(name, "Count", count)
            self._write(json.dumps(emf.serialize_metric_set()))
