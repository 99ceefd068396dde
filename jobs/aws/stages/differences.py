"""Differences between a stage's table, bucket, role and cluster, and what its app needs.

Pure: `jobs.aws.stages.lookup` asks AWS.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from headgate.jobs.aws.descriptions import EXPIRY, LINES, lifecycle_rules, table_properties
from headgate.jobs.aws.stages.lookup import BucketFound, ClusterFound, TableFound
from headgate.jobs.core.topology import Topology
from headgate.jobs.values.light_dataclass import frozen_dataclass

TASKS = "ecs-tasks.amazonaws.com"
"""The service that assumes the role of a task."""


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing that is otherwise than it has to be."""

    what: str
    why: str
    """The consequence."""
    instead: str
    """The remedy, as a command to the reader."""
    severity: Literal["error", "warning"] = "error"


def of_table(topology: Topology, found: TableFound) -> Iterator[Difference]:
    """Yield what a topology's table lacks."""
    table, needed = found.described, table_properties(topology.table_name)
    if table["TableStatus"] not in ("ACTIVE", "UPDATING"):
        yield Difference(
            what=f"it is {table['TableStatus']}",
            why="Nothing can be read from it or written to it",
            instead="Wait until it is ACTIVE, or restore it",
        )
    if not _keyed_alike(needed, needed, table, table):
        yield Difference(
            what=f"its keys are {_keys(table, table)}, and the app's {_keys(needed, needed)}",
            why="No item can be written",
            instead="Name another table: a table's keys can't be changed",
        )
    yield from _index(needed, table)
    if found.expiry != EXPIRY:
        yield Difference(
            what=f"its time to live is by {found.expiry or 'no attribute'}, and not by {EXPIRY}",
            why="Records, claims and signs of life stay, and are paid for",
            instead=f"aws dynamodb update-time-to-live --table-name {topology.table_name} "
            f"--time-to-live-specification Enabled=true,AttributeName={EXPIRY}",
        )
    if topology.existing.table is not None:  # the deployment knows the key of the app's own
        yield from _key(topology.existing.table_key, found.own_key, "table_key")


def of_bucket(topology: Topology, found: BucketFound, region: str) -> Iterator[Difference]:
    """Yield what a topology's bucket lacks."""
    if found.region != region:
        yield Difference(
            what=f"it is in {found.region}, and the app runs in {region}",
            why="Each payload crosses regions, and no endpoint of the workers' network leads there",
            instead=f"Name a bucket in {region}",
        )
    for rule in lifecycle_rules(topology):
        prefix, needed = rule["Filter"]["Prefix"], rule["Expiration"]["Days"]
        yield from _expiry(prefix, needed, _days(prefix, found.rules))
    if found.versioned and not any("NoncurrentVersionExpiration" in rule for rule in found.rules):
        yield Difference(
            what="it keeps versions, and no rule ends them",
            why="What expires or is erased stays in the bucket as an earlier version",
            instead="Give it a rule with NoncurrentVersionExpiration, or suspend its versioning",
            severity="warning",
        )
    if topology.existing.bucket is not None:
        yield from _key(topology.existing.bucket_key, found.own_key, "bucket_key")


def of_role(trust: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield what keeps tasks from assuming a role, by its trust policy."""
    if any(_admits_tasks(statement) for statement in _listed(trust.get("Statement"))):
        return
    yield Difference(
        what=f"its trust policy doesn't let {TASKS} assume it",
        why="No task starts",
        instead=f"Allow sts:AssumeRole to the service {TASKS} in its trust policy",
    )


def of_cluster(found: ClusterFound, *, spot: bool) -> Iterator[Difference]:
    """Yield what a cluster lacks for services on Fargate, and on Fargate Spot."""
    if not found.active:
        yield Difference(
            what="it is not active",
            why="No task starts",
            instead="Name a cluster that is, or create it again",
        )
    needed = {"FARGATE", "FARGATE_SPOT"} if spot else {"FARGATE"}
    if missing := sorted(needed - found.providers):
        yield Difference(
            what=f"it has no capacity provider {' and '.join(missing)}",
            why="ECS refuses the workers' services",
            instead="Add it: aws ecs put-cluster-capacity-providers, with those that it has",
        )


def _index(needed: Mapping[str, Any], table: Mapping[str, Any]) -> Iterator[Difference]:
    [wanted] = needed["GlobalSecondaryIndexes"]
    projected = set(wanted["Projection"]["NonKeyAttributes"])
    for index in table.get("GlobalSecondaryIndexes", ()):
        projection = index["Projection"]
        has = set(projection.get("NonKeyAttributes", ()))
        if index["IndexName"] != LINES or not _keyed_alike(wanted, needed, index, table):
            continue
        if projection["ProjectionType"] == "ALL" or projected <= has:
            return
    yield Difference(
        what=f"it has no index {LINES!r} by {_keys(wanted, needed)} that projects "
        f"{' and '.join(sorted(projected))}",
        why="Jobs can't be listed",
        instead="Add it: aws dynamodb update-table --global-secondary-index-updates",
    )


def _keyed_alike(
    one: Mapping[str, Any], of_one: Mapping[str, Any], other: Mapping[str, Any], of_other: Any
) -> bool:
    return _keys(one, of_one) == _keys(other, of_other)


def _keys(keyed: Mapping[str, Any], table: Mapping[str, Any]) -> str:
    """Return the keys of a table, or of its index, with the kinds that the table gives them."""
    kinds = {each["AttributeName"]: each["AttributeType"] for each in table["AttributeDefinitions"]}
    names = {each["KeyType"]: each["AttributeName"] for each in keyed["KeySchema"]}
    found = [names[kind] for kind in ("HASH", "RANGE") if kind in names]
    return " and ".join(f"{name} ({kinds[name]})" for name in found)


def _expiry(prefix: str, needed: int, days: int | None) -> Iterator[Difference]:
    instead = f"Give it a lifecycle rule that expires {prefix} after {needed} days"
    if days is None:
        yield Difference(
            what=f"no lifecycle rule expires what is in {prefix}",
            why="It stays, and is paid for",
            instead=instead,
            severity="warning",
        )
    elif days < needed:
        yield Difference(
            what=f"what is in {prefix} expires after {days} days, and may be needed for {needed}",
            why="Jobs, dead letters or results lose it",
            instead=instead,
        )


def _days(prefix: str, rules: Sequence[Mapping[str, Any]]) -> int | None:
    """Return after how many days objects of a prefix expire; None: no rule for all of them says."""
    found = [
        rule["Expiration"]["Days"]
        for rule in rules
        if "Days" in rule.get("Expiration", {}) and _covers(rule, prefix)
    ]
    return min(found, default=None)


def _covers(rule: Mapping[str, Any], prefix: str) -> bool:
    """Return True if a rule is for all objects of a prefix; one by tag or size is for some."""
    given = rule.get("Filter", {"Prefix": rule.get("Prefix", "")})
    return not given.keys() - {"Prefix"} and prefix.startswith(given.get("Prefix", ""))


def _key(named: str | None, found: str | None, field: str) -> Iterator[Difference]:
    if named != found:
        yield Difference(
            what=f"it is encrypted with {found or 'a key of AWS'}, and existing= names "
            f"{named or 'none'}",
            why="No role is permitted to use the key"
            if found
            else "Roles are given a key too many",
            instead=f"Name it as {field}=" if found else f"Leave {field}= out",
            severity="error" if found else "warning",
        )


def _admits_tasks(statement: Mapping[str, Any]) -> bool:
    principal = statement.get("Principal", {})
    services = _listed(principal.get("Service")) if isinstance(principal, Mapping) else []
    actions = _listed(statement.get("Action"))
    allowed = statement.get("Effect") == "Allow" and TASKS in services
    return allowed and any(each in ("sts:AssumeRole", "sts:*", "*") for each in actions)


def _listed(value: Any) -> Sequence[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]
