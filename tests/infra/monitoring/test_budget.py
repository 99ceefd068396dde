"""The budget's alert about an expensive month."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from headgate import App
from headgate.jobs.deployment.alarms.thresholds import Thresholds
from headgate.jobs.deployment.cdk_context import parse_deployment
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.errors import ConfigurationError
from tests.infra.conftest import ELSEWHERE
from tests.infra.templates import resources, synthesized


def budgets(app: App, **deployment: Any) -> list[Mapping[str, Any]]:
    template = synthesized(app, replace(ELSEWHERE, **deployment))
    return list(resources(template, "AWS::Budgets::Budget").values())


def test_by_default_the_budget_alerts_at_150_dollars_for_the_account(
    template: Mapping[str, Any],
) -> None:
    [topic] = resources(template, "AWS::SNS::Topic", "JobsAlertsTickets")
    [budget] = resources(template, "AWS::Budgets::Budget").values()

    assert budget["Budget"] == {
        "BudgetLimit": {"Amount": Deployment().budget_usd, "Unit": "USD"},
        "BudgetType": "COST",
        "TimeUnit": "MONTHLY",
    }
    told = {
        each["Notification"]["NotificationType"]: each
        for each in budget["NotificationsWithSubscribers"]
    }
    assert told.keys() == {"ACTUAL", "FORECASTED"}
    for each in told.values():
        assert each["Subscribers"] == [{"Address": {"Ref": topic}, "SubscriptionType": "SNS"}]
        assert each["Notification"]["Threshold"] == 100
        assert each["Notification"]["ThresholdType"] == "PERCENTAGE"


def test_the_topic_lets_budgets_publish_before_there_is_a_budget(
    template: Mapping[str, Any],
) -> None:
    [budget] = [
        each for each in template["Resources"].values() if each["Type"] == "AWS::Budgets::Budget"
    ]
    [policy] = resources(template, "AWS::SNS::TopicPolicy", "JobsAlertsTickets")
    assert policy in budget["DependsOn"]


def test_the_app_s_own_costs_are_those_with_its_tag(app: App) -> None:
    [budget] = budgets(app, budget_usd=20, budget_of="app")

    assert budget["Budget"]["CostFilters"] == {"TagKeyValue": ["user:headgate:app$shop"]}
    assert budget["Budget"]["BudgetLimit"]["Amount"] == 20


def test_a_stage_s_own_costs_are_those_with_a_tag_of_its_own(app: App) -> None:
    template = synthesized(app, replace(ELSEWHERE, budget_of="stage"))
    [budget] = resources(template, "AWS::Budgets::Budget").values()
    assert budget["Budget"]["CostFilters"] == {"TagKeyValue": ["user:headgate:system$shop-test"]}
    for queue in resources(template, "AWS::SQS::Queue").values():
        assert {"Key": "headgate:system", "Value": "shop-test"} in queue["Tags"]


def test_a_budget_of_nothing_is_none(app: App) -> None:
    assert budgets(app, budget_usd=0) == []


def test_costs_are_the_account_s_or_the_app_s() -> None:
    with pytest.raises(ConfigurationError, match="budget_of"):
        parse_deployment({"budget_of": "team"})
    assert parse_deployment({"budget_of": "app"}).budget_of == "app"
    assert parse_deployment({"alarms": {"depth": 9}}).alarms == Thresholds(depth=9)
