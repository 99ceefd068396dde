"""The alarms of an app, computed from its topology."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from constructs import Construct

from infra import queue_rules, system_rules
from infra.rules import Rule
from jobs.app import App
from jobs.deployment import Deployment


class Alarms(Construct):
    """One alarm for each rule; all tell the topic when they go off, and when that is over.

    Args:
        rules: the alarms.
        service: what all their names begin with.
        topic: is told.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        rules: Sequence[Rule],
        service: str,
        topic: sns.ITopic,
    ) -> None:
        super().__init__(scope, construct_id)
        self._service = service
        self.by_name: Mapping[str, cloudwatch.Alarm] = {
            rule.name: self._alarm(rule) for rule in rules
        }
        """The alarms, by their rules' names."""
        for alarm in self.by_name.values():
            alarm.add_alarm_action(actions.SnsAction(topic))
            alarm.add_ok_action(actions.SnsAction(topic))

    def _alarm(self, rule: Rule) -> cloudwatch.Alarm:
        compared = cloudwatch.ComparisonOperator
        return cloudwatch.Alarm(
            self,
            rule.name,
            alarm_name=f"{self._service}-{rule.name}",
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
    """What a rule watches, as CDK takes it."""
    if rule.expression is None:
        [series] = rule.metrics.values()
        return series.metric(period_s=rule.period_s)
    return cloudwatch.MathExpression(
        expression=rule.expression,
        using_metrics={name: series.metric() for name, series in rule.metrics.items()},
        period=Duration.seconds(rule.period_s),
        label=rule.name,
    )


def rules_for(
    app: App,
    deployment: Deployment,
    *,
    bridge: str | None = None,
    schedules: bool = False,
    functions: Mapping[str, str] | None = None,
) -> Sequence[Rule]:
    """All alarms of an app.

    Args:
        app: whose queues and types they are for.
        deployment: what runs its jobs, and the thresholds.
        bridge: the bridge function's name; None: there is none.
        schedules: whether there is a group of schedules.
        functions: other functions of the app, by what they are called: their names on AWS.
    """
    return tuple(_rules(app, deployment, bridge, schedules, functions or {}))


def _rules(
    app: App,
    deployment: Deployment,
    bridge: str | None,
    schedules: bool,
    functions: Mapping[str, str],
) -> Iterator[Rule]:
    topology, thresholds = app.topology, deployment.alarms
    critical = critical_queues(app)
    for spec in topology.queues:
        yield from queue_rules.rules_of(topology, spec, thresholds, critical=spec.name in critical)
    yield from queue_rules.in_flight(topology.queues, thresholds.in_flight)
    yield from system_rules.idle_hands(topology, deployment)
    yield from system_rules.set_aside(topology, fires=bridge is not None)
    if bridge is not None:
        yield system_rules.bridge(bridge, thresholds.schedules_percent)
    if schedules:
        yield system_rules.schedules(topology, thresholds.schedules_percent)
    for name, function in functions.items():
        yield system_rules.function_errors(name, function)


def critical_queues(app: App) -> frozenset[str]:
    """The queues, by physical name, that jobs of types with ``critical=True`` go to by default."""
    return frozenset(
        app.topology.queue(job.queue, job.priority).name
        for job in app.types.values()
        if job.critical
    )
