"""An app on AWS: `JobSystem` for a CDK app of one's own, `HeadgateStack` for a stack of its own."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from aws_cdk import RemovalPolicy, Stack, Tags
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra import checking, permissions
from infra.acknowledged import acknowledge
from infra.event_rules import EventRules
from infra.functions import Bridge
from infra.objects import Objects
from infra.outputs import add_outputs
from infra.queues import Queues
from infra.records import Records
from infra.schedules import Schedules, scheduled_types
from jobs.app import App
from jobs.deployment import Deployment
from jobs.errors import ConfigurationError
from jobs.topology import QUARANTINE_RETENTION


class JobSystem(Construct):
    """All that an app needs on AWS: queues, a table, a bucket, schedules and the bridge that
    serves them.

    Args:
        app: what to provision; its topology is read now, so declare everything before.
        deployment: what runs its jobs, and who is told; None: `Deployment`'s defaults.
        removal_policy: what happens to a queue, and the jobs in it, that leaves the stack. The
            table and the bucket stay, unless the stage is None or ``"dev"``.
        encryption_key: a key of one's own for the queues, the table and the bucket; None: keys that
            AWS manages, at no cost. Every grant below comes with the use of it. The policy of a key
            that is only referred to has to leave it to IAM who uses it, as KMS's default does.
        now: the time that the app is checked for, aware: a schedule that ends before it is a fault.
            None: this machine's. The template doesn't depend on it.

    Raises:
        AppFaulty: ``headgate check`` finds errors; its warnings are CDK's.
        ConfigurationError: the app has no job types, or a name is too long for AWS.

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
    ) -> None:
        if not app.types:
            raise ConfigurationError(
                f"the app {app.name!r} has no job types, so there is nothing to provision: import "
                "the modules that declare them before the stack is made"
            )
        warnings = checking.passed(app, now or datetime.now(UTC))
        super().__init__(scope, construct_id)
        checking.warn(self, warnings)
        self.app = app
        self.deployment = deployment or Deployment()
        self._queues = Queues(
            self,
            "Queues",
            topology=app.topology,
            removal_policy=removal_policy,
            key=encryption_key,
        )
        self._records = Records(self, "Records", topology=app.topology, key=encryption_key)
        self._objects = Objects(self, "Objects", topology=app.topology, key=encryption_key)
        self.bridge: lambda_.IFunction | None = None
        """The function that submits what schedules and events bring; None: nothing does."""
        self.failed_firings: sqs.IQueue | None = None
        """The queue of the firings and events that could not become jobs; None as above."""
        self._schedules = self._add_bridge() if _needs_bridge(app) else None
        _tag(self, app)

    def queue(self, physical: str) -> sqs.IQueue:
        """The queue of that physical name, one of ``app.topology``'s; for alarms, for one."""
        return self._queues.by_name[physical]

    @property
    def quarantine(self) -> sqs.IQueue:
        """The queue of the jobs that killed their workers."""
        return self._queues.quarantine

    @property
    def table(self) -> dynamodb.ITableV2:
        """The table of the jobs' records; for alarms, for one."""
        return self._records.table

    @property
    def bucket(self) -> s3.IBucket:
        """The bucket of payloads that are too large for messages."""
        return self._objects.bucket

    def grant_submit(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let ``grantee`` submit any of the app's jobs, and cancel what is delayed for long."""
        queues = list(self._queues.by_name.values())
        grant = permissions.grant_submit(grantee, queues, self.bucket)
        return self._with_delays(grant, grantee)

    def grant_follow(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let ``grantee`` ask what has become of any of the app's jobs, and cancel them."""
        grant = permissions.grant_follow(grantee, self.table, self.bucket)
        if self._schedules is None or not self.app.long_delays:
            return grant
        return grant.combine(self._schedules.grant_undelay(grantee))

    def grant_unique(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let ``grantee``, which may submit, do that with ``unique_for=`` too."""
        return permissions.grant_unique(grantee, self.table)

    def grant_work(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let ``grantee`` run the app's jobs, record them, and park what it gives up."""
        grant = permissions.grant_work(
            grantee,
            list(self._queues.by_name.values()),
            self._queues.parking,
            self.table,
            self.bucket,
        )
        return self._with_delays(grant, grantee)

    def grant_operate(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let ``grantee`` use the console and the commands: see queues, jobs and dead letters,
        cancel jobs, replay and delete dead letters, and do all that `grant_schedules` says."""
        failed = [self.failed_firings] if self.failed_firings is not None else []
        grant = permissions.grant_operate(
            grantee,
            list(self._queues.by_name.values()),
            [*self._queues.parking, *failed],
            self.table,
            self.bucket,
        )
        if self._schedules is None:
            return grant
        undelay = self._schedules.grant_undelay(grantee)
        return grant.combine(undelay).combine(self._schedules.grant_changes(grantee))

    def grant_schedules(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let ``grantee`` list, pause and resume the app's schedules, and make some of its own.

        Raises:
            ConfigurationError: the app has neither schedules nor long delays.
        """
        if self._schedules is None:
            raise ConfigurationError(
                f"the app {self.app.name!r} has no schedules: declare it with long_delays=True"
            )
        return self._schedules.grant_changes(grantee)

    def _with_delays(self, grant: iam.Grant, grantee: iam.IGrantable) -> iam.Grant:
        if self._schedules is None or not self.app.long_delays:
            return grant
        return grant.combine(self._schedules.grant_delays(grantee))

    def _add_bridge(self) -> Schedules | None:
        failed = self._queues.add(
            "schedules-dlq",
            queue_name=self.app.topology.failed_firings_name,
            retention=QUARANTINE_RETENTION,
        )
        acknowledge(failed, "SQS3", "It is the dead-letter queue of the bridge and what invokes it")
        bridge = Bridge(
            self,
            "Bridge",
            name=self.app.topology.bridge_name,
            feeds=self._fed_by_bridge(),
            failed=failed,
            table=self.table,
            app=self.app.topology.schedule_group,
        )
        self.bridge, self.failed_firings = bridge.function, failed
        EventRules(self, "EventRules", app=self.app, bridge=bridge.function, failed=failed)
        if not self.app.long_delays and not scheduled_types(self.app):
            return None
        return Schedules(self, "Schedules", app=self.app, bridge=bridge.function, failed=failed)

    def _fed_by_bridge(self) -> list[sqs.IQueue]:
        topology = self.app.topology
        if self.app.long_delays:
            return list(self._queues.by_name.values())
        on_event = (rule.type for rule in self.app.event_rules.values())
        submitted = (*scheduled_types(self.app), *on_event)
        names = {topology.queue(job.queue, job.priority).name for job in submitted}
        return [self._queues.by_name[name] for name in sorted(names)]


def _needs_bridge(app: App) -> bool:
    return app.long_delays or bool(scheduled_types(app) or app.event_rules)


def _tag(system: JobSystem, app: App) -> None:
    """What its costs are found by."""
    Tags.of(system).add("headgate:app", app.name)
    if app.stage:
        Tags.of(system).add("headgate:stage", app.stage)


class HeadgateStack(Stack):
    """A stack of one `JobSystem`; ``properties`` are CDK's `Stack`'s."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        app: App,
        deployment: Deployment | None = None,
        **properties: Any,
    ) -> None:
        super().__init__(scope, construct_id, **properties)
        self.jobs = JobSystem(self, "Jobs", app=app, deployment=deployment)
        add_outputs(self, self.jobs)
