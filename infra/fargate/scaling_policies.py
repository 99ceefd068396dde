"""Scaling policies and alarms, made from the formulas of `infra.fargate.scaling_formulas`."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_applicationautoscaling as autoscaling
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ecs as ecs
from constructs import Construct

from headgate.infra.fargate.scaling_formulas import PERIOD_S, Formula, loads, overdue, wakes
from headgate.infra.monitoring.metrics import running_tasks
from headgate.jobs.core.topology import QueueSpec
from headgate.jobs.deployment.groups import WorkerGroup

_START_S = 120
"""Time until a task has started and shows in the metrics; growth pauses for that long."""

_FIRST_S = 300
"""The same for the first task, plus the minutes that its alarm looks back."""

_LINGER_S = 300
"""Pause between two steps down: a lull may be over within minutes."""

_PATIENCE = 3
"""Consecutive minutes before a group grows on an alarm.

One would not do for the first task: ECS's metrics of the latest minute may not have arrived yet
when SQS's have, and a group at work then looks as if no task ran.
"""

_MEND = "rate(10 minutes)"

_LEAST_TO_MEND = 2

_GROWTH_PERCENT = 20

_Policy = autoscaling.CfnScalingPolicy


class Scaling(Construct):
    """The number of tasks of a service.

    Target tracking has no L2 construct for metric math, so its policies are L1. It never scales up
    from zero tasks and doesn't act without data: hence the step from zero.
    https://docs.aws.amazon.com/AmazonECS/latest/developerguide/service-autoscaling-targettracking.html

    Args:
        group: the worker group.
        queues: the queues that it serves.
        service: its service.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        group: WorkerGroup,
        queues: Sequence[QueueSpec],
        service: ecs.FargateService,
    ) -> None:
        super().__init__(scope, construct_id)
        self._service = service
        self._target = autoscaling.CfnScalableTarget(
            self,
            "Tasks",
            service_namespace="ecs",
            scalable_dimension="ecs:service:DesiredCount",
            resource_id=f"service/{service.cluster.cluster_name}/{service.service_name}",
            min_capacity=group.min_tasks,
            max_capacity=group.max_tasks,
            scheduled_actions=self._mending(group),
        )
        running = running_tasks(service.cluster.cluster_name, service.service_name)
        for number, formula in enumerate(loads(group, queues, running), start=1):
            self._track(f"Load{number}", formula)
        growth = self._step(
            "Growth", "PercentChangeInCapacity", _GROWTH_PERCENT, min_adjustment_magnitude=1
        )
        self._on("Overdue", overdue(queues), growth)
        if group.min_tasks == 0:
            # One more, not exactly one: if the alarm were ever wrong, that would stop all others.
            first = self._step("First", "ChangeInCapacity", 1, cooldown_s=_FIRST_S)
            self._on("Waiting", wakes(queues, running), first)

    def _mending(
        self, group: WorkerGroup
    ) -> list[autoscaling.CfnScalableTarget.ScheduledActionProperty] | None:
        """Return the scheduled action that raises a service to its minimum.

        CloudFormation creates a service with one task, and policies enforce the minimum only when
        the service scales out.

        https://docs.aws.amazon.com/AmazonECS/latest/developerguide/service-auto-scaling.html
        https://docs.aws.amazon.com/autoscaling/application/APIReference/API_PutScheduledAction.html
        """
        if group.min_tasks < _LEAST_TO_MEND:
            return None
        least = autoscaling.CfnScalableTarget.ScalableTargetActionProperty(
            min_capacity=group.min_tasks
        )
        return [
            autoscaling.CfnScalableTarget.ScheduledActionProperty(
                schedule=_MEND, scheduled_action_name="Least", scalable_target_action=least
            )
        ]

    def _track(self, construct_id: str, formula: Formula) -> None:
        queries = [
            _Policy.TargetTrackingMetricDataQueryProperty(
                id=variable,
                metric_stat=_Policy.TargetTrackingMetricStatProperty(
                    metric=_Policy.TargetTrackingMetricProperty(
                        namespace=metric.namespace,
                        metric_name=metric.name,
                        dimensions=[
                            _Policy.TargetTrackingMetricDimensionProperty(name=name, value=value)
                            for name, value in metric.dimensions.items()
                        ],
                    ),
                    stat=metric.statistic,
                ),
                return_data=False,
            )
            for variable, metric in formula.metrics.items()
        ]
        result = _Policy.TargetTrackingMetricDataQueryProperty(
            id="load", expression=formula.expression, return_data=True
        )
        _Policy(
            self,
            construct_id,
            policy_name=construct_id,
            policy_type="TargetTrackingScaling",
            scaling_target_id=self._target.ref,
            target_tracking_scaling_policy_configuration=(
                _Policy.TargetTrackingScalingPolicyConfigurationProperty(
                    target_value=formula.target,
                    scale_out_cooldown=_START_S,
                    scale_in_cooldown=_LINGER_S,
                    customized_metric_specification=(
                        _Policy.CustomizedMetricSpecificationProperty(metrics=[*queries, result])
                    ),
                )
            ),
        )

    def _step(
        self,
        construct_id: str,
        kind: str,
        adjustment: int,
        *,
        min_adjustment_magnitude: int | None = None,
        cooldown_s: int = _START_S,
    ) -> autoscaling.CfnScalingPolicy:
        return _Policy(
            self,
            construct_id,
            policy_name=construct_id,
            policy_type="StepScaling",
            scaling_target_id=self._target.ref,
            step_scaling_policy_configuration=_Policy.StepScalingPolicyConfigurationProperty(
                adjustment_type=kind,
                cooldown=cooldown_s,
                metric_aggregation_type="Maximum",
                min_adjustment_magnitude=min_adjustment_magnitude,
                step_adjustments=[
                    _Policy.StepAdjustmentProperty(
                        metric_interval_lower_bound=0, scaling_adjustment=adjustment
                    )
                ],
            ),
        )

    def _on(
        self,
        construct_id: str,
        formulas: Sequence[Formula],
        policy: autoscaling.CfnScalingPolicy,
    ) -> None:
        """Apply the policy once one of the formulas has been at its target for long enough."""
        for number, formula in enumerate(formulas, start=1):
            cloudwatch.CfnAlarm(
                self,
                f"{construct_id}{number}",
                alarm_description=f"{self._service.node.path}: {construct_id.lower()}; it scales",
                comparison_operator="GreaterThanOrEqualToThreshold",
                threshold=formula.target,
                evaluation_periods=_PATIENCE,
                treat_missing_data="notBreaching",
                metrics=self._queries(formula),
                alarm_actions=[policy.ref],
            )

    def _queries(self, formula: Formula) -> list[cloudwatch.CfnAlarm.MetricDataQueryProperty]:
        queries = [
            cloudwatch.CfnAlarm.MetricDataQueryProperty(
                id=variable,
                metric_stat=cloudwatch.CfnAlarm.MetricStatProperty(
                    metric=cloudwatch.CfnAlarm.MetricProperty(
                        namespace=metric.namespace,
                        metric_name=metric.name,
                        dimensions=[
                            cloudwatch.CfnAlarm.DimensionProperty(name=name, value=value)
                            for name, value in metric.dimensions.items()
                        ],
                    ),
                    period=PERIOD_S,
                    stat=metric.statistic,
                ),
                return_data=False,
            )
            for variable, metric in formula.metrics.items()
        ]
        result = cloudwatch.CfnAlarm.MetricDataQueryProperty(
            id="result", expression=formula.expression, return_data=True
        )
        return [*queries, result]
