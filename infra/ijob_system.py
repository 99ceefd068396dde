"""The face of a system, whether it is created in this stack or imported into it."""

from __future__ import annotations

from typing import Any, Unpack

from aws_cdk import Duration, Token
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from headgate.infra.data import permissions
from headgate.infra.data.schedule_access import ScheduleAccess
from headgate.infra.data.signing_key import grant_signing
from headgate.infra.data.system_resources import SystemResources
from headgate.infra.monitoring import maths, metrics
from headgate.infra.monitoring.cdk_metrics import MetricOptions, as_expression, as_metric
from headgate.infra.monitoring.metrics import Series
from headgate.jobs.core.topology import Priority, PriorityName, QueueSpec, Topology
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.definitions.policies import records_submissions
from headgate.jobs.deployment.groups.queue_selection import QueueSelection
from headgate.jobs.deployment.metric_names import NAMES, QUEUE, TYPE
from headgate.jobs.errors import ConfigurationError, did_you_mean

_ALL = QueueSelection()
_PERIOD = Duration.minutes(5)  # as all of CDK's own metrics have it


class IJobSystem(Construct):
    """An app's system on AWS, which a `JobSystem` creates or `JobSystem.from_app` refers to.

    Annotate what takes either with it. It has what follows from the app: queues, table, bucket,
    grants and metrics.

    Metrics are CDK's: each method takes the options of ``aws_cloudwatch.Metric``, such as
    ``period=``, ``statistic=`` and ``label=``, and the period is five minutes unless they say
    otherwise. Metrics of one queue take the name of its group and its priority, which may be left
    out where the group has only one.
    """

    app: App
    """The app."""
    _resources: SystemResources

    def queue(self, name: str, priority: Priority | PriorityName | None = None) -> sqs.IQueue:
        """Return the SQS queue of a queue group and a priority.

        Args:
            name: the group's name in the app, such as ``"payments"``.
            priority: the priority; None: the only one that the group has.

        Raises:
            UnknownQueue: the app has no such group, or the group no such priority, or several and
                none is named.
        """
        return self._resources.queues[self._spec(name, priority).name]

    def dead_letter_queue(
        self, name: str, priority: Priority | PriorityName | None = None
    ) -> sqs.IQueue:
        """Return the dead-letter queue of the queue that `queue` returns; it raises the same."""
        return self._resources.dead_letters[self._spec(name, priority).name]

    @property
    def quarantine(self) -> sqs.IQueue:
        """The queue of the jobs that killed their workers."""
        return self._resources.quarantine

    @property
    def failed_firings(self) -> sqs.IQueue | None:
        """The queue of firings and events that could not become jobs.

        None: the app has neither schedules nor event rules nor long delays.
        """
        return self._resources.failed_firings

    @property
    def failed_sweeps(self) -> sqs.IQueue:
        """The queue of failed sweeps of the dead letters."""
        return self._resources.failed_sweeps

    @property
    def table(self) -> dynamodb.ITableV2:
        """The table of the jobs' records, for example for alarms."""
        return self._resources.table

    @property
    def bucket(self) -> s3.IBucket:
        """The bucket of payloads too large for messages."""
        return self._resources.bucket

    # --- grants ----------------------------------------------------------------------------------

    def grant_submit(self, grantee: iam.IGrantable, *, unique: bool = False) -> iam.Grant:
        """Let ``grantee`` submit any of the app's jobs. Cancelling them takes `grant_follow`.

        Args:
            grantee: the principal.
            unique: also allow unique jobs, which are claimed in the table.

        Raises:
            ConfigurationError: the principal is of another account. All grants raise it.
        """
        self._check_grantee(grantee)
        queues = list(self._resources.queues.values())
        grant = permissions.grant_submit(grantee, queues, self.bucket)
        grant = grant.combine(self._resources.payload_keys.grant_seal(grantee, "payload"))
        if records_submissions(self.app):
            grant = grant.combine(permissions.grant_enter(grantee, self.table))
        if unique:
            grant = grant.combine(permissions.grant_unique(grantee, self.table))
        return self._extended(grant, grantee)

    def grant_follow(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let ``grantee`` read the outcomes of any of the app's jobs, and cancel them."""
        self._check_grantee(grantee)
        grant = permissions.grant_follow(grantee, self.table, self.bucket)
        grant = grant.combine(self._resources.payload_keys.grant_open(grantee, "result"))
        delays = self._delays
        return grant.combine(delays.grant_undelay(grantee)) if delays is not None else grant

    def grant_work(self, grantee: iam.IGrantable, *, selection: QueueSelection = _ALL) -> iam.Grant:
        """Let ``grantee`` run the app's jobs, record them, and park those that are given up.

        Args:
            grantee: the principal.
            selection: the queues; all by default.

        Raises:
            UnknownQueue: the selection names a queue that the app doesn't have.
        """
        self._check_grantee(grantee)
        specs = selection.of(self.app.topology)
        grant = permissions.grant_work(
            grantee,
            [self._resources.queues[spec.name] for spec in specs],
            self._resources.parking(specs),
            self.table,
            self.bucket,
        )
        grant = grant.combine(self._resources.payload_keys.grant_work(grantee))
        return self._extended(grant, grantee)

    def grant_view(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let ``grantee`` see jobs, queues, workers, pauses, replays and the audit.

        It changes nothing. It can't read payloads and large results, nor look at dead letters
        themselves, except that the schedule of a job with a long delay holds its payload.
        """
        self._check_grantee(grantee)
        queues = [*self._resources.queues.values(), *self._resources.set_aside]
        grant = permissions.grant_view(grantee, queues, self.table)
        delays = self._delays
        return grant.combine(delays.grant_look(grantee)) if delays is not None else grant

    def grant_operate(
        self, grantee: iam.IGrantable, *, opens: bool = False, erase: bool = False
    ) -> iam.Grant:
        """Let ``grantee`` operate the app: queues, jobs, dead letters, and schedules.

        With ``opens`` it may also open what the app's ``encryption=`` seals, payloads and results;
        with ``erase`` erase a tenant's data, for which it may scan the whole table.
        """
        self._check_grantee(grantee)
        resources = self._resources
        grant = permissions.grant_operate(
            grantee, list(resources.queues.values()), resources.set_aside, self.table, self.bucket
        )
        grant = grant.combine(resources.payload_keys.grant_operate(grantee, opens=opens))
        if erase:
            grant = grant.combine(permissions.grant_erase(grantee, self.table, self.bucket))
        grant = grant_signing(grant, grantee, resources.signing_key)
        schedules = self._resources.schedules
        if schedules is None:
            return grant
        changes = schedules.grant_changes(grantee)
        return grant.combine(schedules.grant_undelay(grantee)).combine(changes)

    def grant_manage_schedules(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let ``grantee`` list, pause and resume the app's schedules, and create some of its own.

        Raises:
            ConfigurationError: the app has neither schedules nor long delays.
        """
        self._check_grantee(grantee)
        if self._resources.schedules is None:
            raise ConfigurationError(
                f"the app {self.app.name!r} has no schedules: declare it with long_delays=True"
            )
        sealing = self._resources.payload_keys.grant_seal(grantee, "payload")
        audited = permissions.grant_audited(grantee, self.table)
        return self._resources.schedules.grant_changes(grantee).combine(sealing).combine(audited)

    # --- metrics ---------------------------------------------------------------------------------

    def metric(
        self,
        metric_name: str,
        *,
        job: JobType[Any, Any] | None = None,
        **options: Unpack[MetricOptions],
    ) -> cloudwatch.Metric:
        """Return one of the metrics that workers and functions publish, by its name.

        Args:
            metric_name: its name, such as ``"JobsRetried"``; docs/watching.md lists them.
            job: the job type that it is about.
            options: CDK's options. Where there is no ``job``, ``dimensions_map`` has the dimensions
                besides ``service``. The statistic is a count's sum, and the average of seconds.

        Raises:
            ConfigurationError: there is no such metric, or neither ``job`` nor ``dimensions_map``.
        """
        return self._metric(_published(self.app.topology, metric_name, job, options), options)

    def metric_visible(
        self,
        queue: str,
        priority: Priority | PriorityName | None = None,
        **options: Unpack[MetricOptions],
    ) -> cloudwatch.Metric:
        """Return the number of waiting jobs. Maximum over five minutes."""
        return self._metric(metrics.visible(self._spec(queue, priority).name), options)

    def metric_in_flight(
        self,
        queue: str,
        priority: Priority | PriorityName | None = None,
        **options: Unpack[MetricOptions],
    ) -> cloudwatch.Metric:
        """Return the jobs that run, are held, or wait for a retry. Maximum over five minutes."""
        return self._metric(metrics.in_flight(self._spec(queue, priority).name), options)

    def metric_oldest_age(
        self,
        queue: str,
        priority: Priority | PriorityName | None = None,
        **options: Unpack[MetricOptions],
    ) -> cloudwatch.Metric:
        """Return the age of the oldest job in seconds. Maximum over five minutes."""
        return self._metric(metrics.oldest_age(self._spec(queue, priority).name), options)

    def metric_dead_letters(
        self,
        queue: str,
        priority: Priority | PriorityName | None = None,
        **options: Unpack[MetricOptions],
    ) -> cloudwatch.Metric:
        """Return the number of the queue's dead letters. Maximum over five minutes."""
        return self._metric(metrics.visible(self._spec(queue, priority).dlq_name), options)

    def metric_completed(
        self,
        queue: str,
        priority: Priority | PriorityName | None = None,
        **options: Unpack[MetricOptions],
    ) -> cloudwatch.Metric:
        """Return the number of completed jobs. Sum over five minutes."""
        return self._metric(
            metrics.completed(self.app.topology, self._spec(queue, priority)), options
        )

    def metric_failed(
        self,
        queue: str,
        priority: Priority | PriorityName | None = None,
        **options: Unpack[MetricOptions],
    ) -> cloudwatch.Metric:
        """Return the number of failed runs. Sum over five minutes."""
        return self._metric(metrics.failed(self.app.topology, self._spec(queue, priority)), options)

    def metric_failed_percent(
        self,
        queue: str,
        priority: Priority | PriorityName | None = None,
        *,
        period: Duration = _PERIOD,
        label: str | None = None,
    ) -> cloudwatch.MathExpression:
        """Return the percentage of failed runs among those that ended; no value if none did."""
        spec = self._spec(queue, priority)
        return as_expression(
            maths.failed_percent("failed", "completed"),
            {
                "failed": metrics.failed(self.app.topology, spec),
                "completed": metrics.completed(self.app.topology, spec),
            },
            label=label or f"{spec.group}-{spec.priority} failed %",
            period=period,
            place=self._place,
        )

    def metric_wait(
        self,
        queue: str,
        priority: Priority | PriorityName | None = None,
        **options: Unpack[MetricOptions],
    ) -> cloudwatch.Metric:
        """Return the seconds from when jobs were due to their start. p99 over five minutes."""
        return self._metric(metrics.wait(self.app.topology, self._spec(queue, priority)), options)

    def _metric(self, series: Series, options: MetricOptions) -> cloudwatch.Metric:
        own: MetricOptions = {"period": _PERIOD}
        return as_metric(series, **(own | self._place | options))

    @property
    def _place(self) -> MetricOptions:
        """The metrics' account and region, as far as they are known at synthesis."""
        place: MetricOptions = {}
        if not Token.is_unresolved(self._resources.account):
            place["account"] = self._resources.account
        if not Token.is_unresolved(self._resources.region):
            place["region"] = self._resources.region
        return place

    def _spec(self, queue: str, priority: Priority | PriorityName | None) -> QueueSpec:
        return self.app.topology.queue(queue, priority)

    def _check_grantee(self, grantee: iam.IGrantable) -> None:
        self._resources.check_grantee(grantee, self.app.name)

    @property
    def _delays(self) -> ScheduleAccess | None:
        return self._resources.schedules if self.app.long_delays else None

    def _extended(self, grant: iam.Grant, grantee: iam.IGrantable) -> iam.Grant:
        delays, grant = self._delays, grant_signing(grant, grantee, self._resources.signing_key)
        return grant.combine(delays.grant_delays(grantee)) if delays is not None else grant


def _published(
    topology: Topology, name: str, job: JobType[Any, Any] | None, options: MetricOptions
) -> Series:
    """Return a published metric; its dimensions are taken out of the options.

    Raises:
        ConfigurationError: there is no such metric, or nothing has its dimensions.
    """
    if name not in NAMES:
        raise ConfigurationError(f"there is no metric {name!r}: {did_you_mean(name, NAMES)}")
    dimensions = dict(options.pop("dimensions_map", {}))
    if job is not None:
        dimensions |= {TYPE: job.name, QUEUE: job.queue}
    if not dimensions:
        raise ConfigurationError(
            f"the metric {name} is published for each job type: name one with job=, or write "
            "dimensions_map="
        )
    return metrics.of_app(topology, name, dimensions)
