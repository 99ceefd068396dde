"""A consumer is provisioned as its group and the topology declare, and may only do its work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_sns as sns

from headgate import App, Priority
from headgate.infra.job_system import JobSystem
from headgate.infra.stack import HeadgateStack
from headgate.jobs.aws.descriptions import LINES
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.groups.consumer_group import ConsumerGroup
from headgate.jobs.deployment.groups.pollers import ProvisionedPollers
from headgate.jobs.deployment.resource_names import function_name
from headgate.jobs.deployment.serving import consumed
from headgate.jobs.errors import ConfigurationError
from tests.infra.conftest import NO_BUNDLING, Params
from tests.infra.templates import (
    Properties,
    listed,
    name_of,
    resources,
    template_of,
)

HANDLER = "shop.function.handler"
SHOWS_AGAIN_S = 60
SUBMITTED = {"sqs:SendMessage", "sqs:GetQueueUrl"}
"""The actions on a queue that submitting needs."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory for the user's code; only the handler's location matters here."""
    root = tmp_path_factory.mktemp("project")
    (root / "shop").mkdir()
    (root / "shop" / "function.py").write_text("handler = None\n")
    return root


@pytest.fixture(scope="module")
def app() -> App:
    app = App("shop", stage="test")
    app.queue("mail", priorities=[Priority.HIGH, Priority.LOW]).define(
        "send", Params, priority=Priority.LOW
    )
    app.queue("books", priorities=[Priority.NORMAL], fifo=True).define(
        "post", Params, group_by=lambda params: str(params.days)
    )
    app.queue("reports", priorities=[Priority.NORMAL]).define("report", Params)
    return app


@pytest.fixture(scope="module")
def mailer(project: Path) -> ConsumerGroup:
    return ConsumerGroup(
        name="mailer",
        handler=HANDLER,
        source=str(project),
        queues=("mail",),
        submits=False,
        timeout=timedelta(seconds=SHOWS_AGAIN_S - 2),
        batch_size=25,
        max_batching_window=timedelta(seconds=2),
        max_concurrency=7,
        concurrency=25,
        reserved_concurrency=20,
    )


@pytest.fixture(scope="module")
def clerk(project: Path) -> ConsumerGroup:
    return ConsumerGroup(
        name="clerk", handler=HANDLER, source=str(project), queues=("books",), memory_mib=256
    )


@pytest.fixture(scope="module")
def deployment(mailer: ConsumerGroup, clerk: ConsumerGroup) -> Deployment:
    reporter = replace(clerk, name="reporter", queues=("reports",))
    return Deployment(workers=(), consumers=(mailer, clerk, reporter))


@pytest.fixture(scope="module")
def system(app: App, deployment: Deployment) -> JobSystem:
    assembly = cdk.App(context=NO_BUNDLING)
    return HeadgateStack(assembly, "Stack", app=app, deployment=deployment).jobs


@pytest.fixture(scope="module")
def template(system: JobSystem) -> Mapping[str, Any]:
    return template_of(cdk.Stack.of(system))


@pytest.fixture(scope="module")
def functions(app: App, template: Mapping[str, Any], deployment: Deployment) -> dict[str, str]:
    """Return the logical ids of the consumers' functions, by their groups' names."""
    by_name = {
        each.get("FunctionName", logical_id): logical_id
        for logical_id, each in resources(template, "AWS::Lambda::Function").items()
    }
    names = (group.name for group in deployment.consumers)
    return {name: by_name[function_name(app.topology, name)] for name in names}


def properties_of(template: Mapping[str, Any], logical_id: str) -> Properties:
    properties: Properties = template["Resources"][logical_id]["Properties"]
    return properties


def mappings_of(template: Mapping[str, Any], function: str) -> dict[str, Properties]:
    """Return the event source mappings of a function, by queue."""
    return {
        name_of(template, mapping["EventSourceArn"]): mapping
        for mapping in resources(template, "AWS::Lambda::EventSourceMapping").values()
        if mapping["FunctionName"] == {"Ref": function}
    }


def test_each_consumer_is_a_function_of_its_size_and_stage(
    app: App, template: Mapping[str, Any], functions: Mapping[str, str], deployment: Deployment
) -> None:
    for group in deployment.consumers:
        function = properties_of(template, functions[group.name])
        assert function["Timeout"] == group.timeout.total_seconds()
        assert function["MemorySize"] == group.memory_mib
        assert function["Handler"] == group.handler
        assert function["Architectures"] == ["arm64"]
        assert function.get("ReservedConcurrentExecutions") == group.reserved_concurrency
        assert function.get("RecursiveLoop") == ("Allow" if group.submits else None)
        [bucket] = resources(template, "AWS::S3::Bucket")
        assert function["Environment"]["Variables"] == {
            "HEADGATE_ACCOUNT": {"Ref": "AWS::AccountId"},
            "HEADGATE_BUCKET": {"Ref": bucket},
            "HEADGATE_STAGE": app.stage,
            "HEADGATE_EMF": "1",
            "HEADGATE_CONCURRENCY": str(group.concurrency),
            "POWERTOOLS_SERVICE_NAME": function["FunctionName"],
        }


def test_each_queue_is_mapped_with_failures_reported_per_message(
    app: App, template: Mapping[str, Any], functions: Mapping[str, str], deployment: Deployment
) -> None:
    for group in deployment.consumers:
        mappings = mappings_of(template, functions[group.name])
        assert mappings.keys() == {spec.name for spec in group.selection.of(app.topology)}
        for mapping in mappings.values():
            assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
            assert mapping["BatchSize"] == group.batch_size
            assert mapping["ScalingConfig"] == {"MaximumConcurrency": group.most_invocations}
            window = mapping.get("MaximumBatchingWindowInSeconds", 0)
            assert window == group.max_batching_window.total_seconds()
            assert "FilterCriteria" not in mapping
            assert "DestinationConfig" not in mapping  # SQS's own redrive applies


def test_pollers_tracing_and_x86_are_options_of_a_consumer(app: App, project: Path) -> None:
    quick = ConsumerGroup(
        name="quick",
        handler=HANDLER,
        source=str(project),
        timeout=timedelta(seconds=5),
        pollers=ProvisionedPollers(minimum=5, maximum=100),
        tracing=True,
        architecture="x86_64",
    )
    template = _synthesized(app, quick)
    [function] = resources(template, "AWS::Lambda::Function", "JobsConsumer").values()
    assert function["Architectures"] == ["x86_64"]
    assert function["TracingConfig"] == {"Mode": "Active"}
    mappings = resources(template, "AWS::Lambda::EventSourceMapping", "JobsConsumer").values()
    assert mappings
    for mapping in mappings:
        assert "ScalingConfig" not in mapping, "provisioned mode excludes it"
        pollers = {"MinimumPollers": 5, "MaximumPollers": 100}
        assert mapping["ProvisionedPollerConfig"] == pollers


def test_pollers_and_max_concurrency_exclude_each_other() -> None:
    with pytest.raises(ConfigurationError, match="exclude each other"):
        ConsumerGroup(
            name="quick", handler=HANDLER, pollers=ProvisionedPollers(), max_concurrency=5
        )


def test_a_reservation_covers_what_the_pollers_may_invoke() -> None:
    app = App("shop", stage="test")
    app.define("send-letter", Params, priority=Priority.LOW)
    group = ConsumerGroup(
        name="quick",
        handler=HANDLER,
        priorities=(Priority.LOW,),
        pollers=ProvisionedPollers(),
        reserved_concurrency=1_999,
    )
    with pytest.raises(ConfigurationError, match="Reserve at least 2000"):
        consumed(app.topology, group)


@pytest.mark.parametrize(("minimum", "maximum"), [(1, 10), (201, 300), (5, 4), (2, 2_001)])
def test_numbers_of_pollers_that_aws_does_not_take_are_refused(minimum: int, maximum: int) -> None:
    with pytest.raises(ConfigurationError, match="the minimum is 2 to 200"):
        ProvisionedPollers(minimum=minimum, maximum=maximum)


def test_messages_a_consumer_can_not_settle_reach_the_queues_own_dlq(
    app: App, template: Mapping[str, Any], deployment: Deployment
) -> None:
    by_name = {each["QueueName"]: each for each in resources(template, "AWS::SQS::Queue").values()}
    for group in deployment.consumers:
        for spec in group.selection.of(app.topology):
            redrive = by_name[spec.name]["RedrivePolicy"]
            assert name_of(template, redrive["deadLetterTargetArn"]) == spec.dlq_name
            assert redrive["maxReceiveCount"] == spec.max_receive_count


def test_its_log_is_its_own_and_kept_for_a_month(
    template: Mapping[str, Any], functions: Mapping[str, str]
) -> None:
    groups = [
        properties_of(template, logical_id)["LoggingConfig"]["LogGroup"]["Ref"]
        for logical_id in functions.values()
    ]
    assert len(set(groups)) == len(functions)
    for logical_id in groups:
        assert properties_of(template, logical_id)["RetentionInDays"] == 30
        assert template["Resources"][logical_id]["DeletionPolicy"] == "Delete"


def granted(template: Mapping[str, Any], role: str) -> dict[str, set[str]]:
    """Return the actions that a role's policies allow, by resource."""
    own = properties_of(template, role)["Policies"]
    policies = [policy["PolicyDocument"] for policy in own] + [
        policy["PolicyDocument"]
        for policy in resources(template, "AWS::IAM::Policy").values()
        if {"Ref": role} in policy["Roles"]
    ]
    reached: dict[str, set[str]] = {}
    for statement in (each for policy in policies for each in policy["Statement"]):
        for resource in listed(statement["Resource"]):
            name = resource["Ref"] if "Ref" in resource else name_of(template, resource)
            actions = reached.setdefault(name, set())
            actions.update(listed(statement["Action"]))
    return reached


def test_its_role_reaches_its_own_queues_and_what_their_jobs_take(
    app: App, template: Mapping[str, Any], functions: Mapping[str, str], deployment: Deployment
) -> None:
    work = {
        "sqs:ReceiveMessage",
        "sqs:DeleteMessage",
        "sqs:ChangeMessageVisibility",
        "sqs:GetQueueAttributes",
        "sqs:GetQueueUrl",
    }
    park = SUBMITTED | {"sqs:GetQueueAttributes"}  # workers show the depths
    record = {f"dynamodb:{action}" for action in ("GetItem", "Query", "PutItem", "BatchWriteItem")}
    [bucket] = resources(template, "AWS::S3::Bucket")
    [scheduler] = resources(template, "AWS::IAM::Role", "JobsSchedules")
    for group in deployment.consumers:
        specs = group.selection.of(app.topology)
        function = properties_of(template, functions[group.name])
        submit = SUBMITTED if group.submits else set()
        all_ = {spec.name: submit for spec in app.topology.queues if submit}
        assert granted(template, function["Role"]["Fn::GetAtt"][0]) == {
            **all_,
            **{spec.name: work | SUBMITTED for spec in specs},
            **{spec.dlq_name: park for spec in specs},
            app.topology.quarantine_name: park,
            app.topology.table_name: record,
            f"/index/{LINES}": {"dynamodb:Query"},
            "/payloads/*": {"s3:GetObject", "s3:PutObject"},
            "/results/*": {"s3:GetObject", "s3:PutObject"} if group.submits else {"s3:PutObject"},
            **({"/payloads/results/*": {"s3:GetObject"}} if group.submits else {}),
            bucket: {"s3:ListBucket"},
            f"schedule/{app.topology.schedule_group}/delay.*": {
                "scheduler:CreateSchedule",
                "scheduler:GetSchedule",
                "scheduler:DeleteSchedule",
            },
            scheduler: {"iam:PassRole"},
            function["LoggingConfig"]["LogGroup"]["Ref"]: {
                "logs:CreateLogStream",
                "logs:PutLogEvents",
            },
        }


def test_the_function_is_made_after_all_that_it_may_do(
    template: Mapping[str, Any], functions: Mapping[str, str]
) -> None:
    for logical_id in functions.values():
        waits_for = template["Resources"][logical_id]["DependsOn"]
        kinds = {template["Resources"][each]["Type"] for each in waits_for}
        assert kinds == {"AWS::IAM::Role", "AWS::IAM::Policy"}


def test_what_it_needs_beside_is_granted_to_its_function(
    app: App, deployment: Deployment, mailer: ConsumerGroup
) -> None:
    stack = cdk.Stack(cdk.App(context=NO_BUNDLING), "Own")
    system = JobSystem(stack, "Jobs", app=app, deployment=deployment)
    topic = sns.Topic(stack, "News", display_name="News")
    topic.grant_publish(system.consumers[mailer.name].function)

    template = template_of(stack)
    [role] = resources(template, "AWS::IAM::Role", f"JobsConsumer{mailer.name}")
    [news] = resources(template, "AWS::SNS::Topic", "News")
    assert granted(template, role)[news] == {"sns:Publish"}


def _synthesized(app: App, *consumers: ConsumerGroup) -> Mapping[str, Any]:
    assembly = cdk.App(context=NO_BUNDLING)
    deployment = Deployment(workers=(), consumers=consumers)
    return template_of(HeadgateStack(assembly, "Stack", app=app, deployment=deployment))


def test_the_bridge_gets_concurrency_reserved_if_that_is_asked_for(
    app: App, template: Mapping[str, Any], deployment: Deployment
) -> None:
    [bridge] = resources(template, "AWS::Lambda::Function", "JobsBridge").values()
    assert "ReservedConcurrentExecutions" not in bridge

    assembly = cdk.App(context=NO_BUNDLING)
    reserving = replace(deployment, bridge_reserved=20)
    stack = HeadgateStack(assembly, "Stack", app=app, deployment=reserving)
    [bridge] = resources(template_of(stack), "AWS::Lambda::Function", "JobsBridge").values()
    assert bridge["ReservedConcurrentExecutions"] == 20


# --- invalid settings are refused before there is a template -------------------------------------


def test_a_function_timeout_beyond_the_visibility_is_refused(app: App, project: Path) -> None:
    [high, *_] = app.topology.select(["mail"])
    assert high.visibility_s == SHOWS_AGAIN_S
    group = ConsumerGroup(
        name="slow",
        handler=HANDLER,
        source=str(project),
        timeout=timedelta(seconds=SHOWS_AGAIN_S + 1),
    )
    with pytest.raises(ConfigurationError, match=rf"'slow' .* 61 s, the queue {high.name} .* 60 s"):
        _synthesized(app, group)


def test_a_batch_that_gathers_until_its_messages_show_again_is_refused(
    app: App, project: Path
) -> None:
    group = ConsumerGroup(
        name="slow", handler=HANDLER, source=str(project), max_batching_window=timedelta(minutes=5)
    )
    with pytest.raises(ConfigurationError, match=r"'slow' gathers a batch for 300 s and may run"):
        _synthesized(app, group)


def test_a_queue_that_a_function_would_share_with_workers_is_refused(
    app: App, mailer: ConsumerGroup
) -> None:
    stack = cdk.Stack(cdk.App(context=NO_BUNDLING), "Own")
    with pytest.raises(ConfigurationError, match="'workers' and the consumer 'mailer'"):
        JobSystem(stack, "Jobs", app=app, deployment=Deployment(consumers=(mailer,)))


def test_a_queue_without_workers_or_consumers_is_refused(app: App, mailer: ConsumerGroup) -> None:
    with pytest.raises(
        ConfigurationError,
        match="no worker group or consumer serves the queue shop-test-books-normal",
    ):
        _synthesized(app, mailer)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"source": "nowhere"}, "source 'nowhere' is no directory"),
        ({"handler": "shop.functions.handler"}, r"there is no shop/functions\.py"),
        ({"handler": "handler"}, "must be module.attribute"),
        ({"requirements": "nowhere.txt"}, "requirements could not be read: .*nowhere.txt"),
    ],
)
def test_code_that_is_not_there_is_refused_by_name(
    app: App, project: Path, options: dict[str, Any], message: str
) -> None:
    fields: dict[str, Any] = {"name": "all", "handler": HANDLER, "source": str(project)}
    group = ConsumerGroup(**(fields | options))
    with pytest.raises(ConfigurationError, match=f"the consumer 'all': its .*{message}"):
        _synthesized(app, group)
