"""Roles' permissions, checked by IAM's rules over the synthesized template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms

from headgate import App
from headgate.infra.job_system import JobSystem
from headgate.jobs.core.naming import DEAD_LETTERS, PAYLOADS, RESULTS
from headgate.jobs.definitions.event_rules.event_rule import rule_name
from tests.infra.conftest import ELSEWHERE, NO_BUNDLING
from tests.infra.everything import ON_AWS, everything
from tests.infra.templates import listed, template_of
from tests.support.cloudformation import ACCOUNT, REGION, Resolved, arn_of, resolve
from tests.support.iam import Decision, Policies, Request

QUEUE, TABLE, BUCKET = "AWS::SQS::Queue", "AWS::DynamoDB::GlobalTable", "AWS::S3::Bucket"
ROLE = "AWS::IAM::Role"
GRANTED = ("Submitter", "Unique", "Follower", "Worker", "Scheduling", "Viewer", "Operator")

TAKES_NO_RESOURCE = {
    # https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazoneventbridgescheduler.html
    "scheduler:ListSchedules",
    # https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonelasticcontainerregistry.html
    "ecr:GetAuthorizationToken",
    # https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazoncloudwatch.html
    "cloudwatch:PutMetricData",
    "cloudwatch:GetMetricData",
    # https://docs.aws.amazon.com/service-authorization/latest/reference/list_awsx-ray.html
    "xray:PutTraceSegments",
    "xray:PutTelemetryRecords",
}
"""Actions that can't be allowed for a named resource."""

FOR_NOBODY = (
    "sqs:CreateQueue",
    "sqs:DeleteQueue",
    "sqs:ListQueues",
    "sqs:PurgeQueue",
    "sqs:SetQueueAttributes",
    "sqs:StartMessageMoveTask",
    "dynamodb:CreateTable",
    "dynamodb:DeleteTable",
    "dynamodb:Scan",
    "dynamodb:UpdateTable",
    "s3:DeleteBucket",
    "s3:DeleteObject",
    "s3:ListAllMyBuckets",
    "s3:PutBucketPolicy",
    "iam:CreateRole",
    "iam:PutRolePolicy",
)


def synthesized(*, encrypted: bool) -> Resolved:
    """Return the full template, with a role per grant; ``encrypted`` adds the user's own key."""
    stack = cdk.Stack(cdk.App(context=NO_BUNDLING), "Own")
    key = kms.Key(stack, "Key") if encrypted else None
    system = JobSystem(stack, "Jobs", app=everything(), **ON_AWS, encryption_key=key)
    tasks = iam.ServicePrincipal("ecs-tasks.amazonaws.com")
    made = {name: iam.Role(stack, name, assumed_by=tasks, role_name=name) for name in GRANTED}
    system.grant_submit(made["Submitter"])
    system.grant_submit(made["Unique"], unique=True)
    system.grant_follow(made["Follower"])
    system.grant_work(made["Worker"])
    system.grant_manage_schedules(made["Scheduling"])
    system.grant_view(made["Viewer"])
    system.grant_operate(made["Operator"])
    return resolve(template_of(stack))


@pytest.fixture(scope="module")
def app() -> App:
    return everything()


@pytest.fixture(scope="module")
def template() -> Resolved:
    return synthesized(encrypted=False)


@pytest.fixture(scope="module")
def policies(template: Resolved) -> Policies:
    return Policies.of(template)


@pytest.fixture(scope="module")
def encrypted() -> Resolved:
    return synthesized(encrypted=True)


def own_key(template: Resolved) -> str:
    """Return the user's own key, as opposed to that of the alerts."""
    [found] = (each for each in template.of_type("AWS::KMS::Key") if not each.startswith("Jobs"))
    return arn_of("AWS::KMS::Key", found)


def role(name: str) -> str:
    return arn_of(ROLE, name)


def own_queues(app: App) -> list[str]:
    topology = app.topology
    return [
        *(name for spec in topology.queues for name in (spec.name, spec.dlq_name)),
        topology.quarantine_name,
        topology.failed_firings_name,
        topology.failed_sweeps_name,
    ]


def resources_of(app: App) -> list[str]:
    """Return all resources that hold jobs or records."""
    bucket = app.topology.bucket.name_in(ACCOUNT, REGION)
    return [
        *(arn_of(QUEUE, name) for name in own_queues(app)),
        arn_of(TABLE, app.topology.table_name),
        f"{arn_of(TABLE, app.topology.table_name)}/index/lines",
        arn_of(BUCKET, bucket),
        f"{arn_of(BUCKET, bucket)}/payloads/1",
        f"{arn_of(BUCKET, bucket)}/{RESULTS}1",
        "*",
    ]


# --- forbidden to everyone -----------------------------------------------------------------------


@pytest.mark.parametrize("action", FOR_NOBODY)
def test_no_role_of_the_stack_may_perform_the_action(
    action: str, app: App, policies: Policies
) -> None:
    allowed = {
        (principal, resource)
        for principal in policies.identity
        for resource in resources_of(app)
        if policies.allows(principal, action, resource)
    }
    assert allowed == set()


def test_no_role_reaches_another_app_s_queues_table_bucket_or_schedules(
    policies: Policies,
) -> None:
    other = App("shop", stage="test").topology  # of the same app, in another stage
    elsewhere = {
        "sqs:SendMessage": arn_of(QUEUE, "shop-test-jobs-high"),
        "sqs:ReceiveMessage": arn_of(QUEUE, "shop-test-jobs-high-dlq"),
        "dynamodb:Query": arn_of(TABLE, other.table_name),
        "dynamodb:PutItem": arn_of(TABLE, f"{everything().topology.table_name}-old"),
        "s3:GetObject": f"{arn_of(BUCKET, other.bucket.name_in(ACCOUNT, REGION))}/payloads/1",
        "scheduler:CreateSchedule": (
            f"arn:aws:scheduler:{REGION}:{ACCOUNT}:schedule/{other.schedule_group}/delay.1"
        ),
        "lambda:InvokeFunction": arn_of("AWS::Lambda::Function", other.bridge_name),
    }
    allowed = {
        (principal, action)
        for principal in policies.identity
        for action, resource in elsewhere.items()
        if policies.allows(principal, action, resource)
    }
    assert allowed == set()


def all_statements(template: Resolved) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield every statement of an identity's policy, with its identity."""
    for principal, statements in Policies.of(template).identity.items():
        for statement in statements:
            yield principal, statement


@pytest.mark.parametrize("which", ["template", "encrypted"])
def test_all_resources_are_allowed_only_for_what_takes_no_name(
    which: str, request: pytest.FixtureRequest
) -> None:
    unnamed = {
        (principal, action)
        for principal, statement in all_statements(request.getfixturevalue(which))
        if "*" in listed(statement["Resource"])
        for action in listed(statement["Action"])
    }
    assert {action for _, action in unnamed} <= TAKES_NO_RESOURCE
    for action in ("scheduler:ListSchedules", "cloudwatch:GetMetricData"):
        assert (role("Operator"), action) in unnamed


def test_no_statement_allows_actions_by_a_pattern_or_all_but_some(template: Resolved) -> None:
    for principal, statement in all_statements(template):
        assert not any("*" in action for action in listed(statement["Action"])), principal
        assert "NotAction" not in statement
        assert "NotResource" not in statement


def test_a_pattern_of_resources_ends_within_this_app_s_own(app: App, template: Resolved) -> None:
    topology = app.topology
    bucket = topology.bucket.name_in(ACCOUNT, REGION)
    patterns = {
        resource
        for _, statement in all_statements(template)
        for resource in listed(statement["Resource"])
        if "*" in resource.removesuffix(":*") and resource != "*"
    }
    [cluster] = template.of_type("AWS::ECS::Cluster")
    own = (
        f"{arn_of(BUCKET, bucket)}/{PAYLOADS}",
        f"{arn_of(BUCKET, bucket)}/{DEAD_LETTERS}",
        f"{arn_of(BUCKET, bucket)}/{RESULTS}",
        f"arn:aws:scheduler:{REGION}:{ACCOUNT}:schedule/{topology.schedule_group}/",
        f"arn:aws:ecs:{REGION}:{ACCOUNT}:task/{cluster}/",
    )
    assert patterns
    assert [each for each in patterns if not each.startswith(own)] == []


# --- each role's permissions and prohibitions ----------------------------------------------------


def test_a_submitter_sends_and_never_receives(app: App, policies: Policies) -> None:
    for spec in app.topology.queues:
        queue, dead = arn_of(QUEUE, spec.name), arn_of(QUEUE, spec.dlq_name)
        assert policies.allows(role("Submitter"), "sqs:SendMessage", queue)
        assert not policies.allows(role("Submitter"), "sqs:ReceiveMessage", queue)
        assert not policies.allows(role("Submitter"), "sqs:SendMessage", dead)
    table = arn_of(TABLE, app.topology.table_name)
    assert not policies.allows(role("Submitter"), "dynamodb:Query", table)


def test_a_worker_parks_dead_letters_and_never_takes_them_out(app: App, policies: Policies) -> None:
    for spec in app.topology.queues:
        queue, dead = arn_of(QUEUE, spec.name), arn_of(QUEUE, spec.dlq_name)
        assert policies.allows(role("Worker"), "sqs:ReceiveMessage", queue)
        assert policies.allows(role("Worker"), "sqs:SendMessage", dead)
        assert not policies.allows(role("Worker"), "sqs:DeleteMessage", dead)
        assert policies.allows(role("Worker"), "sqs:SendMessage", queue), "to send jobs anew"


def test_an_operator_takes_from_what_is_parked_alone(app: App, policies: Policies) -> None:
    feeds = {spec.name for spec in app.topology.queues}
    for name in own_queues(app):
        queue = arn_of(QUEUE, name)
        assert policies.allows(role("Operator"), "sqs:GetQueueAttributes", queue)
        for action in ("ReceiveMessage", "DeleteMessage", "ChangeMessageVisibility"):
            assert policies.allows(role("Operator"), f"sqs:{action}", queue) is (name not in feeds)
        assert policies.allows(role("Operator"), "sqs:SendMessage", queue)
    bucket = arn_of(BUCKET, app.topology.bucket.name_in(ACCOUNT, REGION))
    for prefix in (DEAD_LETTERS, PAYLOADS):
        copied = policies.allows(role("Operator"), "s3:PutObject", f"{bucket}/{prefix}1")
        assert copied is (prefix == DEAD_LETTERS)


def test_an_operator_reads_records_and_lists(app: App, policies: Policies) -> None:
    table = arn_of(TABLE, app.topology.table_name)
    for action in ("Query", "GetItem"):
        assert policies.allows(role("Operator"), f"dynamodb:{action}", table)
    assert policies.allows(role("Operator"), "dynamodb:Query", f"{table}/index/lines")
    assert not policies.allows(role("Operator"), "dynamodb:UpdateItem", table)


ROWS = {
    "job#1": {"worker"},
    "asked#1": {"follower", "worker", "operator"},
    "children#1": {"worker", "operator"},
    "cancellations": {"follower", "operator"},
    "unique#1": {"submitter", "worker"},
    "limit#1": {"worker"},
    "workers": {"worker"},
    "worker-status": {"worker"},
    "sent#1": {"bridge"},
    "dead-letters#1": {"sweep"},
    "sweep": {"sweep"},
    "replays": {"operator"},
    "replay#1": {"operator"},
    "jobs": set(),
    "": set(),
}
"""By partition, who may write items there."""


@pytest.mark.parametrize("row", ROWS)
def test_a_row_is_written_by_those_whose_it_is_and_by_nobody_else(
    row: str, app: App, template: Resolved, policies: Policies
) -> None:
    table = arn_of(TABLE, app.topology.table_name)
    names = {
        "submitter": role("Unique"),
        "follower": role("Follower"),
        "worker": role("Worker"),
        "operator": role("Operator"),
        **{
            part.lower(): role(logical_id)
            for part in ("Bridge", "Sweep")
            for logical_id in template.of_type(ROLE)
            if logical_id.startswith(f"Jobs{part}Role")
        },
    }
    writers = {
        name
        for name, principal in names.items()
        for action in ("PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem")
        if policies.allows(principal, f"dynamodb:{action}", table, dynamodb__LeadingKeys=[row])
    }
    assert writers == ROWS[row]


def test_a_batch_with_one_row_of_others_is_refused_as_a_whole(app: App, policies: Policies) -> None:
    table = arn_of(TABLE, app.topology.table_name)
    for rows, expected in ((["job#1", "job#2"], True), (["job#1", "unique#1"], False)):
        assert expected is policies.allows(
            role("Worker"), "dynamodb:BatchWriteItem", table, dynamodb__LeadingKeys=rows
        )


def test_who_only_follows_jobs_deletes_nothing(app: App, policies: Policies) -> None:
    table = arn_of(TABLE, app.topology.table_name)
    for action in ("BatchWriteItem", "DeleteItem", "UpdateItem"):
        for row in ROWS:
            assert not policies.allows(
                role("Follower"), f"dynamodb:{action}", table, dynamodb__LeadingKeys=[row]
            )


def test_a_submission_is_recorded_by_who_submits_where_an_app_records_submissions() -> None:
    app = App("shop")
    app.define("charge", dict[str, str], records="full")
    stack = cdk.Stack(cdk.App(), "Web")
    web = iam.Role(
        stack, "Web", assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"), role_name="Web"
    )
    JobSystem.from_app(stack, "Jobs", app=app).grant_submit(web)
    found = Policies.of(resolve(template_of(stack)))
    table = arn_of(TABLE, app.topology.table_name)
    for row, expected in (("asked#1", True), ("job#1", False), ("cancellations", False)):
        for action in ("dynamodb:PutItem", "dynamodb:BatchWriteItem"):
            assert expected is found.allows(role("Web"), action, table, dynamodb__LeadingKeys=[row])


@pytest.mark.parametrize("who", ["Scheduling", "Operator"])
def test_declared_schedules_may_be_paused_and_only_own_ones_made_and_removed(
    who: str, app: App, policies: Policies
) -> None:
    schedules = f"arn:aws:scheduler:{REGION}:{ACCOUNT}:schedule/{app.topology.schedule_group}"
    assert policies.allows(role(who), "scheduler:UpdateSchedule", f"{schedules}/report")
    assert policies.allows(role(who), "scheduler:CreateSchedule", f"{schedules}/dynamic.own")
    assert not policies.allows(role(who), "scheduler:CreateSchedule", f"{schedules}/report")
    assert not policies.allows(role(who), "scheduler:DeleteSchedule", f"{schedules}/report")


@pytest.mark.parametrize("who", ["Submitter", "Worker", "Scheduling", "Operator"])
def test_the_schedules_role_is_passed_only_to_eventbridge_scheduler(
    who: str, app: App, policies: Policies
) -> None:
    passed = role(f"{app.topology.scheduler_role}-{REGION}")
    to_scheduler = {"iam__PassedToService": "scheduler.amazonaws.com"}
    assert policies.allows(role(who), "iam:PassRole", passed, **to_scheduler)
    assert not policies.allows(
        role(who), "iam:PassRole", passed, iam__PassedToService="ec2.amazonaws.com"
    )
    assert not policies.allows(role(who), "iam:PassRole", role("Admin"), **to_scheduler)


# --- services ------------------------------------------------------------------------------------


def test_only_the_apps_schedules_assume_the_role_to_invoke_the_bridge(
    app: App, policies: Policies
) -> None:
    scheduler = role(f"{app.topology.scheduler_role}-{REGION}")
    group = arn_of("AWS::Scheduler::ScheduleGroup", app.topology.schedule_group)

    def assumed(source: str, account: str = ACCOUNT) -> bool:
        return policies.may_assume(
            "scheduler.amazonaws.com",
            scheduler,
            aws__SourceArn=source,
            aws__SourceAccount=account,
        )

    assert assumed(group)
    assert not assumed(f"{group}-other")
    assert not assumed(group, "999999999999")
    bridge = arn_of("AWS::Lambda::Function", app.topology.bridge_name)
    failed = arn_of(QUEUE, app.topology.failed_firings_name)
    assert policies.allows(scheduler, "lambda:InvokeFunction", bridge)
    assert policies.allows(scheduler, "sqs:SendMessage", failed)


def test_only_rules_of_the_apps_stage_invoke_the_bridge_and_keep_what_fails(
    app: App, policies: Policies
) -> None:
    [rule] = app.event_rules.values()
    name = rule_name(app.topology, rule)
    assert name == "shop-prod-order-placed"
    own = arn_of("AWS::Events::Rule", name)
    bridge = arn_of("AWS::Lambda::Function", app.topology.bridge_name)
    failed = arn_of(QUEUE, app.topology.failed_firings_name)
    for source, allowed in (
        (own, True),
        (own.replace("shop-prod-", "shop-dev-"), False),
        (own.replace("shop-prod-", "store-prod-"), False),
        (own.replace("shop-prod-", ""), False),
        (own.replace(name, f"orders/{name}"), False),
        (own.replace(ACCOUNT, "999999999999"), False),
        (own.replace(REGION, "eu-west-1"), False),
    ):
        events, context = "events.amazonaws.com", {"aws__SourceArn": source}
        assert policies.allows(events, "lambda:InvokeFunction", bridge, **context) is allowed
        assert policies.allows(events, "sqs:SendMessage", failed, **context) is allowed


def test_without_tls_nobody_reaches_a_queue_the_bucket_or_a_topic(
    app: App, template: Resolved, policies: Policies
) -> None:
    bucket = arn_of(BUCKET, app.topology.bucket.name_in(ACCOUNT, REGION))
    topics = [
        arn_of("AWS::SNS::Topic", each.get("TopicName", logical_id))
        for logical_id, each in template.of_type("AWS::SNS::Topic").items()
    ]
    everywhere = [
        *((arn_of(QUEUE, name), "sqs:SendMessage") for name in own_queues(app)),
        (bucket, "s3:ListBucket"),
        (f"{bucket}/payloads/1", "s3:GetObject"),
        *((topic, "sns:Publish") for topic in topics),
    ]
    plain = {"aws:SecureTransport": "false"}
    for principal in (*policies.identity, role("Admin"), "events.amazonaws.com"):
        for resource, action in everywhere:
            asked = Request(principal=principal, action=action, resource=resource, context=plain)
            assert policies.decide(asked) is Decision.DENIED
    assert policies.allows(role("Worker"), "s3:GetObject", f"{bucket}/payloads/1")


# --- the user's own key --------------------------------------------------------------------------


def test_what_holds_jobs_is_encrypted_with_the_key_and_without_one_by_aws(
    template: Resolved, encrypted: Resolved
) -> None:
    key = own_key(encrypted)
    for queue in encrypted.of_type(QUEUE).values():
        assert queue["KmsMasterKeyId"] == key
    for queue in template.of_type(QUEUE).values():
        assert queue["SqsManagedSseEnabled"] is True
    [table] = encrypted.of_type(TABLE).values()
    assert table["SSESpecification"] == {"SSEEnabled": True, "SSEType": "KMS"}
    assert table["Replicas"][0]["SSESpecification"] == {"KMSMasterKeyId": key}
    [bucket] = encrypted.of_type(BUCKET).values()
    [rule] = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert rule["ServerSideEncryptionByDefault"]["KMSMasterKeyID"] == key
    assert rule["BucketKeyEnabled"] is True


@pytest.mark.parametrize(
    ("who", "services"),
    [
        ("Submitter", {"sqs", "s3"}),
        ("Unique", {"sqs", "s3", "dynamodb"}),
        ("Follower", {"dynamodb", "s3"}),
        ("Worker", {"sqs", "dynamodb", "s3"}),
        ("Viewer", {"dynamodb"}),  # counting messages takes no key
        ("Operator", {"sqs", "dynamodb", "s3"}),
        ("Scheduling", {"dynamodb"}),  # for the audit
    ],
)
def test_a_role_uses_the_key_through_the_services_that_it_uses_alone(
    who: str, services: set[str], encrypted: Resolved
) -> None:
    policies = Policies.of(encrypted)
    key = own_key(encrypted)
    for action in ("kms:Decrypt", "kms:GenerateDataKey"):
        through = {
            service
            for service in ("sqs", "dynamodb", "s3", "secretsmanager")
            if policies.allows(
                role(who), action, key, kms__ViaService=f"{service}.{REGION}.amazonaws.com"
            )
        }
        assert through == services
        assert not policies.allows(role(who), action, key)


def test_whatever_may_send_to_an_encrypted_queue_may_use_its_key(
    app: App, encrypted: Resolved
) -> None:
    policies = Policies.of(encrypted)
    key = own_key(encrypted)
    through = {"kms__ViaService": f"sqs.{REGION}.amazonaws.com"}
    senders = {
        principal
        for principal in policies.identity
        for name in own_queues(app)
        if policies.allows(principal, "sqs:SendMessage", arn_of(QUEUE, name))
    }
    assert len(senders) >= len({"Submitter", "Worker", "Operator", "bridge", "scheduler"})
    for principal in senders:
        for action in ("kms:Decrypt", "kms:GenerateDataKey"):
            assert policies.allows(principal, action, key, **through), principal


def test_eventbridge_may_keep_events_in_an_encrypted_queue_for_this_account(
    encrypted: Resolved,
) -> None:
    policies = Policies.of(encrypted)
    key = own_key(encrypted)
    for account, allowed in ((ACCOUNT, True), ("999999999999", False)):
        for action in ("kms:Decrypt", "kms:GenerateDataKey"):
            assert allowed is policies.allows(
                "events.amazonaws.com", action, key, aws__SourceAccount=account
            )


def test_an_imported_keys_missing_permissions_are_a_warning() -> None:
    stack = cdk.Stack(cdk.App(context=NO_BUNDLING), "Own")
    key = kms.Key.from_key_arn(stack, "Key", arn_of("AWS::KMS::Key", "1"))
    for_trial = replace(ELSEWHERE, keep_data=False)
    JobSystem(stack, "Jobs", app=everything(), deployment=for_trial, encryption_key=key)
    [warned] = (
        str(entry.data)
        for each in stack.node.find_all()
        for entry in each.node.metadata
        if entry.type == "aws:cdk:warning" and "headgate:" in str(entry.data)
    )
    assert "kms:Decrypt and kms:GenerateDataKey to events.amazonaws.com" in warned
