"""The face of a system, whether it is created in this stack or imported into it."""

from __future__ import annotations

from typing import Any, Protocol, Unpack

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs

from headgate.infra.monitoring.cdk_metrics import MetricOptions
from headgate.jobs.core.topology import Priority, PriorityName
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.deployment.groups import QueueSelection


class IJobSystem(Protocol):
    """An app's system on AWS, which a `JobSystem` creates or `JobSystem.from_app` refers to.

    Annotate what takes either with it. `JobSystemBase` has what each member does and raises.
    """

    @property
    def app(self) -> App:
        """The app."""

    def queue(self, name: str, priority: Priority | PriorityName | None = None) -> sqs.IQueue:
        """Return the SQS queue of a queue group and a priority."""

    def dead_letter_queue(
        self, name: str, priority: Priority | PriorityName | None = None
    ) -> sqs.IQueue:
        """Return the dead-letter queue of the queue that `queue` returns; it raises the same."""

    @property
    def quarantine(self) -> sqs.IQueue:
        """The queue of the jobs that killed their workers."""

    @property
    def failed_firings(self) -> sqs.IQueue | None:
        """The queue of firings and events that could not become jobs."""

    @property
    def failed_sweeps(self) -> sqs.IQueue:
        """The queue of failed sweeps of the dead letters."""

    @property
    def table(self) -> dynamodb.ITableV2:
        """The table of the jobs' records, for example for alarms."""

    @property
    def bucket(self) -> s3.IBucket:
        """The bucket of payloads too large for messages."""

    def grant_submit(self, grantee: iam.IGrantable, *, unique: bool = False) -> iam.Grant:
        """Let ``grantee`` submit any of the app's jobs, and cancel those with a long delay."""

    def grant_follow(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let ``grantee`` read the outcomes of any of the app's jobs, and cancel them."""

    def grant_work(self, grantee: iam.IGrantable, *, selection: QueueSelection = ...) -> iam.Grant:
        """Let ``grantee`` run the app's jobs, record them, and park those that are given up."""

    def grant_operate(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let ``grantee`` operate the app."""

    def grant_manage_schedules(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let ``grantee`` pause and resume the app's schedules, and create some of its own."""

    def metric(
        self,
        metric_name: str,
        *,
        job: JobType[Any, Any] | None = None,
        **options: Unpack[MetricOptions],
    ) -> cloudwatch.Metric:
        """Return one of the metrics that workers and functions publish, by its name."""

    def metric_visible(
        self,
        queue: str,
        priority: Priority | PriorityName | None = None,
        **options: Unpack[MetricOptions],
    ) -> cloudwatch.Metric:
        """Return the number of waiting jobs. Maximum over five minutes."""

    def metric_in_flight(
        self,
        queue: str,
        priority: Priority | PriorityName | None = None,
        **options: Unpack[MetricOptions],
    ) -> cloudwatch.Metric:
        """Return the jobs that run, are held, or wait for a retry. Maximum over five minutes."""

    def metric_oldest_age(
        self,
        queue: str,
        priority: Priority | PriorityName | None = None,
        **options: Unpack[MetricOptions],
    ) -> cloudwatch.Metric:
        """Return the age of the oldest job in seconds. Maximum over five minutes."""

    def metric_dead_letters(
        self,
        queue: str,
        priority: Priority | PriorityName | None = None,
        **options: Unpack[MetricOptions],
    ) -> cloudwatch.Metric:
        """Return the number of the queue's dead letters. Maximum over five minutes."""

    def metric_completed(
        self,
        queue: str,
        priority: Priority | PriorityName | None = None,
        **options: Unpack[MetricOptions],
    ) -> cloudwatch.Metric:
        """Return the number of completed jobs. Sum over five minutes."""

    def metric_failed(
        self,
        queue: str,
        priority: Priority | PriorityName | None = None,
        **options: Unpack[MetricOptions],
    ) -> cloudwatch.Metric:
        """Return the number of failed runs. Sum over five minutes."""

    def metric_failed_percent(
        self,
        queue: str,
        priority: Priority | PriorityName | None = None,
        *,
        period: Duration = ...,
        label: str | None = None,
    ) -> cloudwatch.MathExpression:
        """Return the percentage of failed runs among those that ended; no value if none did."""

    def metric_wait(
        self,
        queue: str,
        priority: Priority | PriorityName | None = None,
        **options: Unpack[MetricOptions],
    ) -> cloudwatch.Metric:
        """Return the seconds from when jobs were due to their start. p99 over five minutes."""
