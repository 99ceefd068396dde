"""The topics of alerts: notifications of dead letters, alarms and exceeded budgets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aws_cdk import ArnFormat, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from headgate.jobs.core.topology import Topology

_CLOUDWATCH = "cloudwatch.amazonaws.com"
_BUDGETS = "budgets.amazonaws.com"


class Alerts(Construct):
    """Two topics, for pages and for tickets, with a subscription for each address.

    Each subscriber has to confirm it once. The topics accept messages over TLS only. They are
    encrypted with a key of their own, since the key that AWS manages for SNS lets neither
    CloudWatch's alarms nor Budgets publish, and its policy is fixed.
    https://docs.aws.amazon.com/sns/latest/dg/sns-key-management.html

    Args:
        topology: the app and stage that its mails name.
        addresses: e-mail addresses for pages.
        tickets_to: e-mail addresses for tickets.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        topology: Topology,
        addresses: Sequence[str],
        tickets_to: Sequence[str],
    ) -> None:
        super().__init__(scope, construct_id)
        app = "-".join(filter(None, (topology.app, topology.stage)))
        self.key = kms.Key(
            self,
            "Key",
            description=f"Alerts of {app}",
            enable_key_rotation=True,
            removal_policy=RemovalPolicy.DESTROY,  # no data is stored under it
        )
        self.topic = self._add("Topic", f"Headgate {app}", addresses)
        """The topic for pages."""
        self.tickets = self._add("Tickets", f"Headgate {app} tickets", tickets_to)
        """The topic for what can wait for working hours, with each alarm's own description."""
        stack = Stack.of(self)
        alarms = stack.format_arn(
            service="cloudwatch",
            resource="alarm",
            resource_name="*",
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )
        budgets = stack.format_arn(service="budgets", region="", resource="*")
        self._let_publish(_CLOUDWATCH, alarms)
        self._let_publish(_BUDGETS, budgets)

    def _add(self, construct_id: str, display_name: str, addresses: Sequence[str]) -> sns.Topic:
        topic = sns.Topic(
            self,
            construct_id,
            display_name=display_name,
            master_key=self.key,
            enforce_ssl=True,
        )
        for address in addresses:
            topic.add_subscription(subscriptions.EmailSubscription(address))
        return topic

    def _let_publish(self, service: str, source: str) -> None:
        """Let a service of AWS's publish on behalf of this account's resources.

        https://docs.aws.amazon.com/cost-management/latest/userguide/budgets-sns-policy.html
        """
        own = {
            "StringEquals": {"aws:SourceAccount": Stack.of(self).account},
            "ArnLike": {"aws:SourceArn": source},
        }
        for topic in (self.topic, self.tickets):
            topic.add_to_resource_policy(_allow(service, ["sns:Publish"], topic.topic_arn, own))
        self.key.add_to_resource_policy(
            _allow(service, ["kms:Decrypt", "kms:GenerateDataKey*"], "*", own)
        )


def _allow(
    service: str, actions: Sequence[str], resource: str, conditions: Mapping[str, Any]
) -> iam.PolicyStatement:
    return iam.PolicyStatement(
        actions=list(actions),
        resources=[resource],  # in a key's policy "*" means that key itself
        principals=[iam.ServicePrincipal(service)],
        conditions=dict(conditions),
    )
