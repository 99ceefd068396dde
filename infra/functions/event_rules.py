"""The event rules of an app: EventBridge matches, the bridge submits."""

from __future__ import annotations

from aws_cdk import Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct, IDependable

from headgate.infra.data.encryption import let_events_use
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.event_rules.event_rule import (
    EventRule,
    event_input,
    rule_name,
    rule_names,
)

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
        if app.event_rules:
            admitted = self._let_in()
            for rule in app.event_rules.values():
                self._add(rule).node.add_dependency(*admitted)

    def _add(self, rule: EventRule) -> events.CfnRule:
        return events.CfnRule(
            self,
            rule.name,
            name=rule_name(self._app.topology, rule),
            description=f"Submits {rule.type.name} jobs to {rule.type.queue}/{rule.type.priority}",
            event_bus_name=rule.bus if rule.bus != _DEFAULT_BUS else None,
            event_pattern=rule.pattern,
            targets=[self._target(rule)],
        )

    def _let_in(self) -> list[IDependable]:
        """Let the rules invoke the bridge, and put undeliverable events into the queue.

        Lambda's and SQS's own policies admit them: a rule assumes no role for these targets. Each
        bus is one pattern there, however many rules it has, since a function's policy may have
        20,480 bytes, which the permissions of 42 rules exceed, and a queue's 8,192, 20 statements
        and 10 conditions. Lambda compares the ARN of a permission as ``ArnLike`` does. What is
        returned has to exist before the rules do.
        https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-use-resource-based.html
        https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
        https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-policies.html
        """
        invoking = Construct(self, "Invoking")  # no rule's name has capitals
        buses = dict.fromkeys(rule.bus for rule in self._app.event_rules.values())
        admitted = {bus: self._rules_on(bus) for bus in buses}
        for bus, rules in admitted.items():
            lambda_.CfnPermission(
                invoking,
                bus,
                action="lambda:InvokeFunction",
                function_name=self._bridge.function_arn,
                principal=_EVENTS,
                source_arn=rules,
            )
        keeping = self._failed.add_to_resource_policy(
            iam.PolicyStatement(
                actions=["sqs:SendMessage"],
                resources=[self._failed.queue_arn],
                principals=[iam.ServicePrincipal(_EVENTS)],
                conditions={"ArnLike": {"aws:SourceArn": list(admitted.values())}},
            )
        )
        if self._failed.encryption_master_key is not None:
            let_events_use(self._failed.encryption_master_key, self)
        policy = keeping.policy_dependable
        return [invoking, *([policy] if policy is not None else [])]

    def _rules_on(self, bus: str) -> str:
        """Return the pattern of the ARNs of this stage's rules on a bus.

        It names the bus's account, which may be another if the bus is given by its ARN.
        https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazoneventbridge.html
        """
        stack = Stack.of(self)
        place = f"arn:{stack.partition}:events:{stack.region}:{stack.account}"
        if bus.startswith("arn:"):
            place, _, bus = bus.partition(":event-bus/")
        within = "" if bus == _DEFAULT_BUS else f"{bus}/"
        return f"{place}:rule/{within}{rule_names(self._app.topology)}"

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
