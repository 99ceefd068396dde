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


def test_only_these_rules_may_invoke_the_bridge_and_fill_the_dead_letter_queue(
    template: Mapping[str, Any],
) -> None:
    of_rules = [{"Fn::GetAtt": [each, "Arn"]} for each in resources(template, "AWS::Events::Rule")]
    permissions = resources(template, "AWS::Lambda::Permission").values()
    assert [each["SourceArn"] for each in permissions] == of_rules
    assert {each["Principal"] for each in permissions} == {"events.amazonaws.com"}
    allowed = [
        statement["Condition"]["ArnEquals"]["aws:SourceArn"]
        for policy in resources(template, "AWS::SQS::QueuePolicy").values()
        for statement in policy["PolicyDocument"]["Statement"]
        if statement["Effect"] == "Allow"
    ]
    assert allowed == [of_rules], "one statement: a queue's policy takes 10 conditions in all"


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
