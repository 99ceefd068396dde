"""The rules of `App.event_rule` are deployed as declared, and fail as schedules do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from headgate import App, Priority
from headgate.jobs.core.naming import physical_name
from headgate.jobs.definitions.event_rules.event_rule import Occurrence
from tests.infra.conftest import Params
from tests.infra.templates import (
    Properties,
    listed,
    name_of,
    resources,
    statements,
    synthesized,
)
from tests.support.cloudformation import ACCOUNT, REGION, resolve

PATTERN: dict[str, Any] = {"source": ["shop"], "detail": {"days": [{"numeric": [">", 0]}]}}
EVENT = {"id": "1", "time": "2026-03-01T08:00:00Z", "source": "shop", "detail": {"days": 3}}


@pytest.fixture(scope="module")
def app() -> App:
    app = App("shop", long_delays=False, stage="test")
    report = app.define("report", Params, priority=Priority.LOW)
    app.define("send-email", Params)
    app.event_rule("order-placed", pattern=PATTERN, job=report, fields={"days": "$.detail.days"})
    app.event_rule("elsewhere", pattern=PATTERN, job=report, bus="orders")
    return app


@pytest.fixture(scope="module")
def template(app: App) -> Mapping[str, Any]:
    return synthesized(app)


@pytest.fixture(scope="module")
def rules(template: Mapping[str, Any]) -> dict[str, Properties]:
    return {rule["Name"]: rule for rule in resources(template, "AWS::Events::Rule").values()}


def test_every_declared_rule_is_deployed_as_declared(rules: Mapping[str, Properties]) -> None:
    assert rules.keys() == {"shop-test-order-placed", "shop-test-elsewhere"}
    assert {json.dumps(rule["EventPattern"]) for rule in rules.values()} == {json.dumps(PATTERN)}
    assert "EventBusName" not in rules["shop-test-order-placed"]
    assert rules["shop-test-elsewhere"]["EventBusName"] == "orders"


def test_what_a_rule_hands_over_is_a_job_that_its_type_accepts(
    app: App, rules: Mapping[str, Properties]
) -> None:
    for rule in rules.values():
        [target] = rule["Targets"]
        template = target["InputTransformer"]["InputTemplate"]
        filled = template.replace("<aws.events.event.json>", json.dumps(EVENT))
        occurrence = Occurrence.model_validate(json.loads(filled))
        job = app.find_type(occurrence.job.type)
        assert occurrence.queue_name == app.topology.queue(job.queue, job.priority).name
        assert job.load({"days": 3}) == Params(days=3)


def test_an_event_that_lambda_does_not_take_is_tried_for_a_day_and_then_kept(
    app: App, template: Mapping[str, Any], rules: Mapping[str, Properties]
) -> None:
    for rule in rules.values():
        [target] = rule["Targets"]
        failed = name_of(template, target["DeadLetterConfig"]["Arn"])
        assert failed == physical_name(app.name, app.stage, "schedules-dlq")
        assert target["RetryPolicy"] == {
            "MaximumRetryAttempts": 185,
            "MaximumEventAgeInSeconds": 86_400,
        }


def admitted(template: Mapping[str, Any]) -> list[str]:
    """Return the patterns of rules that may invoke the bridge, which the queue has too."""
    found = resolve(template)
    permissions = list(found.of_type("AWS::Lambda::Permission").values())
    assert {each["Principal"] for each in permissions} == {"events.amazonaws.com"}
    assert {each["Action"] for each in permissions} == {"lambda:InvokeFunction"}
    invoking = [str(each["SourceArn"]) for each in permissions]
    [keeping] = [
        statement["Condition"]["ArnLike"]["aws:SourceArn"]
        for policy in found.of_type("AWS::SQS::QueuePolicy").values()
        for statement in policy["PolicyDocument"]["Statement"]
        if statement["Effect"] == "Allow"
    ]
    assert listed(keeping) == invoking
    return invoking


def test_rules_invoke_the_bridge_and_keep_what_fails_by_one_pattern_a_bus(
    template: Mapping[str, Any],
) -> None:
    place = f"arn:aws:events:{REGION}:{ACCOUNT}:rule"
    assert admitted(template) == [f"{place}/shop-test-*", f"{place}/orders/shop-test-*"]


def test_rules_on_a_bus_of_another_account_are_admitted_from_there() -> None:
    app = App("shop", stage="test")
    report = app.define("report", Params)
    place = "arn:aws:events:eu-central-1:999988887777"
    buses = (f"{place}:event-bus/central", f"{place}:event-bus/default")
    for number, bus in enumerate((*buses, "aws.partner/shop.example/orders")):
        app.event_rule(f"placed-{number}", pattern=PATTERN, job=report, bus=bus)
    assert admitted(synthesized(app)) == [
        f"{place}:rule/central/shop-test-*",
        f"{place}:rule/shop-test-*",
        f"arn:aws:events:{REGION}:{ACCOUNT}:rule/aws.partner/shop.example/orders/shop-test-*",
    ]


def test_the_policies_are_no_larger_with_hundreds_of_event_rules() -> None:
    app = App("shop", stage="test")
    report = app.define("report", Params)
    for number in range(300):
        app.event_rule(f"order-placed-{number}", pattern=PATTERN, job=report)
    template = synthesized(app)
    assert len(resources(template, "AWS::Events::Rule")) == 300
    assert len(admitted(template)) == 1


def test_a_rule_is_admitted_before_it_exists(template: Mapping[str, Any]) -> None:
    of_queues = resources(template, "AWS::SQS::QueuePolicy")
    [keeping] = [
        name for name, policy in of_queues.items() if "events.amazonaws.com" in json.dumps(policy)
    ]
    admitting = {keeping, *resources(template, "AWS::Lambda::Permission")}
    for rule in resources(template, "AWS::Events::Rule"):
        assert set(template["Resources"][rule]["DependsOn"]) == admitting


def test_event_rules_need_the_bridges_sends_but_no_role_for_schedules(
    app: App, template: Mapping[str, Any]
) -> None:
    assert set(statements(template, "JobsBridge")) == {"lambda.amazonaws.com"}
    assert statements(template, "JobsSchedules") == {}
    reached = {
        name_of(template, resource)
        for statement in statements(template, "JobsBridge")["lambda.amazonaws.com"]
        if "sqs:GetQueueUrl" in listed(statement["Action"])
        for resource in listed(statement["Resource"])
    }
    assert reached == {app.topology.queue("jobs", Priority.LOW).name}
