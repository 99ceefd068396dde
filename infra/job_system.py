"""An app's whole system on AWS, as a construct for a CDK app of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from aws_cdk import RemovalPolicy, Stack, Tags
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from headgate.infra.checks import app_check
from headgate.infra.data import permissions
from headgate.infra.data.alert_topic import Alerts
from headgate.infra.data.bucket import Objects
from headgate.infra.data.nag_suppressions import acknowledge
from headgate.infra.data.queues import Queues
from headgate.infra.data.table import Records
from headgate.infra.fargate.image import worker_image
from headgate.infra.fargate.network import Network
from headgate.infra.fargate.worker_service import Workers
from headgate.infra.functions.bridge import BridgeFunction
from headgate.infra.functions.consumer import ConsumerFunction
from headgate.infra.functions.event_rules import EventRules
from headgate.infra.functions.schedules import DeclaredSchedules, scheduled_types
from headgate.infra.functions.sweep import Sweep
from headgate.infra.monitoring.monitoring import Monitoring
from headgate.jobs.aws.descriptions import tags_of
from headgate.jobs.aws.queue_descriptions import failed_firings, failed_sweeps
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.app_path import app_path as find_app
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.groups import (
    ConsumerGroup,
    QueueSelection,
    function_name,
    worker_service_name,
)
from headgate.jobs.deployment.sweep_plan import sweep_plan
from headgate.jobs.errors import ConfigurationError

_ALL = QueueSelection()


class JobSystem(Construct):
    """An app's whole system on AWS: queues, a table, a bucket, schedules and their bridge.

    Args:
        app: the app to provision; its topology is read now, so declare everything before.
        deployment: its workers, functions and alerts; None: `Deployment`'s defaults.
        removal_policy: applies to a queue, and the jobs in it, that is removed from the stack. The
            table and the bucket are retained, unless the stage is None or ``"dev"``.
        encryption_key: a customer-managed key for the queues, the table and the bucket; None: keys
            that AWS manages, at no cost. Every grant below includes the use of it. The policy of an
            imported key has to delegate permissions to IAM, as KMS's default policy does.
        now: the time that the app is checked for, aware: a schedule that ends before it is a fault,
            and one that has started is deployed without its start. None: this machine's.
        image: the image of worker groups; None: the one that ``deployment.dockerfile`` builds.
        vpc: their VPC; None: a network of their own, according to ``deployment.network``.
        app_path: the app's ``module:attribute`` in the image; None: as it is found here.

    Raises:
        AppFaulty: ``headgate check`` finds errors; its warnings become CDK's.
        ConfigurationError: the app has no job types, a name is too long for AWS, the deployment
            doesn't fit the app, or there is no Dockerfile.

    Example:
        >>> jobs = JobSystem(self, "Jobs", app=app)  # doctest: +SKIP
        >>> jobs.grant_submit(web_service.task_role)  # doctest: +SKIP
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        app: App,
        deployment: Deployment | None = None,
        removal_policy: RemovalPolicy = RemovalPolicy.DESTROY,
        encryption_key: kms.IKey | None = None,
        now: datetime | None = None,
        image: ecs.ContainerImage | None = None,
        vpc: ec2.IVpc | None = None,
        app_path: str | None = None,
    ) -> None:
        _refuse_empty(app)
        deployment = deployment or Deployment()
        warnings = app_check.passed(app, deployment, now or datetime.now(UTC))
        super().__init__(scope, construct_id)
        app_check.warn(self, warnings)
        self.app = app
        self.deployment = deployment
        self._queues = Queues(
            self,
            "Queues",
            topology=app.topology,
            removal_policy=removal_policy,
            key=encryption_key,
        )
        self._records = Records(self, "Records", topology=app.topology, key=encryption_key)
        self._objects = Objects(self, "Objects", topology=app.topology, key=encryption_key)
        self._alerts = Alerts(
            self, "Alerts", topology=app.topology, addresses=self.deployment.alerts_to
        )
        self.bridge: lambda_.Function | None = None
        """The function that submits jobs for schedules and events; None: the app has none."""
        self.failed_firings: sqs.IQueue | None = None
        """The queue of firings and events that could not become jobs; None as above."""
        self._schedules = self._add_bridge() if _needs_bridge(app) else None
        self.sweep = self._add_sweep()
        """The function that reports dead letters, for example for alarms."""
        self._workers = (
            self._add_workers(image, vpc, app_path or find_app(app))
            if self.deployment.workers
            else None
        )
        self.consumers: Mapping[str, ConsumerFunction] = {
            group.name: self._add_consumer(group) for group in self.deployment.consumers
        }
        """The functions that run jobs, by their groups' names."""
        self._watching = self._watch()
        _tag(self, app)

    def queue(self, physical: str) -> sqs.IQueue:
        """Return the queue of that physical name in ``app.topology``, for example for alarms."""
        return self._queues.by_name[physical]

    @property
    def quarantine(self) -> sqs.IQueue:
        """The queue of the jobs that killed their workers."""
        return self._queues.quarantine

    @property
    def table(self) -> dynamodb.ITableV2:
        """The table of the jobs' records, for example for alarms."""
        return self._records.table

    @property
    def bucket(self) -> s3.IBucket:
        """The bucket of payloads too large for messages."""
        return self._objects.bucket

    @property
    def alerts(self) -> sns.ITopic:
        """The topic for alerts to people, for alarms and subscriptions of one's own."""
        return self._alerts.topic

    @property
    def services(self) -> Mapping[str, ecs.FargateService]:
        """The services of the worker groups, by group name."""
        return self._workers.services if self._workers is not None else {}

    @property
    def vpc(self) -> ec2.IVpc | None:
        """The workers' VPC; None if there are no workers."""
        return self._workers.network.vpc if self._workers is not None else None

    @property
    def alarms(self) -> Mapping[str, cloudwatch.Alarm]:
        """The alarms, for further actions; by name without app and stage, as ``jobs-high-late``."""
        return self._watching.alarms.by_name

    @property
    def dashboard(self) -> cloudwatch.Dashboard:
        """The dashboard, for widgets of one's own."""
        return self._watching.dashboard.dashboard

    def grant_submit(self, grantee: iam.IGrantable, *, unique: bool = False) -> iam.Grant:
        """Let ``grantee`` submit any of the app's jobs, and cancel those with a long delay.

        Args:
            grantee: the principal.
            unique: also allow unique jobs, which are claimed in the table.
        """
        queues = list(self._queues.by_name.values())
        grant = permissions.grant_submit(grantee, queues, self.bucket)
        if unique:
            grant = grant.combine(permissions.grant_unique(grantee, self.table))
        return self._with_delays(grant, grantee)

    def grant_follow(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let ``grantee`` read the outcomes of any of the app's jobs, and cancel them."""
        grant = permissions.grant_follow(grantee, self.table, self.bucket)
        if self._schedules is None or not self.app.long_delays:
            return grant
        return grant.combine(self._schedules.grant_undelay(grantee))

    def grant_work(self, grantee: iam.IGrantable, *, lanes: QueueSelection = _ALL) -> iam.Grant:
        """Let ``grantee`` run the app's jobs, record them, and park those that are given up.

        Args:
            grantee: the principal.
            lanes: the queues; all by default.
        """
        specs = lanes.of(self.app.topology)
        grant = permissions.grant_work(
            grantee,
            [self._queues.by_name[spec.name] for spec in specs],
            self._queues.parking(specs),
            self.table,
            self.bucket,
        )
        return self._with_delays(grant, grantee)

    def grant_operate(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let ``grantee`` operate the app.

        It may inspect queues, jobs and dead letters, cancel jobs, replay and delete dead letters,
        and do everything that `grant_manage_schedules` allows.
        """
        grant = permissions.grant_operate(
            grantee,
            list(self._queues.by_name.values()),
            self._queues.set_aside,
            self.table,
            self.bucket,
        )
        if self._schedules is None:
            return grant
        undelay = self._schedules.grant_undelay(grantee)
        return grant.combine(undelay).combine(self._schedules.grant_changes(grantee))

    def grant_manage_schedules(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let ``grantee`` list, pause and resume the app's schedules, and create some of its own.

        Raises:
            ConfigurationError: the app has neither schedules nor long delays.
        """
        if self._schedules is None:
            raise ConfigurationError(
                f"the app {self.app.name!r} has no schedules: declare it with long_delays=True"
            )
        return self._schedules.grant_changes(grantee)

    def _add_workers(
        self, image: ecs.ContainerImage | None, vpc: ec2.IVpc | None, app_path: str
    ) -> Workers:
        deployment, topology = self.deployment, self.app.topology
        image = image or worker_image(self, dockerfile=deployment.dockerfile)
        network = Network(
            self, "Network", deployment=deployment, vpc=vpc, long_delays=self.app.long_delays
        )
        workers = Workers(self, "Workers", network=network, image=image)
        for group in deployment.workers:
            service = workers.add(
                group,
                service_name=worker_service_name(topology, group),
                queues=group.lanes.of(topology),
                environment=_environment(self)
                | {
                    "HEADGATE_APP": app_path,
                    "HEADGATE_STOP_TIMEOUT": f"{group.stop_timeout.total_seconds():g}",
                },
            )
            role = service.task_definition.task_role
            self.grant_work(role, lanes=group.lanes)
            if group.submits:
                self.grant_submit(role)
        return workers

    def _with_delays(self, grant: iam.Grant, grantee: iam.IGrantable) -> iam.Grant:
        if self._schedules is None or not self.app.long_delays:
            return grant
        return grant.combine(self._schedules.grant_delays(grantee))

    def _add_consumer(self, group: ConsumerGroup) -> ConsumerFunction:
        consumer = ConsumerFunction(
            self,
            f"Consumer-{group.name}",
            group=group,
            topology=self.app.topology,
            queues=self._queues,
            environment=_environment(self),
        )
        self.grant_work(consumer.function, lanes=group.lanes)
        if group.submits:
            self.grant_submit(consumer.function)
        return consumer

    def _watch(self) -> Monitoring:
        return Monitoring(
            self,
            "Watching",
            app=self.app,
            deployment=self.deployment,
            topic=self.alerts,
            bridge=self.bridge,
            schedules=self._schedules is not None,
            services=self.services,
            sweep=self.sweep.function,
            job_logs=[
                *(self._workers.log_groups if self._workers else ()),
                *(consumer.function.log_group for consumer in self.consumers.values()),
            ],
        )

    def _add_bridge(self) -> DeclaredSchedules | None:
        failed = self._queues.add(failed_firings(self.app.topology))
        acknowledge(failed, "SQS3", "It is the dead-letter queue of the bridge and what invokes it")
        bridge = BridgeFunction(
            self,
            "Bridge",
            name=self.app.topology.bridge_name,
            feeds=_fed_by_bridge(self.app, self._queues),
            failed=failed,
            table=self.table,
            app=self.app.topology.schedule_group,
            reserved=self.deployment.bridge_reserved,
        )
        self.bridge, self.failed_firings = bridge.function, failed
        EventRules(self, "EventRules", app=self.app, bridge=bridge.function, failed=failed)
        if not self.app.long_delays and not scheduled_types(self.app):
            return None
        return DeclaredSchedules(
            self,
            "Schedules",
            app=self.app,
            bridge=bridge.function,
            failed=failed,
            standby=self.deployment.standby,
        )

    def _add_sweep(self) -> Sweep:
        plan = sweep_plan(self.app, has_bridge=_needs_bridge(self.app))
        failed = self._queues.add(failed_sweeps(self.app.topology))
        acknowledge(failed, "SQS3", "It is the dead-letter queue of the sweep and what invokes it")
        return Sweep(
            self,
            "Sweep",
            name=function_name(self.app.topology, "sweep"),
            plan=plan,
            parking=self._queues.named(queue.name for queue in plan.queues),
            failed=failed,
            table=self.table,
            bucket=self.bucket,
            alerts=self._alerts,
        )


def _refuse_empty(app: App) -> None:
    if not app.types:
        raise ConfigurationError(
            f"the app {app.name!r} has no job types, so there is nothing to provision: import "
            "the modules that declare them before the stack is made"
        )


def _environment(system: JobSystem) -> dict[str, str]:
    """Return the environment variables that the app reads wherever its jobs run."""
    found = {
        "HEADGATE_STAGE": system.app.stage,
        # Both would otherwise take a request to STS, which the workers' own network doesn't reach.
        "HEADGATE_BUCKET": system.bucket.bucket_name,
        "HEADGATE_ACCOUNT": Stack.of(system).account,
    }
    return {name: value for name, value in found.items() if value is not None}


def _needs_bridge(app: App) -> bool:
    return app.long_delays or bool(scheduled_types(app) or app.event_rules)


def _fed_by_bridge(app: App, queues: Queues) -> list[sqs.IQueue]:
    """Return the queues of scheduled and event-driven types; all queues with long delays."""
    if app.long_delays:
        return list(queues.by_name.values())
    on_event = (rule.type for rule in app.event_rules.values())
    submitted = (*scheduled_types(app), *on_event)
    names = {app.topology.queue(job.queue, job.priority).name for job in submitted}
    return [queues.by_name[name] for name in sorted(names)]


def _tag(system: JobSystem, app: App) -> None:
    """Tag the resources, for cost allocation."""
    for tag, value in tags_of(app.topology).items():
        Tags.of(system).add(tag, value)
