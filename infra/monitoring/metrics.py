"""CloudWatch's metrics as values, for alarms and the dashboard. No CDK in here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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


VISIBLE = "ApproximateNumberOfMessagesVisible"
IN_FLIGHT = "ApproximateNumberOfMessagesNotVisible"
OLDEST = "ApproximateAgeOfOldestMessage"
SENT = "NumberOfMessagesSent"
RECEIVED = "NumberOfMessagesReceived"
EMPTY = "NumberOfEmptyReceives"
DELETED = "NumberOfMessagesDeleted"
"""SQS publishes these every minute and free of charge, for queues used within the last six hours.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-available-cloudwatch-metrics.html"""

ATTEMPTS, TARGET_ERRORS, DROPPED = (
    "InvocationAttemptCount",
    "TargetErrorCount",
    "InvocationDroppedCount",
)
"""https://docs.aws.amazon.com/scheduler/latest/UserGuide/monitoring-cloudwatch.html"""


def of_queue(name: str, metric: str, statistic: str) -> Series:
    """Return a metric of the SQS queue of that physical name."""
    return Series(
        namespace="AWS/SQS", name=metric, statistic=statistic, dimensions={"QueueName": name}
    )


def of_lane(topology: Topology, spec: QueueSpec, metric: str, statistic: str) -> Series:
    """Return a metric that workers and functions publish about the jobs of one queue."""
    return Series(
        namespace=metric_names.NAMESPACE,
        name=metric,
        statistic=statistic,
        dimensions={
            SERVICE: metric_names.service_name(topology.app, topology.stage),
            QUEUE: spec.group,
            PRIORITY: str(spec.priority),
        },
    )


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


def of_service(cluster: str, service: str, metric: str, statistic: str) -> Series:
    """Return a metric of an ECS service."""
    return Series(
        namespace="AWS/ECS",
        name=metric,
        statistic=statistic,
        dimensions={"ClusterName": cluster, "ServiceName": service},
    )


def of_table(name: str, metric: str) -> Series:
    """Return a metric of the DynamoDB table of that name, summed up."""
    return Series(
        namespace="AWS/DynamoDB", name=metric, statistic="Sum", dimensions={"TableName": name}
    )
