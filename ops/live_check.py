"""An app's resources as they are on AWS, compared with what the app needs of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Protocol

from headgate.jobs.aws.queue_descriptions import QueueDescription, pairs, quarantine
from headgate.jobs.aws.queue_differences import lacks
from headgate.jobs.aws.stages.differences import (
    Difference,
    of_bucket,
    of_cluster,
    of_role,
    of_table,
)
from headgate.jobs.aws.stages.lookup import BucketFound, ClusterFound, TableFound
from headgate.jobs.definitions.app import App
from headgate.jobs.deployment.checks.places import queues_of
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.errors import BucketMissing, Fault, QueueMissing, TableMissing
from headgate.jobs.values.light_dataclass import light_dataclass

_AGAIN = "Deploy the stack again: it was changed by hand"
_WHERE_QUEUE = "Name a queue that exists, in this account and region, or by its ARN"


class StageReader(Protocol):
    """The present state of resources: `jobs.aws.stages.lookup.StageLookup`."""

    def account(self) -> str: ...
    def queue(self, queue: str) -> Mapping[str, str]: ...
    def table(self, table: str) -> TableFound: ...
    def bucket(self, bucket: str) -> BucketFound: ...
    def role(self, role: str) -> Mapping[str, Any] | None: ...
    def cluster(self, cluster: str) -> ClusterFound | None: ...


def live_faults(app: App, deployment: Deployment, lookup: StageReader, region: str) -> list[Fault]:
    """Return the faults of the resources that exist; what the deployment creates may be missing.

    Args:
        app: the app.
        deployment: its deployment.
        lookup: asks AWS.
        region: the region that the app is deployed in.

    Raises:
        TransportError: AWS could not be asked, or refused.
    """
    return [
        *_of_queues(app, deployment, lookup),
        *_of_table(app, lookup),
        *_of_bucket(app, lookup, region),
        *_of_roles(deployment, lookup),
        *_of_cluster(deployment, lookup),
    ]


@light_dataclass(frozen=True, slots=True, kw_only=True)
class _Resource:
    """A resource, and the faults that it may have."""

    kind: str
    name: str
    existing: bool
    """True if something else created it, so that no deployment mends it."""

    def missing(self, why: str, instead: str) -> Fault:
        """Return the fault of one that isn't there: its deployment may be to come."""
        return Fault(
            rule=f"{self.kind}-missing",
            where=f"{self.kind} {self.name}",
            what="it does not exist"
            + (", and it is named as existing" if self.existing else " yet"),
            why=why,
            instead=instead if self.existing else "Deploy the stack",
            severity="error" if self.existing else "warning",
        )

    def differing(self, found: Iterable[Difference]) -> Iterator[Fault]:
        """Yield the faults of one that is otherwise than it has to be."""
        for each in found:
            yield Fault(
                rule=f"{self.kind}-differs",
                where=f"{self.kind} {self.name}",
                what=each.what,
                why=each.why,
                instead=each.instead if self.existing else _AGAIN,
                severity=each.severity if self.existing else "warning",
            )


def _of_queues(app: App, deployment: Deployment, lookup: StageReader) -> Iterator[Fault]:
    of_functions = {spec.name for group in deployment.consumers for spec in queues_of(app, group)}
    described = [each for pair in pairs(app.topology) for each in pair]
    for queue in (*described, quarantine(app.topology)):
        yield from _of_queue(_as_served(queue, of_functions), lookup)


def _as_served(queue: QueueDescription, of_functions: set[str]) -> QueueDescription:
    """Return what a queue needs: workers ask an existing one for the visibility of its lane."""
    if queue.existing and queue.name not in of_functions:
        return replace(queue, visibility=None)
    return queue


def _of_queue(queue: QueueDescription, lookup: StageReader) -> Iterator[Fault]:
    resource = _Resource(kind="queue", name=queue.name, existing=queue.existing)
    try:
        found = lookup.queue(queue.name)
    except QueueMissing:
        yield resource.missing("Jobs can't be submitted to it", _WHERE_QUEUE)
        return
    instead = "Change the queue, or what existing= says of it"
    yield from resource.differing(
        Difference(what=what, why=why, instead=instead) for what, why in lacks(queue, found)
    )


def _of_table(app: App, lookup: StageReader) -> Iterator[Fault]:
    topology = app.topology
    existing = topology.existing.table is not None
    resource = _Resource(kind="table", name=topology.table_name, existing=existing)
    try:
        found = lookup.table(topology.table_name)
    except TableMissing:
        why = "Jobs are neither recorded nor claimed, so no once=True job runs"
        yield resource.missing(why, "Name a table that exists, in this account and region")
        return
    yield from resource.differing(of_table(topology, found))


def _of_bucket(app: App, lookup: StageReader, region: str) -> Iterator[Fault]:
    topology = app.topology
    name = topology.bucket_name or topology.bucket.name_in(lookup.account(), region)
    existing = topology.existing.bucket is not None
    resource = _Resource(kind="bucket", name=name, existing=existing)
    try:
        found = lookup.bucket(name)
    except BucketMissing:
        why = "Jobs with large payloads can't be submitted"
        yield resource.missing(why, f"Name a bucket that exists, in {region}")
        return
    yield from resource.differing(of_bucket(topology, found, region))


def _of_roles(deployment: Deployment, lookup: StageReader) -> Iterator[Fault]:
    for role in dict.fromkeys(group.task_role for group in deployment.workers):
        if role is None:
            continue
        resource = _Resource(kind="role", name=role, existing=True)
        trust = lookup.role(role.rpartition("/")[2])
        if trust is None:
            yield resource.missing("No task starts", "Name a role that exists in this account")
        else:
            yield from resource.differing(of_role(trust))


def _of_cluster(deployment: Deployment, lookup: StageReader) -> Iterator[Fault]:
    if deployment.cluster is None or not deployment.workers:
        return
    resource = _Resource(kind="cluster", name=deployment.cluster, existing=True)
    found = lookup.cluster(deployment.cluster)
    if found is None:
        yield resource.missing("No task starts", "Name a cluster in this account and region")
        return
    spot = any(group.spot for group in deployment.workers)
    yield from resource.differing(of_cluster(found, spot=spot))
