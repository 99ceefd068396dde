"""An app's whole system on AWS, as a construct for a CDK app of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TypedDict

from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from constructs import Construct

from headgate.infra.checks.app_check import warn
from headgate.infra.data.alert_topic import Alerts
from headgate.infra.data.bucket import Objects
from headgate.infra.data.encryption import named_key
from headgate.infra.data.existing_resources import ExistingResources
from headgate.infra.data.log_groups import encrypt_logs
from headgate.infra.data.nag_suppressions import acknowledge
from headgate.infra.data.payload_keys import PayloadKey
from headgate.infra.data.queues import Queues
from headgate.infra.data.signing_key import make_signing_key
from headgate.infra.data.system_resources import resources_of
from headgate.infra.data.table import Records
from headgate.infra.fargate.console_service import ConsoleService, console_beside
from headgate.infra.fargate.endpoint_policies import owners_of
from headgate.infra.fargate.image import worker_image
from headgate.infra.fargate.network import Network
from headgate.infra.fargate.worker_command import worker_variables
from headgate.infra.fargate.worker_service import Workers
from headgate.infra.functions.bridge import BridgeFunction, fed_by_bridge
from headgate.infra.functions.bundling import functions_code
from headgate.infra.functions.consumer import ConsumerFunction
from headgate.infra.functions.demand import add_demand
from headgate.infra.functions.event_rules import EventRules
from headgate.infra.functions.schedules import DeclaredSchedules
from headgate.infra.functions.sweep import Resending, Sweep
from headgate.infra.ijob_system import IJobSystem
from headgate.infra.imported_system import ImportedJobSystem
from headgate.infra.monitoring.alarm_rules import roll_back_on
from headgate.infra.monitoring.monitoring import Monitoring
from headgate.infra.system_settings import (
    add_tags,
    environment_of,
    grant_group,
    refuse_empty,
    removal_policy,
)
from headgate.jobs.aws.queue_descriptions import failed_firings, failed_sweeps
from headgate.jobs.core.topology import Topology
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.app_path import app_path as find_app
from headgate.jobs.definitions.sealing import has_own_key
from headgate.jobs.deployment.checks.check import require_fit
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.groups.consumer_group import ConsumerGroup
from headgate.jobs.deployment.resource_names import function_name, worker_service_name
from headgate.jobs.deployment.sweep_plan import sweep_plan
from headgate.jobs.deployment.triggers import has_bridge, has_schedules
from headgate.jobs.schedules.routes import Routes


class JobSystem(IJobSystem):
    """An app's whole system on AWS: queues, a table, a bucket, schedules and their bridge.

    Args:
        app: the app to provision; its topology is read now, so declare everything before.
        deployment: its workers, functions and alerts; None: `Deployment`'s defaults.
        encryption_key: a customer-managed key for the queues, the table and the bucket; None: keys
            that AWS manages, at no cost, unless the deployment names one. Every grant below
            includes the use of it. The policy of an imported key has to delegate permissions to
            IAM, as KMS's default policy does.
        now: the time that the app is checked for, aware: a schedule that ends before it is a fault,
            and one that has started is deployed without its start. None: this machine's.
        image: the image of worker groups; None: the one that ``deployment.dockerfile`` builds.
        vpc: their VPC; None: a network of their own, according to ``deployment.network``.
        existing: constructs of resources that exist, which the app names by ``existing=``, and of a
            cluster; None: those are referred to by their names.
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
        encryption_key: kms.IKey | None = None,
        now: datetime | None = None,
        image: ecs.ContainerImage | None = None,
        vpc: ec2.IVpc | None = None,
        existing: ExistingResources | None = None,
        app_path: str | None = None,
    ) -> None:
        refuse_empty(app)
        existing = existing or ExistingResources()
        existing.check(app.topology, Stack.of(scope).region)
        deployment = deployment or Deployment()
        warnings = require_fit(app, deployment, now or datetime.now(UTC))
        super().__init__(scope, construct_id)
        warn(self, warnings)
        self.app = app
        self.deployment = deployment
        encryption_key = encryption_key or named_key(self, deployment.encryption_key)
        kept = removal_policy(app, deployment)
        data: _Data = {"topology": app.topology, "removal_policy": kept, "key": encryption_key}
        self._queues = Queues(self, "Queues", **data, existing=existing)
        self._records = Records(
            self, "Records", **data, protected=deployment.protected, existing=existing.table
        )
        self._objects = Objects(self, "Objects", **data, existing=existing.bucket)
        if has_own_key(app):
            PayloadKey(self, "PayloadKey", app=app, removal_policy=kept)
        self.signing_key = make_signing_key(self, app, kept, encryption_key)
        """The secret with the key that signs messages; None: the app's are not signed."""
        self._alerts = Alerts(
            self,
            "Alerts",
            topology=app.topology,
            addresses=deployment.alerts_to,
            tickets_to=deployment.tickets_to or deployment.alerts_to,
        )
        code = functions_code(Routes.of(app))
        bridge = self._add_bridge(code) if has_bridge(app) else None
        self.bridge = bridge.function if bridge is not None else None
        """The function that submits jobs for schedules and events; None: the app has none."""
        schedules = self._add_schedules(bridge) if bridge is not None else None
        self.sweep = self._add_sweep(code)
        """The function that reports dead letters, for example for alarms."""
        add_demand(self, app.topology, deployment, self._queues.by_name, code)
        access = schedules.access if schedules is not None else None
        self._resources = resources_of(
            self, app, self._queues, self._records, self._objects, access, self.signing_key
        )
        self.console: ConsoleService | None = None
        """The web console behind its load balancer; None: the deployment has none."""
        self._workers = (
            self._add_workers(image, vpc, app_path or find_app(app), existing.cluster)
            if deployment.workers
            else None
        )
        self.consumers: Mapping[str, ConsumerFunction] = {
            group.name: self._add_consumer(group) for group in self.deployment.consumers
        }
        """The functions that run jobs, by their groups' names."""
        self._watching = self._watch()
        encrypt_logs(self, deployment.log_key)
        add_tags(self, deployment)

    @staticmethod
    def from_app(
        scope: Construct,
        construct_id: str,
        *,
        app: App,
        account: str | None = None,
        region: str | None = None,
        encryption_key: kms.IKey | None = None,
    ) -> IJobSystem:
        """Refer to an app's system that another stack creates, by the names that the app gives it.

        It has the queues, the table and the bucket, and all grants and metrics. Alarms, functions,
        services and the topic of alerts are only in the stack that creates them.

        Args:
            scope: the construct that it belongs to, such as a stack.
            construct_id: its name there.
            app: the app, of the same stage, with everything declared by now.
            account: the system's account; None: the stack's. Only metrics reach into another
                account than the stack's: a role is granted access by its own account.
            region: the system's region; None: the stack's.
            encryption_key: the key that its `JobSystem` was given; all grants include its use.

        Raises:
            ConfigurationError: the app has no job types, or the key or an existing resource of the
                app is in another region: a standby's are named by its own `App(existing=...)`.

        Example:
            >>> jobs = JobSystem.from_app(self, "Jobs", app=app)  # doctest: +SKIP
            >>> jobs.grant_submit(web_service.task_role)  # doctest: +SKIP
        """
        refuse_empty(app)
        return ImportedJobSystem(
            scope,
            construct_id,
            app=app,
            account=account,
            region=region,
            encryption_key=encryption_key,
        )

    @property
    def alerts(self) -> sns.ITopic:
        """The topic for pages, for alarms and subscriptions of one's own."""
        return self._alerts.topic

    @property
    def tickets(self) -> sns.ITopic:
        """The topic for tickets, likewise."""
        return self._alerts.tickets

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
    def pages(self) -> Mapping[str, cloudwatch.CompositeAlarm]:
        """The composite alarms that page, for further actions; by name, as ``workers-page``."""
        return self._watching.paging.by_name

    @property
    def dashboard(self) -> cloudwatch.Dashboard:
        """The dashboard, for widgets of one's own."""
        return self._watching.dashboard.dashboard

    def _add_workers(
        self,
        image: ecs.ContainerImage | None,
        vpc: ec2.IVpc | None,
        app_path: str,
        cluster: ecs.ICluster | None,
    ) -> Workers:
        deployment, topology = self.deployment, self.app.topology
        image = image or worker_image(
            self, dockerfile=deployment.dockerfile, architecture=deployment.architecture
        )
        network = Network(
            self,
            "Network",
            deployment=deployment,
            vpc=vpc,
            long_delays=self.app.long_delays,
            seals=self.app.encryption is not None,
            signing=self.signing_key is not None,
            owners=owners_of(self.app, deployment),
        )
        workers = Workers(
            self, "Workers", network=network, image=image, deployment=deployment, cluster=cluster
        )
        environment = {**environment_of(self), "HEADGATE_APP": app_path}
        for group in deployment.workers:
            workers.add(
                group,
                service_name=worker_service_name(topology, group.name),
                topology=topology,
                roll_back_on=roll_back_on(self.app, deployment, group.selection),
                environment=environment | worker_variables(group, app_path),
            )
            grant_group(self, workers.grantees[group.name], group)
        workers.split_policies()
        self.console = console_beside(self, workers, deployment, environment)
        return workers

    def _add_consumer(self, group: ConsumerGroup) -> ConsumerFunction:
        consumer = ConsumerFunction(
            self,
            f"Consumer-{group.name}",
            group=group,
            topology=self.app.topology,
            queues=self._queues,
            environment={**self.deployment.environment, **environment_of(self)},
            log_days=self.deployment.log_retention_days,
        )
        grant_group(self, consumer.function, group)
        return consumer

    def _watch(self) -> Monitoring:
        return Monitoring(
            self,
            "Watching",
            app=self.app,
            deployment=self.deployment,
            alerts=self._alerts,
            bridge=self.bridge,
            schedules=self._resources.schedules is not None,
            services=self.services,
            sweep=self.sweep.function,
            job_logs=[
                *(self._workers.log_groups if self._workers else ()),
                *(consumer.function.log_group for consumer in self.consumers.values()),
            ],
        )

    def _add_bridge(self, code: lambda_.Code) -> BridgeFunction:
        failed = self._queues.add(failed_firings(self.app.topology))
        acknowledge(failed, "SQS3", "It is the dead-letter queue of the bridge and what invokes it")
        bridge = BridgeFunction(
            self,
            "Bridge",
            name=self.app.topology.bridge_name,
            code=code,
            feeds=fed_by_bridge(self.app, self._queues.by_name),
            failed=failed,
            table=self._records.table,
            app=self.app.topology.schedule_group,
            log_days=self.deployment.log_retention_days,
            reserved=self.deployment.bridge_reserved,
            signing_key=self.signing_key,
        )
        EventRules(self, "EventRules", app=self.app, bridge=bridge.function, failed=failed)
        return bridge

    def _add_schedules(self, bridge: BridgeFunction) -> DeclaredSchedules | None:
        if not has_schedules(self.app):
            return None
        return DeclaredSchedules(
            self,
            "Schedules",
            app=self.app,
            bridge=bridge.function,
            failed=bridge.failed,
            standby=self.deployment.standby,
            removal_policy=removal_policy(self.app, self.deployment),
        )

    def _add_sweep(self, code: lambda_.Code) -> Sweep:
        console = self.deployment.console_url
        plan = sweep_plan(self.app, has_bridge=has_bridge(self.app), console=console)
        failed = self._queues.add(failed_sweeps(self.app.topology))
        acknowledge(failed, "SQS3", "It is the dead-letter queue of the sweep and what invokes it")
        return Sweep(
            self,
            "Sweep",
            name=function_name(self.app.topology, "sweep"),
            code=code,
            plan=plan,
            parking=[self._queues.named(queue.name) for queue in plan.queues],
            failed=failed,
            table=self._records.table,
            bucket=self._objects.bucket,
            alerts=self._alerts,
            log_days=self.deployment.log_retention_days,
            resending=Resending.of(plan, self.app.topology, self._queues, self.signing_key),
        )


class _Data(TypedDict):
    """The arguments that queues, table and bucket have in common."""

    topology: Topology
    removal_policy: RemovalPolicy
    key: kms.IKey | None
