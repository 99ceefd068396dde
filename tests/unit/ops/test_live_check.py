"""``headgate check --live``: an app's queues on AWS, compared with what it needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from headgate import App, Existing, ExistingQueue
from headgate.jobs.aws.descriptions import EXPIRY, lifecycle_rules, table_properties
from headgate.jobs.aws.queue_descriptions import create_attributes, pairs, quarantine
from headgate.jobs.aws.stages.lookup import BucketFound, ClusterFound, TableFound
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.groups.consumer_group import ConsumerGroup
from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from headgate.jobs.errors import BucketMissing, Fault, QueueMissing, TableMissing
from headgate.ops.live_check import live_faults

ACCOUNT, REGION = "111122223333", "eu-central-1"
KEY = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/1"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/teams/tasks"
TRUSTED = {
    "Effect": "Allow",
    "Principal": {"Service": ["ec2.amazonaws.com", "ecs-tasks.amazonaws.com"]},
    "Action": "sts:AssumeRole",
}

CONSUMED = Deployment(consumers=(ConsumerGroup(name="orders", handler="shop.handler"),))


def shop(existing: Existing | None = None) -> App:
    app = App("shop", existing=existing)
    app.queue("orders", priorities=["normal"]).define("place-order", dict)
    return app


@dataclass
class Aws:
    """AWS with an app's resources as they should be, but for some."""

    app: App
    changed: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Attributes of queues that differ; empty ones are of a queue that doesn't exist."""
    trust: Mapping[str, Any] | None = None
    cluster_found: ClusterFound | None = None
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        topology = self.app.topology
        described = [each for pair in pairs(topology) for each in pair] + [quarantine(topology)]
        self.queues = {
            each.name: create_attributes(each, f"arn:aws:sqs:r:a:{each.redrive.to}")
            if each.redrive
            else create_attributes(each)
            for each in described
        }
        described_table = {**table_properties(topology.table_name), "TableStatus": "ACTIVE"}
        self.table_found: TableFound | None = TableFound(
            described=described_table, expiry=EXPIRY, own_key=None
        )
        self.bucket_found: BucketFound | None = BucketFound(
            region=REGION, versioned=False, rules=lifecycle_rules(topology), own_key=None
        )

    def account(self) -> str:
        return ACCOUNT

    def queue(self, queue: str) -> Mapping[str, str]:
        if queue not in self.queues or self.changed.get(queue) == {}:
            raise QueueMissing(queue)
        return self.queues[queue] | dict(self.changed.get(queue, {}))

    def table(self, table: str) -> TableFound:
        self.asked.append(table)
        if self.table_found is None:
            raise TableMissing(table)
        return self.table_found

    def bucket(self, bucket: str) -> BucketFound:
        self.asked.append(bucket)
        if self.bucket_found is None:
            raise BucketMissing(bucket)
        return self.bucket_found

    def role(self, role: str) -> Mapping[str, Any] | None:
        self.asked.append(role)
        return self.trust

    def cluster(self, cluster: str) -> ClusterFound | None:
        self.asked.append(cluster)
        return self.cluster_found


def aws(app: App, **changed: Mapping[str, str]) -> Aws:
    return Aws(app, changed)


def faults(app: App, deployment: Deployment, found: Aws) -> list[Fault]:
    return live_faults(app, deployment, found, REGION)


THEIRS = shop(Existing(queues={"orders": {"normal": ExistingQueue(queue="orders")}}))


def test_queues_as_they_are_deployed_have_no_fault() -> None:
    for app in (shop(), THEIRS):
        assert faults(app, CONSUMED, aws(app)) == []


def test_what_was_changed_by_hand_is_a_warning_and_what_existed_before_an_error() -> None:
    short = {"MessageRetentionPeriod": "60"}
    for app, severity in ((shop(), "warning"), (THEIRS, "error")):
        name = app.topology.queues[0].name
        [fault] = faults(app, Deployment(), aws(app, **{name: short}))
        assert (fault.rule, fault.where) == ("queue-differs", f"queue {name}")
        assert fault.severity == severity


def test_a_queue_that_is_not_there_yet_is_a_warning_unless_it_should_be() -> None:
    for app, severity in ((shop(), "warning"), (THEIRS, "error")):
        name = app.topology.queues[0].name
        [fault] = faults(app, Deployment(), aws(app, **{name: {}}))
        assert (fault.rule, fault.severity) == ("queue-missing", severity)


def test_an_existing_queue_s_visibility_matters_to_functions_alone() -> None:
    read = aws(THEIRS, orders={"VisibilityTimeout": "30"})
    assert faults(THEIRS, Deployment(), read) == []
    [fault] = faults(THEIRS, CONSUMED, read)
    assert "hides a received message for 30 s" in fault.what


MOVED_IN = shop(Existing(table="jobs", table_key=KEY, bucket="shared"))


def table(**changes: Any) -> TableFound:
    made = {**table_properties("jobs"), "TableStatus": "ACTIVE", **changes}
    return TableFound(described=made, expiry=EXPIRY, own_key=KEY)


def bucket(**changes: Any) -> BucketFound:
    rules = lifecycle_rules(MOVED_IN.topology)
    as_needed = BucketFound(region=REGION, versioned=False, rules=rules, own_key=None)
    return replace(as_needed, **changes)


def moved_in(
    in_table: TableFound | None = None, in_bucket: BucketFound | None = None
) -> list[Fault]:
    """Return the faults of an app in another's table and bucket."""
    found = Aws(MOVED_IN)
    found.table_found, found.bucket_found = in_table or table(), in_bucket or bucket()
    return faults(MOVED_IN, Deployment(), found)


def test_another_s_table_and_bucket_that_are_as_needed_have_no_fault() -> None:
    assert moved_in() == []
    [index] = table_properties("jobs")["GlobalSecondaryIndexes"]
    broad_index = {**index, "Projection": {"ProjectionType": "ALL"}}
    other = table(GlobalSecondaryIndexes=[broad_index], StreamEnabled=True)
    broad_rule = {"Status": "Enabled", "Prefix": "", "Expiration": {"Days": 400}}
    assert moved_in(other, bucket(rules=[broad_rule])) == []


def kinds(**changed: str) -> list[dict[str, str]]:
    every = {"pk": "S", "sk": "S", "list": "S", "place": "S", **changed}
    return [{"AttributeName": name, "AttributeType": kind} for name, kind in every.items()]


@pytest.mark.parametrize(
    ("found", "said", "instead"),
    [
        (table(TableStatus="DELETING"), "it is DELETING", "restore it"),
        (table(AttributeDefinitions=kinds(sk="N")), "its keys are pk (S) and sk (N)", "another"),
        (table(GlobalSecondaryIndexes=[]), "no index 'lines' by list (S) and place (S)", "Add it"),
        (
            replace(table(), expiry=None),
            "by no attribute, and not by expires_at",
            "table-name jobs",
        ),
        (replace(table(), expiry="ttl"), "by ttl, and not by expires_at", "=expires_at"),
        (replace(table(), own_key=None), "a key of AWS, and existing= names", "Leave table_key="),
    ],
)
def test_each_thing_that_a_table_lacks_is_told_with_what_to_do(
    found: TableFound, said: str, instead: str
) -> None:
    [fault] = moved_in(found)
    assert (fault.rule, fault.where) == ("table-differs", "table jobs")
    assert said in fault.what
    assert instead in fault.instead


@pytest.mark.parametrize(
    ("found", "said", "severity"),
    [
        (bucket(region="us-east-1"), "it is in us-east-1, and the app runs in", "error"),
        (bucket(versioned=True), "it keeps versions", "warning"),
        (bucket(own_key=KEY), f"encrypted with {KEY}, and existing= names none", "error"),
        (bucket(rules=bucket().rules[1:]), "no lifecycle rule expires what is in", "warning"),
        (
            bucket(rules=[*bucket().rules, {"Prefix": "results/", "Expiration": {"Days": 1}}]),
            "what is in results/ expires after 1 days",
            "error",
        ),
    ],
)
def test_each_thing_that_a_bucket_has_otherwise_is_told(
    found: BucketFound, said: str, severity: str
) -> None:
    [fault] = moved_in(in_bucket=found)
    assert (fault.rule, fault.where) == ("bucket-differs", "bucket shared")
    assert fault.severity == severity
    assert said in fault.what


@pytest.mark.parametrize(
    "limit", [{"Tag": {"Key": "a", "Value": "b"}}, {"ObjectSizeGreaterThan": 1}]
)
def test_a_rule_for_some_objects_expires_no_prefix(limit: dict[str, Any]) -> None:
    some = [{**rule, "Filter": {**rule["Filter"], **limit}} for rule in bucket().rules]
    assert len(moved_in(in_bucket=bucket(rules=some))) == len(some)


def test_a_table_or_bucket_that_is_missing_is_an_error_where_it_should_exist() -> None:
    for app, severity in ((shop(), "warning"), (MOVED_IN, "error")):
        found = Aws(app)
        found.table_found = found.bucket_found = None
        told = faults(app, Deployment(), found)
        assert [each.rule for each in told] == ["table-missing", "bucket-missing"]
        assert {each.severity for each in told} == {severity}


def test_the_app_s_own_table_and_bucket_are_mended_by_a_deployment() -> None:
    found = Aws(shop())
    found.table_found = replace(table(), expiry=None)
    found.bucket_found = bucket(versioned=True, own_key=KEY)
    told = faults(shop(), Deployment(), found)
    assert [each.rule for each in told] == ["table-differs", "bucket-differs"]
    assert {each.severity for each in told} == {"warning"}
    assert all(each.instead.startswith("Deploy the stack again") for each in told)
    assert found.asked == ["shop-records", f"shop-payloads-{ACCOUNT}-{REGION}"]


SHARING = Deployment(
    workers=(WorkerGroup(task_role=ROLE), WorkerGroup(name="rest", task_role=ROLE, spot=True)),
    cluster="shared",
)


def test_a_role_and_a_cluster_that_workers_can_use_have_no_fault() -> None:
    cluster = ClusterFound(active=True, providers=frozenset({"FARGATE", "FARGATE_SPOT", "ours"}))
    found = Aws(shop(), trust={"Statement": [TRUSTED]}, cluster_found=cluster)
    assert faults(shop(), SHARING, found) == []
    assert found.asked[-2:] == ["tasks", "shared"], "each is asked for once, by its name"


def test_a_role_and_a_cluster_that_are_not_there_are_errors() -> None:
    told = faults(shop(), SHARING, Aws(shop()))
    assert [(each.rule, each.severity) for each in told] == [
        ("role-missing", "error"),
        ("cluster-missing", "error"),
    ]


def test_what_keeps_tasks_from_starting_is_told_of_role_and_cluster() -> None:
    foreign = {"Statement": {**TRUSTED, "Principal": {"AWS": "*"}}}
    gone = ClusterFound(active=False, providers=frozenset({"FARGATE"}))
    told = faults(shop(), SHARING, Aws(shop(), trust=foreign, cluster_found=gone))
    assert [each.what for each in told] == [
        "its trust policy doesn't let ecs-tasks.amazonaws.com assume it",
        "it is not active",
        "it has no capacity provider FARGATE_SPOT",
    ]
