"""The template matches the topology."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_iam as iam

from headgate import App, Priority
from headgate.infra.app import add_stack
from headgate.infra.data.queues import Queues
from headgate.infra.job_system import JobSystem
from headgate.infra.stack import HeadgateStack
from headgate.jobs.aws.descriptions import (
    EXPIRY,
    LINES,
    table_properties,
)
from headgate.jobs.aws.queue_descriptions import (
    create_attributes,
    failed_firings,
    failed_sweeps,
    pairs,
    quarantine,
)
from headgate.jobs.core.naming import MAX_SCHEDULER_NAME, physical_name
from headgate.jobs.core.topology import DEFAULT_LANES, QueueSpec, Topology
from headgate.jobs.errors import AppImportError, ConfigurationError
from headgate.jobs.schedules.firing import Firing
from tests.infra.conftest import ELSEWHERE, NO_BUNDLING, Params
from tests.infra.templates import (
    Properties,
    listed,
    name_of,
    queues,
    resources,
    statements,
    synthesized,
    template_of,
)

FIRED = {
    "schedule_arn": "arn:aws:scheduler:::schedule/shop/x",
    "scheduled_time": "2026-03-01T08:00:00Z",
    "execution_id": "d32c5kddcf5bb8c3",
    "attempt_number": "1",
}
ONLY_IN_CLOUDFORMATION = {
    "QueueName",  # an argument of CreateQueue, not an attribute
    "RedriveAllowPolicy",  # set afterwards, since the two queues name each other
    "Tags",
}


def as_attributes(properties: Properties) -> dict[str, Any]:
    """Return a template's properties as CreateQueue takes them; the redrive policy as values."""
    return {
        name: value if isinstance(value, Mapping) else json.dumps(value).strip('"')
        for name, value in properties.items()
        if name not in ONLY_IN_CLOUDFORMATION
    }


def provisioned(attributes: Mapping[str, str]) -> dict[str, Any]:
    return {
        name: json.loads(value) if name == "RedrivePolicy" else value
        for name, value in attributes.items()
    }


def redrive(template: Mapping[str, Any], name: str) -> dict[str, Any]:
    properties = as_attributes(queues(template)[name])
    policy = properties["RedrivePolicy"]
    target = name_of(template, policy["deadLetterTargetArn"])
    return properties | {"RedrivePolicy": {**policy, "deadLetterTargetArn": target}}


# --- queues --------------------------------------------------------------------------------------


def test_the_stack_has_the_queues_of_the_topology_and_those_of_what_failed(
    app: App, template: Mapping[str, Any]
) -> None:
    topology = app.topology
    assert set(queues(template)) == {
        *(spec.name for spec in topology.queues),
        *(spec.dlq_name for spec in topology.queues),
        topology.quarantine_name,
        physical_name(app.name, app.stage, "schedules-dlq"),
        topology.failed_sweeps_name,
    }


def test_deployed_queues_have_the_attributes_that_local_ones_are_given(
    app: App, template: Mapping[str, Any]
) -> None:
    deployed = queues(template)
    for queue, dead_letters in pairs(app.topology):
        assert redrive(template, queue.name) == provisioned(
            create_attributes(queue, dead_letters.name)
        )
        assert as_attributes(deployed[dead_letters.name]) == create_attributes(dead_letters)
    for describe in (quarantine, failed_firings, failed_sweeps):
        other = describe(app.topology)
        assert as_attributes(deployed[other.name]) == create_attributes(other)


def test_fifo_queues_have_the_attributes_that_local_ones_are_given() -> None:
    spec = QueueSpec(
        group="ledger",
        priority=Priority.NORMAL,
        name="shop-ledger-normal.fifo",
        dlq_name="shop-ledger-normal-dlq.fifo",
        lane=DEFAULT_LANES[Priority.NORMAL],
        max_receive_count=13,
        fifo=True,
    )
    topology = Topology(
        app="shop",
        stage=None,
        queues=(spec,),
        quarantine_name="shop-quarantine",
        table_name="shop-records",
    )
    stack = cdk.Stack()
    Queues(stack, "Queues", topology=topology, removal_policy=cdk.RemovalPolicy.DESTROY)
    template = template_of(stack)

    [(queue, dead_letters)] = pairs(topology)
    assert redrive(template, spec.name) == provisioned(create_attributes(queue, spec.dlq_name))
    assert as_attributes(queues(template)[spec.dlq_name]) == create_attributes(dead_letters)


def test_a_dead_letter_queue_takes_from_its_own_queue_only(
    app: App, template: Mapping[str, Any]
) -> None:
    for spec in app.topology.queues:
        allowed = queues(template)[spec.dlq_name]["RedriveAllowPolicy"]
        assert allowed["redrivePermission"] == "byQueue"
        assert [name_of(template, arn) for arn in allowed["sourceQueueArns"]] == [spec.name]


def test_every_queue_refuses_what_comes_without_tls(template: Mapping[str, Any]) -> None:
    refusing = {
        name_of(template, statement["Resource"])
        for policy in resources(template, "AWS::SQS::QueuePolicy").values()
        for statement in policy["PolicyDocument"]["Statement"]
        if statement["Effect"] == "Deny"
        and statement["Action"] == "sqs:*"
        and statement["Principal"] == {"AWS": "*"}
        and statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    }
    assert refusing == set(queues(template))


# --- schedules -----------------------------------------------------------------------------------


def test_every_declared_schedule_is_deployed_as_declared(
    app: App, template: Mapping[str, Any]
) -> None:
    deployed = {
        schedule["Name"]: schedule
        for schedule in resources(template, "AWS::Scheduler::Schedule", "JobsSchedules").values()
    }
    declared = {job.name: job.schedule for job in app.types.values() if job.schedule is not None}
    assert deployed.keys() == declared.keys()
    for name, schedule in declared.items():
        window = schedule.flexible_window
        assert deployed[name]["ScheduleExpression"] == schedule.expression
        assert deployed[name]["ScheduleExpressionTimezone"] == schedule.timezone
        assert deployed[name]["GroupName"] == app.topology.schedule_group
        assert deployed[name]["FlexibleTimeWindow"] == (
            {"Mode": "OFF"}
            if window is None
            else {"Mode": "FLEXIBLE", "MaximumWindowInMinutes": window.total_seconds() / 60}
        )


def test_what_a_schedule_hands_over_is_a_job_that_its_type_accepts(
    app: App, template: Mapping[str, Any]
) -> None:
    for schedule in resources(template, "AWS::Scheduler::Schedule", "JobsSchedules").values():
        firing = Firing.model_validate(json.loads(schedule["Target"]["Input"]) | FIRED)
        job = app.find_type(firing.type)
        assert firing.schedule == schedule["Name"]
        assert (firing.schema_, firing.queue, firing.priority) == (
            job.schema,
            job.queue,
            job.priority,
        )
        assert firing.queue_name == app.topology.queue(job.queue, job.priority).name
        assert job.load(firing.payload) == Params()


def test_a_failed_firing_is_kept_wherever_it_failed(app: App, template: Mapping[str, Any]) -> None:
    failed = physical_name(app.name, app.stage, "schedules-dlq")
    for schedule in resources(template, "AWS::Scheduler::Schedule", "JobsSchedules").values():
        assert name_of(template, schedule["Target"]["DeadLetterConfig"]["Arn"]) == failed
        assert schedule["Target"]["RetryPolicy"]["MaximumRetryAttempts"] > 0
    [invocations] = resources(template, "AWS::Lambda::EventInvokeConfig", "JobsBridge").values()
    kept_in = invocations["DestinationConfig"]["OnFailure"]["Destination"]
    assert name_of(template, kept_in) == failed
    assert invocations["MaximumRetryAttempts"] > 0


def test_an_app_without_schedules_and_long_delays_gets_no_bridge() -> None:
    app = App("shop", stage="test", long_delays=False)
    app.define("send-email", Params)

    template = synthesized(app)

    of_bridge = ("JobsBridge", "JobsSchedules", "JobsEventRules")
    assert not [each for each in template["Resources"] if each.startswith(of_bridge)]
    assert app.topology.failed_firings_name not in queues(template)


# --- the table -----------------------------------------------------------------------------------


def test_the_table_is_the_one_that_a_local_stack_provisions(template: Mapping[str, Any]) -> None:
    [table] = resources(template, "AWS::DynamoDB::GlobalTable").values()

    local = table_properties("shop-test-records")
    assert {name: table[name] for name in local} == local
    assert table["TimeToLiveSpecification"] == {"AttributeName": EXPIRY, "Enabled": True}
    [replica] = table["Replicas"]
    assert replica["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}


# --- permissions ---------------------------------------------------------------------------------


def test_the_bridge_may_send_to_the_apps_queues_and_to_no_other(
    app: App, template: Mapping[str, Any]
) -> None:
    feeds = {spec.name for spec in app.topology.queues}
    allowed = statements(template, "JobsBridge")["lambda.amazonaws.com"]
    reached = {
        (action, name_of(template, resource))
        for statement in allowed
        for action in listed(statement["Action"])
        for resource in listed(statement["Resource"])
    }
    [log_group] = resources(template, "AWS::Logs::LogGroup", "JobsBridge")
    assert reached == {
        *((action, name) for name in feeds for action in ("sqs:SendMessage", "sqs:GetQueueUrl")),
        ("sqs:SendMessage", physical_name(app.name, app.stage, "schedules-dlq")),
        ("dynamodb:PutItem", app.topology.table_name),
        ("logs:CreateLogStream", log_group),
        ("logs:PutLogEvents", log_group),
    }


def flattened(template: Mapping[str, Any], part: str) -> Iterator[Mapping[str, Any]]:
    """Yield the statements of all roles of a part of the system."""
    for allowed in statements(template, part).values():
        yield from allowed


def test_no_role_is_given_a_wildcard(template: Mapping[str, Any]) -> None:
    assert "AWS::IAM::Policy" not in {each["Type"] for each in template["Resources"].values()}
    for part in ("JobsBridge", "JobsSchedules"):
        assert statements(template, part)
        allowed = [(each["Action"], each["Resource"]) for each in flattened(template, part)]
        assert "*" not in json.dumps(allowed)


def test_the_schedulers_role_serves_this_apps_schedules_only(template: Mapping[str, Any]) -> None:
    [group] = resources(template, "AWS::Scheduler::ScheduleGroup", "JobsSchedules")
    conditions = [
        statement["Condition"]
        for role in resources(template, "AWS::IAM::Role", "JobsSchedules").values()
        for statement in role["AssumeRolePolicyDocument"]["Statement"]
        if statement["Principal"]["Service"] == "scheduler.amazonaws.com"
    ]
    assert conditions == [
        {
            "StringEquals": {
                "aws:SourceAccount": {"Ref": "AWS::AccountId"},
                "aws:SourceArn": {"Fn::GetAtt": [group, "Arn"]},
            }
        }
    ]


@pytest.fixture(scope="module")
def granted(app: App) -> Mapping[str, Any]:
    """Return a stack of the user's own, with roles that submit, follow jobs and work."""
    stack = cdk.Stack(cdk.App(context=NO_BUNDLING), "Own")
    system = JobSystem(stack, "Jobs", app=app, deployment=ELSEWHERE)
    tasks = iam.ServicePrincipal("ecs-tasks.amazonaws.com")
    system.grant_submit(iam.Role(stack, "Web", assumed_by=tasks))
    system.grant_submit(iam.Role(stack, "Shop", assumed_by=tasks), unique=True)
    system.grant_follow(iam.Role(stack, "Desk", assumed_by=tasks))
    system.grant_work(iam.Role(stack, "Worker", assumed_by=tasks))
    return template_of(stack)


def delaying(template: Mapping[str, Any]) -> dict[str, set[str]]:
    """Return the permissions needed for one-time schedules: creating them, passing their role."""
    [role] = [
        logical_id
        for logical_id, each in resources(template, "AWS::IAM::Role").items()
        if "-scheduler" in json.dumps(each.get("RoleName", ""))
    ]
    return {
        "schedule/shop-test/delay.*": {
            "scheduler:CreateSchedule",
            "scheduler:GetSchedule",
            "scheduler:DeleteSchedule",
        },
        role: {"iam:PassRole"},
    }


def reach(template: Mapping[str, Any], role: str) -> dict[str, set[str]]:
    """Return the actions that the default policy of a role allows, by queue."""
    [policy] = [
        policy
        for logical_id, policy in resources(template, "AWS::IAM::Policy").items()
        if logical_id.startswith(role)
    ]
    reached: dict[str, set[str]] = {}
    for statement in policy["PolicyDocument"]["Statement"]:
        for resource in listed(statement["Resource"]):
            actions = reached.setdefault(name_of(template, resource), set())
            actions.update(listed(statement["Action"]))
    return reached


def test_a_submitter_may_only_send_store_payloads_and_create_long_delays(
    app: App, granted: Mapping[str, Any]
) -> None:
    assert reach(granted, "Web") == {
        **{spec.name: {"sqs:SendMessage", "sqs:GetQueueUrl"} for spec in app.topology.queues},
        **delaying(granted),
        "/payloads/*": {"s3:PutObject"},
    }


def test_a_unique_submitter_may_read_and_write_single_items_of_the_table(
    app: App, granted: Mapping[str, Any]
) -> None:
    claims = {"dynamodb:GetItem", "dynamodb:PutItem"}
    assert reach(granted, "Shop") == {**reach(granted, "Web"), app.topology.table_name: claims}


def test_a_follower_may_read_the_table_and_request_cancellations(
    app: App, granted: Mapping[str, Any]
) -> None:
    [bucket] = resources(granted, "AWS::S3::Bucket")
    assert reach(granted, "Desk") == {
        app.topology.table_name: {"dynamodb:Query", "dynamodb:PutItem"},
        "/results/*": {"s3:GetObject"},
        "/payloads/results/*": {"s3:GetObject"},  # of earlier versions
        bucket: {"s3:ListBucket"},
        "schedule/shop-test/delay.*": {"scheduler:GetSchedule", "scheduler:DeleteSchedule"},
    }


def test_a_worker_may_receive_settle_park_and_resend_but_not_submit_elsewhere(
    app: App, granted: Mapping[str, Any]
) -> None:
    work = {
        "sqs:ReceiveMessage",
        "sqs:DeleteMessage",
        "sqs:ChangeMessageVisibility",
        "sqs:GetQueueAttributes",
        "sqs:GetQueueUrl",
    }
    park = {"sqs:SendMessage", "sqs:GetQueueUrl", "sqs:GetQueueAttributes"}
    record = {f"dynamodb:{action}" for action in ("GetItem", "Query", "PutItem", "BatchWriteItem")}
    parking = [*(spec.dlq_name for spec in app.topology.queues), app.topology.quarantine_name]
    [bucket] = resources(granted, "AWS::S3::Bucket")
    assert reach(granted, "Worker") == {
        **{spec.name: work | park for spec in app.topology.queues},
        **dict.fromkeys(parking, park),
        app.topology.table_name: record,
        **delaying(granted),
        f"/index/{LINES}": {"dynamodb:Query"},
        "/payloads/*": {"s3:GetObject", "s3:PutObject"},
        "/results/*": {"s3:PutObject"},
        bucket: {"s3:ListBucket"},
    }


# --- the whole stack -----------------------------------------------------------------------------


def test_a_template_spends_none_of_cloudformation_s_megabyte_on_indentation(app: App) -> None:
    assembly = cdk.App(context=NO_BUNDLING)
    HeadgateStack(assembly, "Stack", app=app, deployment=ELSEWHERE)
    [stack] = assembly.synth().stacks
    assert "\n" not in Path(stack.template_full_path).read_text()


def test_two_syntheses_are_identical(app: App, template: Mapping[str, Any]) -> None:
    assert synthesized(app) == template


def test_names_stay_within_awss_limits(template: Mapping[str, Any]) -> None:
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,80}", name) for name in queues(template))
    scheduler = [
        *resources(template, "AWS::Scheduler::Schedule", "JobsSchedules").values(),
        *resources(template, "AWS::Scheduler::ScheduleGroup", "JobsSchedules").values(),
    ]
    assert all(len(each["Name"]) <= MAX_SCHEDULER_NAME for each in scheduler)


def test_an_app_without_job_types_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no job types"):
        JobSystem(cdk.Stack(), "Jobs", app=App("empty"))


# --- the entry point -----------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory to run commands in, with an environment that names no app."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("HEADGATE_APP", raising=False)
    monkeypatch.setenv("HEADGATE_STAGE", "")  # so that what the entry point sets is undone
    return tmp_path


def declare(project: Path, module: str, arguments: str = "'store'") -> None:
    source = f"from headgate import App\napp = App({arguments})\napp.define('send', dict)\n"
    (project / f"{module}.py").write_text(source)
    (project / "Dockerfile").write_text("FROM scratch\n")


def assembly(**context: str) -> cdk.App:
    named = {f"headgate:{key}": value for key, value in context.items()}
    return cdk.App(context={**NO_BUNDLING, **named})


def test_the_context_names_the_app_and_the_stage(project: Path) -> None:
    declare(project, "of_context")

    stack = add_stack(assembly(app="of_context:app", stage="prod"))

    assert stack.stack_name == "store-prod"
    assert "store-prod-jobs-normal" in queues(template_of(stack))


def test_the_environment_names_what_the_context_does_not(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(project, "of_environment")
    monkeypatch.setenv("HEADGATE_APP", "of_environment:app")
    monkeypatch.setenv("HEADGATE_STAGE", "dev")

    assert add_stack(assembly()).stack_name == "store-dev"


def test_an_app_of_another_stage_than_the_one_asked_for_is_refused(project: Path) -> None:
    declare(project, "of_prod", "'store', stage='prod'")

    with pytest.raises(ConfigurationError, match="stage='prod', but 'dev'"):
        add_stack(assembly(app="of_prod:app", stage="dev"))


@pytest.mark.usefixtures("project")
def test_synthesis_without_an_app_says_where_to_name_one() -> None:
    with pytest.raises(ConfigurationError, match="headgate:app"):
        add_stack(assembly())


@pytest.mark.usefixtures("project")
def test_an_app_that_cant_be_imported_is_refused() -> None:
    with pytest.raises(AppImportError, match="nowhere"):
        add_stack(assembly(app="nowhere:app"))


def test_the_command_reports_a_bad_app_in_one_line_and_fails(project: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "headgate.infra.app"],
        cwd=project,
        env={
            "HEADGATE_APP": "nowhere:app",
            "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20",
            "PATH": "/usr/bin:/bin",
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("headgate: the app path 'nowhere:app': there is no module")
    assert done.stderr.count("\n") == 1
