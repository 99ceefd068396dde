"""The topic notifies the subscribers, and only senders of alerts may publish to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import aws_cdk as cdk
import pytest

from headgate import App
from headgate.infra.data.alert_topic import Alerts
from headgate.infra.job_system import JobSystem
from tests.infra.conftest import ELSEWHERE, NO_BUNDLING, Params
from tests.infra.templates import Properties, listed, resources, template_of

SERVICES = {"cloudwatch.amazonaws.com", "budgets.amazonaws.com"}


def _app() -> App:
    app = App("shop", stage="test")
    app.define("send-email", Params)
    return app


@pytest.fixture(scope="module")
def template() -> Mapping[str, Any]:
    stack = cdk.Stack()
    addresses = ["oncall@example.com", "cto@example.com"]
    Alerts(
        stack,
        "Alerts",
        topology=_app().topology,
        addresses=addresses,
        tickets_to=["shop-team@example.com"],
    )
    return template_of(stack)


def _services(policy: Mapping[str, Any], action: str) -> dict[str, Properties]:
    """Return the statements that let each AWS service perform an action."""
    return {
        statement["Principal"]["Service"]: statement
        for statement in policy["Statement"]
        if "Service" in statement["Principal"] and action in listed(statement["Action"])
    }


def test_every_address_is_subscribed_to_mails_that_name_app_and_stage(
    template: Mapping[str, Any],
) -> None:
    topics = resources(template, "AWS::SNS::Topic")
    told = resources(template, "AWS::SNS::Subscription").values()
    assert {each["Protocol"] for each in told} == {"email"}
    assert {
        (topics[each["TopicArn"]["Ref"]]["DisplayName"], each["Endpoint"]) for each in told
    } == {
        ("Headgate shop-test", "oncall@example.com"),
        ("Headgate shop-test", "cto@example.com"),
        ("Headgate shop-test tickets", "shop-team@example.com"),
    }


def test_alarms_and_budgets_of_this_account_may_publish_and_use_the_topics_key(
    template: Mapping[str, Any],
) -> None:
    topics = resources(template, "AWS::SNS::TopicPolicy").values()
    [key] = resources(template, "AWS::KMS::Key").values()
    publishing = [_services(topic["PolicyDocument"], "sns:Publish") for topic in topics]
    encrypting = _services(key["KeyPolicy"], "kms:GenerateDataKey*")
    assert len(publishing) == 2
    assert all(each.keys() == encrypting.keys() == SERVICES for each in publishing)
    allowed = [statement for each in publishing for statement in each.values()]
    for statement in (*allowed, *encrypting.values()):
        assert statement["Effect"] == "Allow"
        account = statement["Condition"]["StringEquals"]["aws:SourceAccount"]
        assert account == {"Ref": "AWS::AccountId"}
        assert "ArnLike" in statement["Condition"]


def test_nothing_is_published_without_tls_or_in_plain_text(template: Mapping[str, Any]) -> None:
    [key_id] = resources(template, "AWS::KMS::Key")
    for topic in resources(template, "AWS::SNS::Topic").values():
        assert topic["KmsMasterKeyId"] == {"Fn::GetAtt": [key_id, "Arn"]}
    for policy in resources(template, "AWS::SNS::TopicPolicy").values():
        assert [
            each["Condition"]
            for each in policy["PolicyDocument"]["Statement"]
            if each["Effect"] == "Deny"
        ] == [{"Bool": {"aws:SecureTransport": "false"}}]


def test_a_system_hands_out_its_topic() -> None:
    stack = cdk.Stack(cdk.App(context=NO_BUNDLING), "Own")
    system = JobSystem(stack, "Jobs", app=_app(), deployment=ELSEWHERE)
    handed_out = [stack.resolve(topic.topic_arn) for topic in (system.alerts, system.tickets)]
    assert handed_out == [
        {"Ref": logical_id} for logical_id in resources(template_of(stack), "AWS::SNS::Topic")
    ]
