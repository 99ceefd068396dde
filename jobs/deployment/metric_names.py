"""Names, dimensions and meanings of the metrics that workers and functions write for CloudWatch.

    namespace Headgate
    of a type, dimensions service, type and queue:
        JobsCompleted JobsFailed JobsRetried JobsDeadLettered JobsQuarantined JobsDeferred
        JobsDiscarded JobsDropped JobsCancelled JobsInterrupted JobsCrashed      counts
        Duration                                                     seconds that handlers ran
    of a lane, dimensions service, queue and priority:
        JobsStarted JobsCompleted JobsFailed                         counts
        Wait                                       seconds from when jobs were due to their start
    of dead letters, dimensions service, type, queue and reason:
        DeadLetters                            new ones, counted by the sweep that finds them
    of the app, dimension service:
        DeadLettersKept                        those in all queues, counted by the sweep
    of a worker group, dimensions service and group, if it has more queues than an alarm can watch:
        TasksWanted                            tasks that would start all waiting jobs in time
        TasksBusy                              tasks that the jobs in flight fill

A lane corresponds to one SQS queue. An alarm can add up at most ten metrics, and a queue may have
more types than that, so the metrics for alarms are counted for each lane too. CloudWatch charges
for each name with each set of dimensions, in the hours in which it is written; a count that stays
zero costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headgate.jobs.core.events import (
    Event,
    JobCancelled,
    JobCompleted,
    JobCrashed,
    JobDeadLettered,
    JobDeferred,
    JobDiscarded,
    JobDropped,
    JobEvent,
    JobFailed,
    JobInterrupted,
    JobQuarantined,
    JobRetryScheduled,
    JobStarted,
)

NAMESPACE = "Headgate"

SERVICE, TYPE, QUEUE, PRIORITY, REASON = "service", "type", "queue", "priority", "reason"
GROUP = "group"

OF_TYPE = frozenset({SERVICE, TYPE, QUEUE})
"""The dimensions of metrics of a type. ``queue`` is the group's name."""

OF_LANE = frozenset({SERVICE, QUEUE, PRIORITY})
"""The dimensions of metrics of a lane."""

OF_DEAD_LETTER = frozenset({SERVICE, TYPE, QUEUE, REASON})
"""The dimensions of dead letters."""

OF_WORKERS = frozenset({SERVICE, GROUP})
"""The dimensions of metrics of a worker group."""

STARTED, COMPLETED, FAILED = "JobsStarted", "JobsCompleted", "JobsFailed"
DEAD_LETTERS, LETTERS_REPLAYED = "DeadLetters", "DeadLettersReplayed"
LETTERS_KEPT = "DeadLettersKept"
DURATION, WAIT = "Duration", "Wait"
TASKS_WANTED, TASKS_BUSY = "TasksWanted", "TasksBusy"

COUNTED: Mapping[type[Event], str] = {
    JobCompleted: COMPLETED,
    JobFailed: FAILED,
    JobRetryScheduled: "JobsRetried",
    JobDeadLettered: "JobsDeadLettered",
    JobQuarantined: "JobsQuarantined",
    JobDeferred: "JobsDeferred",
    JobDiscarded: "JobsDiscarded",
    JobDropped: "JobsDropped",
    JobCancelled: "JobsCancelled",
    JobInterrupted: "JobsInterrupted",
    JobCrashed: "JobsCrashed",
}
"""Counters of a type, by the event that they count."""

_OF_SWEEP = (DEAD_LETTERS, LETTERS_REPLAYED, LETTERS_KEPT)
LANE_COUNTED: Mapping[type[Event], str] = {
    JobStarted: STARTED,
    JobCompleted: COMPLETED,
    JobFailed: FAILED,
}
"""Counters of a lane. A type has no starts of its own: each name costs, and its ends tell."""

NAMES = frozenset(
    {*COUNTED.values(), *LANE_COUNTED.values(), DURATION, WAIT, *_OF_SWEEP}
    | {TASKS_WANTED, TASKS_BUSY}
)
"""All names of metrics."""

MOST_VALUES = 99
"""Values of one metric in a line: CloudWatch takes 100, at which Powertools flushes by itself.
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html"""

Dimensions = tuple[tuple[str, str], ...]
"""Names and values of all dimensions except ``service``."""


def service_name(app: str, stage: str | None) -> str:
    """Return the value of the dimension ``service``: the app, with its stage if any."""
    return f"{app}-{stage}" if stage else app


def measured(event: Event) -> Iterator[tuple[Dimensions, str, float | None]]:
    """Yield the metrics that an event adds to, with seconds, or None to count one more."""
    if not isinstance(event, JobEvent):
        return
    of_type = ((TYPE, event.job_type), (QUEUE, event.queue))
    of_lane = ((QUEUE, event.queue), (PRIORITY, str(event.priority)))
    if (name := COUNTED.get(type(event))) is not None:
        yield of_type, name, None
    if (name := LANE_COUNTED.get(type(event))) is not None:
        yield of_lane, name, None
    if isinstance(event, JobCompleted | JobFailed):
        yield of_type, DURATION, event.ran_s
    elif isinstance(event, JobStarted) and event.is_first:
        yield of_lane, WAIT, event.waited_s
