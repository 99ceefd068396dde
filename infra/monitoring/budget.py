"""A budget: notifications when a month costs more than planned, or is about to."""

from __future__ import annotations

from typing import Any, Literal

from aws_cdk import aws_budgets as budgets
from aws_cdk import aws_sns as sns
from constructs import Construct

from headgate.jobs.aws.descriptions import APP_TAG
from headgate.jobs.core.topology import Topology
from headgate.jobs.deployment.metric_names import service_name

SYSTEM_TAG = "headgate:system"
"""The tag of a stage's resources, if its budget counts them: the app's name with the stage's."""


class MonthlyBudget(Construct):
    """A monthly budget, which notifies the topic once the costs or their forecast exceed it.

    It counts the costs of the whole account, or of everything with the app's tag. The latter is not
    all that the app costs: CloudWatch's metrics and data transfer carry no tags. And it is zero
    until the paying account activates the tag for cost allocation; so it is not the default.
    https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/activating-tags.html

    CloudFormation names it. It replaces a budget whose notifications change, and with a name of
    ours that would fail: the new one is created while the old one still has the name. So its name
    changes with them, while its amount and its scope change in place.
    https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-resource-budgets-budget.html
    https://github.com/aws-cloudformation/cloudformation-coverage-roadmap/issues/365

    Args:
        topology: the app's topology.
        usd: the limit for a month.
        of: the scope of the costs; those of a stage have a tag of their own.
        topic: the topic to notify; Budgets has to be allowed to publish to it.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        topology: Topology,
        usd: int,
        of: Literal["account", "app", "stage"],
        topic: sns.ITopic,
    ) -> None:
        super().__init__(scope, construct_id)
        filters: dict[str, Any] = {}
        if of != "account":
            system = service_name(topology.app, topology.stage)
            tag = f"{APP_TAG}${topology.app}" if of == "app" else f"{SYSTEM_TAG}${system}"
            # https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-properties-budgets-budget-budgetdata.html
            filters = {"cost_filters": {"TagKeyValue": [f"user:{tag}"]}}
        self.budget = budgets.CfnBudget(
            self,
            "Budget",
            budget=budgets.CfnBudget.BudgetDataProperty(
                budget_type="COST",
                time_unit="MONTHLY",
                budget_limit=budgets.CfnBudget.SpendProperty(amount=usd, unit="USD"),
                **filters,
            ),
            notifications_with_subscribers=[
                _notification("ACTUAL", topic),
                _notification("FORECASTED", topic),
            ],
        )
        # On its policy too: Budgets refuses a topic that it can't publish to yet.
        # https://docs.aws.amazon.com/cost-management/latest/userguide/budgets-sns-policy.html
        self.budget.node.add_dependency(topic)


def _notification(
    kind: Literal["ACTUAL", "FORECASTED"], topic: sns.ITopic
) -> budgets.CfnBudget.NotificationWithSubscribersProperty:
    return budgets.CfnBudget.NotificationWithSubscribersProperty(
        notification=budgets.CfnBudget.NotificationProperty(
            notification_type=kind,
            comparison_operator="GREATER_THAN",
            threshold=100,
            threshold_type="PERCENTAGE",
        ),
        subscribers=[
            budgets.CfnBudget.SubscriberProperty(subscription_type="SNS", address=topic.topic_arn)
        ],
    )
