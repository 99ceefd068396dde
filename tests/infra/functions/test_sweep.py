"""The sweep reads every queue that messages end in, may delete nothing, and is not a job."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from headgate import App, Priority, Replay, Signing
from headgate.infra.data.table_rows import RESENDING, SWEEPING
from headgate.infra.functions.sweep import PEEK, REMEMBER
from headgate.jobs.core.naming import DEAD_LETTERS, PAYLOADS
from headgate.jobs.core.topology import QUARANTINE_RETENTION
from headgate.jobs.deployment.resource_names import function_name
from headgate.jobs.deployment.sweep_plan import EVERY, TIMEOUT, read_plan, sweep_plan
from headgate.jobs.records.cancellation import CANCELLATIONS
from headgate.lambdas.sweep import handler as function_module
from tests.infra.conftest import Params
from tests.infra.templates import (
    Properties,
    listed,
    name_of,
    queues,
    resources,
    statements,
    synthesized,
)

SWEEP = "JobsSweep"


@pytest.fixture(scope="module")
def function(template: Mapping[str, Any]) -> Properties:
    [found] = resources(template, "AWS::Lambda::Function", SWEEP).values()
    return found


@pytest.fixture(scope="module")
def schedule(template: Mapping[str, Any]) -> Properties:
    [found] = resources(template, "AWS::Scheduler::Schedule", SWEEP).values()
    return found


def test_the_schedule_hands_over_the_apps_plan(app: App, schedule: Properties) -> None:
    assert schedule["ScheduleExpression"] == f"rate({int(EVERY.total_seconds() / 60)} minutes)"
    given = json.loads(schedule["Target"]["Input"])
    assert read_plan(given) == sweep_plan(app, has_bridge=True)


def test_every_queue_that_messages_end_in_is_swept_with_its_own_retention(
    app: App, template: Mapping[str, Any], schedule: Properties
) -> None:
    topology = app.topology
    plan = read_plan(json.loads(schedule["Target"]["Input"]))
    swept = {queue.name: queue.retention_s for queue in plan.queues}
    assert swept.keys() == {
        *(spec.dlq_name for spec in topology.queues),
        topology.quarantine_name,
        topology.failed_firings_name,
    }
    deployed = queues(template)
    for name, retention_s in swept.items():
        assert deployed[name]["MessageRetentionPeriod"] == retention_s


def test_critical_types_are_in_the_plan_in_a_stable_order() -> None:
    app = App("shop", stage="test", long_delays=False)
    for name in ("zip", "capture", "notify"):
        app.define(name, Params, alert_at_once=name != "notify")
    template = synthesized(app)
    [schedule] = resources(template, "AWS::Scheduler::Schedule", SWEEP).values()
    given = json.loads(schedule["Target"]["Input"])
    assert given["critical"] == ["capture", "zip"]
    assert app.topology.failed_firings_name not in json.dumps(given), "there is no bridge"
    assert QUARANTINE_RETENTION.total_seconds() in {each["retention_s"] for each in given["queues"]}


def test_the_sweep_may_look_remember_copy_and_tell_and_delete_no_message(
    app: App, template: Mapping[str, Any]
) -> None:
    topology = app.topology
    reached: dict[str, set[str]] = {}
    for statement in statements(template, SWEEP)["lambda.amazonaws.com"]:
        for resource in listed(statement["Resource"]):
            named = resource.get("Ref") or name_of(template, resource)
            reached.setdefault(named, set()).update(listed(statement["Action"]))
    [log_group] = resources(template, "AWS::Logs::LogGroup", SWEEP)
    [bucket] = resources(template, "AWS::S3::Bucket")
    topics = resources(template, "AWS::SNS::Topic")
    [key] = resources(template, "AWS::KMS::Key")
    parking = [*(spec.dlq_name for spec in topology.queues), topology.quarantine_name]
    assert reached == {
        **{name: set(PEEK) for name in (*parking, topology.failed_firings_name)},
        topology.failed_sweeps_name: {"sqs:SendMessage"},
        topology.table_name: set(REMEMBER),
        f"/{DEAD_LETTERS}*": {"s3:PutObject"},
        f"/{PAYLOADS}*": {"s3:GetObject"},
        bucket: {"s3:ListBucket"},
        **{topic: {"sns:Publish"} for topic in topics},
        key: {"kms:Decrypt", "kms:GenerateDataKey"},
        log_group: {"logs:CreateLogStream", "logs:PutLogEvents"},
    }


def test_policies_let_it_send_and_delete_where_their_types_letters_are_and_nowhere_else() -> None:
    app = App("shop", stage="test", long_delays=False, signing=Signing())
    app.define("notify", Params, replay=Replay())
    app.queue("ledger", priorities=[Priority.NORMAL]).define("book", Params)
    template = synthesized(app)
    [schedule] = resources(template, "AWS::Scheduler::Schedule", SWEEP).values()
    assert read_plan(json.loads(schedule["Target"]["Input"])).replay is not None
    allowed: dict[str, set[str]] = {}
    for statement in statements(template, SWEEP)["lambda.amazonaws.com"]:
        for action in listed(statement["Action"]):
            named = {
                resource.get("Ref") or name_of(template, resource)
                for resource in listed(statement["Resource"])
            }
            allowed.setdefault(action, set()).update(named)
    sent_back = [spec for spec in app.topology.queues if spec.group == "jobs"]
    failed = app.topology.failed_sweeps_name
    assert allowed["sqs:SendMessage"] == {*(spec.name for spec in sent_back), failed}
    assert allowed["sqs:DeleteMessage"] == {spec.dlq_name for spec in sent_back}
    [secret] = resources(template, "AWS::SecretsManager::Secret")
    assert allowed["secretsmanager:GetSecretValue"] == {secret}
    [function] = resources(template, "AWS::Lambda::Function", SWEEP).values()
    assert function["Environment"]["Variables"][function_module.SECRET] == {"Ref": secret}
    rows = {
        tuple(statement["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"])
        for statement in statements(template, SWEEP)["lambda.amazonaws.com"]
        if "dynamodb:Query" in listed(statement["Action"])
    }
    assert rows == {SWEEPING, RESENDING, (CANCELLATIONS,)}


def test_its_environment_names_what_the_handler_looks_for(
    app: App, template: Mapping[str, Any], function: Properties
) -> None:
    variables = function["Environment"]["Variables"]
    [table] = resources(template, "AWS::DynamoDB::GlobalTable")
    [bucket] = resources(template, "AWS::S3::Bucket")
    [topic] = resources(template, "AWS::SNS::Topic", "JobsAlertsTopic")
    [tickets] = resources(template, "AWS::SNS::Topic", "JobsAlertsTickets")
    assert variables == {
        function_module.TABLE: {"Ref": table},
        function_module.BUCKET: {"Ref": bucket},
        function_module.TOPIC: {"Ref": topic},
        function_module.TICKETS: {"Ref": tickets},
    }
    module, _, name = function["Handler"].rpartition(".")
    assert module == function_module.__name__
    assert hasattr(function_module, name)
    assert function["FunctionName"] == function_name(app.topology, "sweep") == "shop-test-sweep"
    assert function["Runtime"] == "python3.13"
    assert function["Architectures"] == ["arm64"]


def test_a_sweep_ends_before_the_next_is_due(function: Properties) -> None:
    assert function["Timeout"] == TIMEOUT.total_seconds() < EVERY.total_seconds()


def test_a_young_account_can_deploy_it(function: Properties) -> None:
    """Such an account allows ten concurrent invocations in all, none of which can be reserved."""
    assert "ReservedConcurrentExecutions" not in function


def test_a_sweep_that_fails_is_kept_whether_lambda_refused_it_or_it_raised(
    app: App, template: Mapping[str, Any], schedule: Properties
) -> None:
    failed = app.topology.failed_sweeps_name
    [invocations] = resources(template, "AWS::Lambda::EventInvokeConfig", SWEEP).values()
    kept_in = invocations["DestinationConfig"]["OnFailure"]["Destination"]
    assert name_of(template, kept_in) == failed
    assert name_of(template, schedule["Target"]["DeadLetterConfig"]["Arn"]) == failed
    assert schedule["Target"]["RetryPolicy"]["MaximumRetryAttempts"] > 0


def test_its_schedule_stands_apart_from_those_of_jobs(
    app: App, template: Mapping[str, Any], schedule: Properties
) -> None:
    """No list of the app's schedules has it, and permission to change those doesn't cover it."""
    [(group, made)] = resources(template, "AWS::Scheduler::ScheduleGroup", SWEEP).items()
    assert schedule["GroupName"] == made["Name"] != app.topology.schedule_group
    [trust] = [
        statement
        for role in resources(template, "AWS::IAM::Role", SWEEP).values()
        for statement in role["AssumeRolePolicyDocument"]["Statement"]
        if statement["Principal"]["Service"] == "scheduler.amazonaws.com"
    ]
    source = trust["Condition"]["StringEquals"]["aws:SourceArn"]
    assert source == {"Fn::GetAtt": [group, "Arn"]}
    [firing, failing] = statements(template, SWEEP)["scheduler.amazonaws.com"]
    assert (firing["Action"], failing["Action"]) == ("lambda:InvokeFunction", "sqs:SendMessage")


def test_its_log_is_kept_for_a_month(template: Mapping[str, Any], function: Properties) -> None:
    [log_group] = resources(template, "AWS::Logs::LogGroup", SWEEP)
    assert resources(template, "AWS::Logs::LogGroup")[log_group]["RetentionInDays"] == 30
    assert function["LoggingConfig"] == {"LogGroup": {"Ref": log_group}}


def test_an_app_with_many_queues_has_a_plan_that_a_schedule_can_hold() -> None:
    app = App("a" * 20, stage="b" * 10, priorities="all")
    for number in range(100):
        app.queue(f"group-{number}").define(f"type-{number}", Params, priority=Priority.LOW)
    plan = sweep_plan(app, has_bridge=True)
    assert len(plan.queues) > 400
    assert len(plan.model_dump_json().encode()) < 262_144
