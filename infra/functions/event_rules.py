"""The event rules of an app: EventBridge matches, the bridge submits."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from headgate.infra.data.encryption import let_events_use
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.event_rules.event_rule import EventRule, event_input, rule_name

# With a day, EventBridge's maximum.
# https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_RetryPolicy.html
_RETRIES = 185
_KEEP_TRYING_S = 86_400

_EVENTS = "events.amazonaws.com"
_DEFAULT_BUS = "default"


class EventRules(Construct):
    """One rule for each `App.event_rule`, on an existing bus.

    Args:
        app: the app with the rules.
        bridge: the function that they invoke.
        failed: a standard queue for events that Lambda did not accept.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        app: App,
        bridge: lambda_.IFunction,
        failed: sqs.Queue,
    ) -> None:
        super().__init__(scope, construct_id)
        self._app = app
        self._bridge = bridge
        self._failed = failed
        made = [self._add(rule) for rule in app.event_rules.values()]
        if made:
            self._let_keep(made)
        if made and failed.encryption_master_key is not None:
            let_events_use(failed.encryption_master_key, self)

    def _add(self, rule: EventRule) -> events.CfnRule:
        made = events.CfnRule(
            self,
            rule.name,
            name=rule_name(self._app.topology, rule),
            description=f"Submits {rule.type.name} jobs to {rule.type.queue}/{rule.type.priority}",
            event_bus_name=rule.bus if rule.bus != _DEFAULT_BUS else None,
            event_pattern=rule.pattern,
            targets=[self._target(rule)],
        )
        lambda_.CfnPermission(
            self,
            f"{rule.name}-invokes",
            action="lambda:InvokeFunction",
            function_name=self._bridge.function_arn,
            principal=_EVENTS,
            source_account=Stack.of(self).account,
            source_arn=made.attr_arn,
        )
        return made

    def _let_keep(self, rules: Sequence[events.CfnRule]) -> None:
        """Let the rules put undeliverable events into the queue.

        Lambda's and SQS's own policies admit them: a rule assumes no role for these targets. All
        share one statement, since a queue's policy may have 20 of them, and 10 conditions.
        https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-use-resource-based.html
        https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-policies.html
        """
        self._failed.add_to_resource_policy(
            iam.PolicyStatement(
                actions=["sqs:SendMessage"],
                resources=[self._failed.queue_arn],
                principals=[iam.ServicePrincipal(_EVENTS)],
                conditions={"ArnEquals": {"aws:SourceArn": [rule.attr_arn for rule in rules]}},
            )
        )

    def _target(self, rule: EventRule) -> events.CfnRule.TargetProperty:
        return events.CfnRule.TargetProperty(
            id="bridge",
            arn=self._bridge.function_arn,
            input_transformer=events.CfnRule.InputTransformerProperty(
                input_template=event_input(self._app.topology, rule)
            ),
            retry_policy=events.CfnRule.RetryPolicyProperty(
                maximum_retry_attempts=_RETRIES, maximum_event_age_in_seconds=_KEEP_TRYING_S
            ),
            dead_letter_config=events.CfnRule.DeadLetterConfigProperty(arn=self._failed.queue_arn),
        )
