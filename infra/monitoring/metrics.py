"""CloudWatch's metrics as values, for alarms, the dashboard and scaling. No CDK in here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headgate.jobs.core.existing.arns import bare_name, owner_of
from headgate.jobs.core.topology import QueueSpec, Topology
from headgate.jobs.deployment import metric_names
from headgate.jobs.deployment.metric_names import PRIORITY, QUEUE, SERVICE


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One metric with its statistic."""

    namespace: str
    name: str
    statistic: str
    dimensions: Mapping[str, str]
    account: str | None = None
    """The account whose CloudWatch has it, if it may be another; None: the app's."""


ATTEMPTS, TARGET_ERRORS, DROPPED = (
    "InvocationAttemptCount",
    "TargetErrorCount",
    "InvocationDroppedCount",
)
"""https://docs.aws.amazon.com/scheduler/latest/UserGuide/monitoring-cloudwatch.html"""

_STATISTICS = {
    metric_names.DURATION: "Average",
    metric_names.WAIT: "Average",
    metric_names.TASKS_WANTED: "Maximum",
    metric_names.TASKS_BUSY: "Maximum",
    metric_names.LETTERS_KEPT: "Maximum",
}
"""Statistics of published metrics that are no counts."""


# SQS publishes these every minute and free of charge, for queues used within the last six hours.
# https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-available-cloudwatch-metrics.html


def visible(queue: str, statistic: str = "Maximum") -> Series:
    """Return the number of waiting messages of the queue of that physical name."""
    return _of_queue(queue, "ApproximateNumberOfMessagesVisible", statistic)


def in_flight(queue: str, statistic: str = "Maximum") -> Series:
    """Return the number of messages that run, are held, or wait for a retry."""
    return _of_queue(queue, "ApproximateNumberOfMessagesNotVisible", statistic)


def oldest_age(queue: str) -> Series:
    """Return the age of the oldest message in seconds, waiting or in flight.

    SQS leaves out messages received three times or more.
    """
    return _of_queue(queue, "ApproximateAgeOfOldestMessage", "Maximum")


# SQS publishes the next two for standard queues; a job's tenant is its message's group.
# https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-fair-queues.html


def noisy_tenants(queue: str) -> Series:
    """Return the number of tenants whose jobs fill the queue to the disadvantage of others."""
    return _of_queue(queue, "ApproximateNumberOfNoisyGroups", "Maximum")


def oldest_age_of_quiet(queue: str) -> Series:
    """Return the age in seconds of the oldest message of all other tenants."""
    return _of_queue(queue, "ApproximateAgeOfOldestMessageInQuietGroups", "Maximum")


def sent(queue: str) -> Series:
    """Return the number of messages sent."""
    return _of_queue(queue, "NumberOfMessagesSent", "Sum")


def received(queue: str) -> Series:
    """Return the number of messages received."""
    return _of_queue(queue, "NumberOfMessagesReceived", "Sum")


def deleted(queue: str) -> Series:
    """Return the number of messages deleted."""
    return _of_queue(queue, "NumberOfMessagesDeleted", "Sum")


def empty_receives(queue: str) -> Series:
    """Return the number of receives that brought nothing."""
    return _of_queue(queue, "NumberOfEmptyReceives", "Sum")


def completed(topology: Topology, spec: QueueSpec) -> Series:
    """Return the number of completed jobs of one queue."""
    return _of_lane(topology, spec, metric_names.COMPLETED, "Sum")


def failed(topology: Topology, spec: QueueSpec) -> Series:
    """Return the number of failed runs of one queue's jobs."""
    return _of_lane(topology, spec, metric_names.FAILED, "Sum")


def wait(topology: Topology, spec: QueueSpec) -> Series:
    """Return the 99th percentile of the seconds from when jobs were due to their start."""
    return _of_lane(topology, spec, metric_names.WAIT, "p99")


def of_app(topology: Topology, name: str, dimensions: Mapping[str, str]) -> Series:
    """Return a metric that workers and functions publish, with the dimensions besides ``service``.

    `jobs.deployment.metric_names` has the names and dimensions. The statistic is the sum of
    counts, the average of seconds, and the maximum of tasks and of dead letters.
    """
    return Series(
        namespace=metric_names.NAMESPACE,
        name=name,
        statistic=_STATISTICS.get(name, "Sum"),
        dimensions={SERVICE: _service(topology), **dimensions},
    )


def tasks_wanted(topology: Topology, group: str) -> Series:
    """Return the number of tasks that would start all waiting jobs of a worker group in time."""
    return of_app(topology, metric_names.TASKS_WANTED, {metric_names.GROUP: group})


def tasks_busy(topology: Topology, group: str) -> Series:
    """Return the number of tasks that the jobs in flight of a worker group fill."""
    return of_app(topology, metric_names.TASKS_BUSY, {metric_names.GROUP: group})


def dead_letters(topology: Topology) -> Series:
    """Return the number of messages set aside in all queues, as the sweep counts them."""
    return of_app(topology, metric_names.LETTERS_KEPT, {})


def of_schedules(topology: Topology, metric: str) -> Series:
    """Return a metric of the app's schedules, summed up."""
    return Series(
        namespace="AWS/Scheduler",
        name=metric,
        statistic="Sum",
        dimensions={"ScheduleGroup": topology.schedule_group},
    )


def of_function(name: str, metric: str, statistic: str = "Sum") -> Series:
    """Return a metric of the Lambda function of that name."""
    return Series(
        namespace="AWS/Lambda", name=metric, statistic=statistic, dimensions={"FunctionName": name}
    )


def of_table(name: str, metric: str) -> Series:
    """Return a metric of the DynamoDB table of that name, summed up."""
    return Series(
        namespace="AWS/DynamoDB", name=metric, statistic="Sum", dimensions={"TableName": name}
    )


def running_tasks(cluster: str, service: str) -> Series:
    """Return the number of a service's tasks: the samples of its CPU utilization in a minute.

    Each task has one. Container Insights, which has the number too, is charged for.
    https://docs.aws.amazon.com/AmazonECS/latest/developerguide/cloudwatch-metrics.html
    """
    return _of_service(cluster, service, "CPUUtilization", "SampleCount")


def cpu(cluster: str, service: str) -> Series:
    """Return the percentage of CPU that a service's busiest task uses."""
    return _of_service(cluster, service, "CPUUtilization", "Maximum")


def memory(cluster: str, service: str) -> Series:
    """Return the percentage of memory that a service's fullest task uses."""
    return _of_service(cluster, service, "MemoryUtilization", "Maximum")


def _of_service(cluster: str, service: str, metric: str, statistic: str) -> Series:
    return Series(
        namespace="AWS/ECS",
        name=metric,
        statistic=statistic,
        dimensions={"ClusterName": cluster, "ServiceName": service},
    )


def _of_queue(name: str, metric: str, statistic: str) -> Series:
    return Series(
        namespace="AWS/SQS",
        name=metric,
        statistic=statistic,
        dimensions={"QueueName": bare_name(name)},
        account=owner_of(name),
    )


def _of_lane(topology: Topology, spec: QueueSpec, metric: str, statistic: str) -> Series:
    return Series(
        namespace=metric_names.NAMESPACE,
        name=metric,
        statistic=statistic,
        dimensions={
            SERVICE: _service(topology),
            QUEUE: spec.group,
            PRIORITY: str(spec.priority),
        },
    )


def _service(topology: Topology) -> str:
    return metric_names.service_name(topology.app, topology.stage)
