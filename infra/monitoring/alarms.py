"""CloudWatch alarms, made from the rules of `infra.monitoring.alarm_rules`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import Duration, NestedStack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from constructs import Construct

from headgate.infra.monitoring.cdk_metrics import as_expression, as_metric
from headgate.infra.monitoring.rule import Rule


class Alarms(Construct):
    """One alarm for each rule; all notify the topic of tickets when they go off.

    Those of a queue group that the deployment names as nested are in a stack of their own, since
    one stack has 500 resources at most. They hold no data, so they alone may move there.
    https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html

    Args:
        rules: the alarms.
        service: the prefix of all their names.
        topic: the topic to notify.
        recoveries: whether it is also told when they are over.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        rules: Sequence[Rule],
        service: str,
        topic: sns.ITopic,
        recoveries: bool,
    ) -> None:
        super().__init__(scope, construct_id)
        self._service = service
        groups = dict.fromkeys(rule.nested for rule in rules if rule.nested is not None)
        self._stacks: Mapping[str | None, Construct] = {None: self} | {
            group: NestedStack(self, f"Of-{group}", description=f"Alarms of {service}'s {group}")
            for group in groups
        }
        self.by_name: Mapping[str, cloudwatch.Alarm] = {
            rule.name: self._alarm(rule) for rule in rules
        }
        """The alarms, by their rules' names."""
        for alarm in self.by_name.values():
            alarm.add_alarm_action(actions.SnsAction(topic))
            if recoveries:
                alarm.add_ok_action(actions.SnsAction(topic))

    def _alarm(self, rule: Rule) -> cloudwatch.Alarm:
        compared = cloudwatch.ComparisonOperator
        return cloudwatch.Alarm(
            self._stacks[rule.nested],
            rule.name,
            alarm_name=rule.alarm_name(self._service),
            alarm_description=rule.description,
            metric=watched(rule),
            threshold=rule.threshold,
            comparison_operator=(
                compared.GREATER_THAN_OR_EQUAL_TO_THRESHOLD
                if rule.at
                else compared.GREATER_THAN_THRESHOLD
            ),
            evaluation_periods=rule.periods,
            datapoints_to_alarm=rule.points,
            treat_missing_data=(
                cloudwatch.TreatMissingData.BREACHING
                if rule.silence_alarms
                else cloudwatch.TreatMissingData.NOT_BREACHING
            ),
        )


def watched(rule: Rule) -> cloudwatch.IMetric:
    """Return a rule's metric or expression, as CDK takes it."""
    period = Duration.seconds(rule.period_s)
    if rule.expression is None:
        [series] = rule.metrics.values()
        return as_metric(series, period=period)
    return as_expression(rule.expression, rule.metrics, label=rule.name, period=period)
