"""An app's system of another stack, referred to by the names that follow from the app."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NoReturn

from aws_cdk import ArnFormat, Stack, Token
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from headgate.infra.data.existing_resources import (
    own_key,
    refer_to_bucket,
    refer_to_queue,
    refer_to_table,
)
from headgate.infra.data.payload_keys import PayloadKeys
from headgate.infra.data.schedule_access import ScheduleAccess
from headgate.infra.data.signing_key import import_signing_key
from headgate.infra.data.system_resources import SystemResources
from headgate.infra.ijob_system import IJobSystem
from headgate.jobs.aws.queue_descriptions import (
    QueueDescription,
    failed_firings,
    failed_sweeps,
    pairs,
    quarantine,
)
from headgate.jobs.core.naming import role_in
from headgate.jobs.core.topology import Topology
from headgate.jobs.definitions.app import App
from headgate.jobs.deployment.triggers import has_bridge, has_schedules, scheduled_types
from headgate.jobs.errors import ConfigurationError
from headgate.jobs.schedules.firing import schedule_name

_MADE_ELSEWHERE: Mapping[str, str] = {
    "alarms": "the alarms",
    "alerts": "the topic for pages",
    "bridge": "the bridge function",
    "console": "the web console",
    "consumers": "the consumers' functions",
    "dashboard": "the dashboard",
    "deployment": "the deployment",
    "pages": "the composite alarms",
    "services": "the workers' services",
    "signing_key": "the secret with the signing key",
    "sweep": "the sweep function",
    "tickets": "the topic for tickets",
    "vpc": "the workers' VPC",
}
"""Attributes of a `JobSystem` that can't be derived from its app, with what they are."""


class ImportedJobSystem(IJobSystem):
    """A system that another stack creates; `JobSystem.from_app` returns it.

    It adds nothing to a template but what is granted.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        app: App,
        account: str | None,
        region: str | None,
        encryption_key: kms.IKey | None,
    ) -> None:
        super().__init__(scope, construct_id)
        self.app = app
        stack = Stack.of(self)
        importer = _Importer(self, account or stack.account, region or stack.region)
        importer.check_key(encryption_key)
        importer.check_existing(app)
        self._resources = importer.resources(app, encryption_key)

    def __getattr__(self, name: str) -> NoReturn:
        if name in _MADE_ELSEWHERE:
            raise AttributeError(
                f"an imported JobSystem has no {name}: {_MADE_ELSEWHERE[name]} can't be derived "
                "from the app. Use the JobSystem of the stack that creates it"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class _Importer:
    """Refers to an app's resources in one account and region."""

    def __init__(self, scope: Construct, account: str, region: str) -> None:
        self._scope = scope
        self._account = account
        self._region = region

    def check_key(self, key: kms.IKey | None) -> None:
        """Refuse a key of another region, which the queues can't be encrypted with."""
        if key is None or Token.is_unresolved(key.env.region) or Token.is_unresolved(self._region):
            return
        if key.env.region != self._region:
            raise ConfigurationError(
                f"the encryption key is in {key.env.region}, and the system in {self._region}: "
                "pass the key that its JobSystem was given"
            )

    def check_existing(self, app: App) -> None:
        """Refuse what exists in another region than the system, by its ARN."""
        if not Token.is_unresolved(self._region):
            app.existing.check_region(self._region)

    def resources(self, app: App, key: kms.IKey | None) -> SystemResources:
        """Return references to all that the app has there."""
        topology = app.topology
        described = list(pairs(topology))
        return SystemResources(
            account=self._account,
            region=self._region,
            queues={queue.name: self._queue(queue, key) for queue, _ in described},
            dead_letters={queue.name: self._queue(dead, key) for queue, dead in described},
            quarantine=self._queue(quarantine(topology), key),
            failed_firings=self._queue(failed_firings(topology), key) if has_bridge(app) else None,
            failed_sweeps=self._queue(failed_sweeps(topology), key),
            table=self._table(topology, key),
            bucket=self._bucket(topology, key),
            schedules=self._schedules(app) if has_schedules(app) else None,
            payload_keys=PayloadKeys(
                app=app, account=self._account, region=self._region, scope=self._scope
            ),
            signing_key=import_signing_key(self._scope, app, self._account, self._region, key),
        )

    def _queue(self, queue: QueueDescription, key: kms.IKey | None) -> sqs.IQueue:
        if key is not None and not queue.existing:
            queue = replace(queue, key=key.key_arn)
        return refer_to_queue(self._scope, queue, self._account, self._region)

    def _table(self, topology: Topology, key: kms.IKey | None) -> dynamodb.ITableV2:
        existing = topology.existing
        if existing.table is not None:
            key = own_key(self._scope, "TableKey", existing.table_key)
        return refer_to_table(self._scope, topology, self._account, self._region, key)

    def _bucket(self, topology: Topology, key: kms.IKey | None) -> s3.IBucket:
        existing = topology.existing
        if existing.bucket is not None:
            key = own_key(self._scope, "BucketKey", existing.bucket_key)
        return refer_to_bucket(self._scope, topology, self._account, self._region, key)

    def _schedules(self, app: App) -> ScheduleAccess:
        role = role_in(app.topology.scheduler_role, self._region)
        return ScheduleAccess(
            group_arn=self._arn("scheduler", "schedule", app.topology.schedule_group),
            declared=tuple(
                schedule_name(declared)
                for job in scheduled_types(app)
                for declared in job.schedules
            ),
            role_arn=self._arn("iam", "role", role, region=""),
        )

    def _arn(self, service: str, resource: str, name: str, *, region: str | None = None) -> str:
        return Stack.of(self._scope).format_arn(
            service=service,
            resource=resource,
            resource_name=name,
            account=self._account,
            region=self._region if region is None else region,
            arn_format=ArnFormat.SLASH_RESOURCE_NAME,
        )
