"""Scaling policies and alarms, made from the formulas of `infra.fargate.scaling_formulas`."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_applicationautoscaling as autoscaling
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ecs as ecs
from constructs import Construct

from headgate.infra.fargate.scaling_formulas import (
    FIRST_S,
    GROWTH_PERCENT,
    LINGER_S,
    LOAD,
    PATIENCE,
    START_S,
    Formula,
    TaskCounts,
    load,
    overdue,
    wake,
)
from headgate.infra.monitoring.metrics import running_tasks, tasks_busy, tasks_wanted
from headgate.jobs.core.topology import Topology
from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from headgate.jobs.deployment.scaling.backlog import PERIOD_S

_MEND = "rate(10 minutes)"

_LEAST_TO_MEND = 2

_RESULT = "load"

_Policy = autoscaling.CfnScalingPolicy


class Scaling(Construct):
    """The number of tasks of a service.

    Target tracking has no L2 construct for metric math, so its policies are L1. It never scales up
    from zero tasks and doesn't act without data: hence the step from zero.
    https://docs.aws.amazon.com/AmazonECS/latest/developerguide/service-autoscaling-targettracking.html

    Args:
        group: the worker group.
        topology: the app's queues.
        service: its service.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        group: WorkerGroup,
        topology: Topology,
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
        queues = group.selection.of(topology)
        counts = TaskCounts(
            running=running_tasks(service.cluster.cluster_name, service.service_name),
            wanted=tasks_wanted(topology, group.name),
            busy=tasks_busy(topology, group.name),
        )
        self._track("Load1", load(group, queues, counts))
        growth = self._step(
            "Growth", "PercentChangeInCapacity", GROWTH_PERCENT, min_adjustment_magnitude=1
        )
        self._on("Overdue", overdue(queues), growth)
        if group.min_tasks == 0:
            # One more, not exactly one: if the alarm were ever wrong, that would stop all others.
            first = self._step("First", "ChangeInCapacity", 1, cooldown_s=FIRST_S)
            self._on("Waiting", [wake(queues, counts)], first)

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
        expressions = [
            _Policy.TargetTrackingMetricDataQueryProperty(
                id=variable, expression=expression, return_data=variable == _RESULT
            )
            for variable, expression in {**formula.parts, _RESULT: formula.expression}.items()
        ]
        _Policy(
            self,
            construct_id,
            policy_name=construct_id,
            policy_type="TargetTrackingScaling",
            scaling_target_id=self._target.ref,
            target_tracking_scaling_policy_configuration=(
                _Policy.TargetTrackingScalingPolicyConfigurationProperty(
                    target_value=LOAD,
                    scale_out_cooldown=START_S,
                    scale_in_cooldown=LINGER_S,
                    customized_metric_specification=(
                        _Policy.CustomizedMetricSpecificationProperty(
                            metrics=[*queries, *expressions]
                        )
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
        cooldown_s: int = START_S,
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
                threshold=LOAD,
                evaluation_periods=PATIENCE,
                treat_missing_data="notBreaching",
                metrics=self._queries(formula),
                alarm_actions=[policy.ref],
            )

    def _queries(self, formula: Formula) -> list[cloudwatch.CfnAlarm.MetricDataQueryProperty]:
        queries = [
            cloudwatch.CfnAlarm.MetricDataQueryProperty(
                id=variable,
                account_id=metric.account,
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
