"""The resources of an app's system that permissions and metrics name, created or imported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from aws_cdk import Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from headgate.infra.data.bucket import Objects
from headgate.infra.data.payload_keys import PayloadKeys
from headgate.infra.data.permissions import check_account
from headgate.infra.data.queues import Queues
from headgate.infra.data.schedule_access import ScheduleAccess
from headgate.infra.data.table import Records
from headgate.infra.roles.lengths import require_short
from headgate.jobs.core.topology import QueueSpec
from headgate.jobs.definitions.app import App
from headgate.jobs.deployment.triggers import has_bridge


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemResources:
    """An app's queues, table, bucket and schedules in one account and region."""

    account: str
    """The account's number, or CDK's token for that of the stack; likewise the region."""
    region: str
    queues: Mapping[str, sqs.IQueue]
    """The queues that jobs are submitted to, by physical name."""
    dead_letters: Mapping[str, sqs.IQueue]
    """Their dead-letter queues, by the physical name of the queue that they belong to."""
    quarantine: sqs.IQueue
    failed_firings: sqs.IQueue | None
    """None: the app has no bridge."""
    failed_sweeps: sqs.IQueue
    table: dynamodb.ITableV2
    bucket: s3.IBucket
    schedules: ScheduleAccess | None
    """None: the app has no group of schedules."""
    payload_keys: PayloadKeys
    signing_key: secretsmanager.ISecret | None
    """None: the app's messages are not signed."""

    def check_grantee(self, grantee: iam.IGrantable, app: str) -> None:
        """Refuse a principal of another account, and one that is granted too much, at synthesis.

        Raises:
            ConfigurationError: the principal is of another account.
        """
        check_account(grantee, self.account, app)
        queues = (*self.queues.items(), *self.dead_letters.items())
        require_short(self.payload_keys.scope, grantee, queues)

    @property
    def set_aside(self) -> Sequence[sqs.IQueue]:
        """The queues that no jobs are run from: dead letters, and other messages set aside."""
        firings = [] if self.failed_firings is None else [self.failed_firings]
        return [*self.dead_letters.values(), self.quarantine, *firings, self.failed_sweeps]

    def parking(self, specs: Iterable[QueueSpec]) -> Sequence[sqs.IQueue]:
        """Return the dead-letter queues of these queues, and the quarantine."""
        return [*(self.dead_letters[spec.name] for spec in specs), self.quarantine]


def resources_of(
    scope: Construct,
    app: App,
    queues: Queues,
    records: Records,
    objects: Objects,
    schedules: ScheduleAccess | None,
    signing_key: secretsmanager.ISecret | None,
) -> SystemResources:
    """Return the resources of a system in its own stack."""
    topology, stack = app.topology, Stack.of(scope)
    fires = has_bridge(app)
    return SystemResources(
        account=stack.account,
        region=stack.region,
        queues=queues.by_name,
        dead_letters=queues.dead_letters,
        quarantine=queues.quarantine,
        failed_firings=queues.named(topology.failed_firings_name) if fires else None,
        failed_sweeps=queues.named(topology.failed_sweeps_name),
        table=records.table,
        bucket=objects.bucket,
        schedules=schedules,
        payload_keys=PayloadKeys(app=app, account=stack.account, region=stack.region, scope=scope),
        signing_key=signing_key,
    )
