"""The dashboard of an app, for who is on call: read from the top, it narrows down what is wrong."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ecs as ecs
from constructs import Construct

from infra import series
from infra.queue_rules import label, start_within_s
from infra.rules import filled
from infra.series import Series, of_function, of_lane, of_queue, of_schedules, of_service, of_table
from jobs.metric_names import (
    COMPLETED,
    COUNTED,
    DURATION,
    FAILED,
    NAMESPACE,
    OF_TYPE,
    SERVICE,
    WAIT,
    service_name,
)
from jobs.topology import Priority, QueueSpec, Topology

WIDTH = 24
"""Of a dashboard's grid.
https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/CloudWatch-Dashboard-Body-Structure.html"""

_HEIGHT = 6
_ALARMS_A_ROW = 6
_SEARCHED_S = 300

Row = list[cloudwatch.IWidget]


class Dashboard(Construct):
    """One dashboard; an account's first three are free.

    Args:
        topology: whose queues it shows.
        alarms: stand on top.
        services: the workers' services, by their groups' names.
        functions: the app's functions, by what they are called: their names on AWS.
        schedules: whether there is a group of schedules.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        topology: Topology,
        alarms: Sequence[cloudwatch.Alarm],
        services: Mapping[str, ecs.FargateService],
        functions: Mapping[str, str],
        schedules: bool,
    ) -> None:
        super().__init__(scope, construct_id)
        self._topology = topology
        self._service = service_name(topology.app, topology.stage)
        self.dashboard = cloudwatch.Dashboard(
            self,
            "Dashboard",
            dashboard_name=self._service,
            default_interval=Duration.hours(3),
            widgets=[
                [_title(self._service)],
                [_status(alarms)],
                _row(self._start(priority) for priority in self._priorities),
                _row(self._waiting(priority) for priority in self._priorities),
                _row([self._failing(), self._dead(), self._failed_types()]),
                _row([self._outcomes(), self._done(), self._durations()]),
                _row(self._workers(services, functions)),
                _row(self._costs(schedules)),
            ],
        )

    @property
    def _priorities(self) -> Iterator[Priority]:
        used = {spec.priority for spec in self._topology.queues}
        return (priority for priority in Priority if priority in used)

    def _of(self, priority: Priority) -> list[QueueSpec]:
        return [spec for spec in self._topology.queues if spec.priority == priority]

    def _start(self, priority: Priority) -> dict[str, Any]:
        targets = sorted({start_within_s(spec) for spec in self._of(priority)})
        return {
            "title": f"{priority}: wait before the first start, p99",
            "left": [
                of_lane(self._topology, spec, WAIT, "p99").metric(label=spec.group)
                for spec in self._of(priority)
            ],
            "left_annotations": [
                cloudwatch.HorizontalAnnotation(value=target, label=f"within {target} s")
                for target in targets
            ],
            "left_y_axis": _axis("s"),
        }

    def _waiting(self, priority: Priority) -> dict[str, Any]:
        specs = self._of(priority)
        return {
            "title": f"{priority}: jobs waiting; age of the oldest",
            "left": [
                of_queue(spec.name, series.VISIBLE, "Maximum").metric(label=spec.group)
                for spec in specs
            ],
            "left_y_axis": _axis("jobs"),
            "right": [
                of_queue(spec.name, series.OLDEST, "Maximum").metric(label=f"{spec.group} oldest")
                for spec in specs
            ],
            "right_y_axis": _axis("s"),
        }

    def _failing(self) -> dict[str, Any]:
        return {
            "title": "Runs that failed, by queue",
            "left": [
                self._failed_percent(place, spec)
                for place, spec in enumerate(self._topology.queues)
            ],
            "left_y_axis": _axis("%"),
        }

    def _failed_percent(self, place: int, spec: QueueSpec) -> cloudwatch.MathExpression:
        failed, completed = f"failed{place}", f"completed{place}"
        return cloudwatch.MathExpression(
            expression=f"100 * {filled(failed)} / ({filled(failed)} + {filled(completed)})",
            using_metrics={
                failed: of_lane(self._topology, spec, FAILED, "Sum").metric(),
                completed: of_lane(self._topology, spec, COMPLETED, "Sum").metric(),
            },
            label=label(spec),
        )

    def _dead(self) -> dict[str, Any]:
        queues = {f"{label(spec)}-dlq": spec.dlq_name for spec in self._topology.queues}
        queues["quarantine"] = self._topology.quarantine_name
        return {
            "title": "Dead letters and quarantine",
            "left": _of_queues(queues, series.VISIBLE, "Maximum"),
            "left_y_axis": _axis("jobs"),
        }

    def _failed_types(self) -> dict[str, Any]:
        return {
            "title": "Failed runs, by type",
            "left": [self._by_type(FAILED, "Sum")],
            "left_y_axis": _axis("runs"),
        }

    def _outcomes(self) -> dict[str, Any]:
        return {
            "title": "What became of runs",
            "left": [
                _expression(f"SUM({self._searched(name, 'Sum')})", name)
                for name in COUNTED.values()
            ],
            "stacked": True,
            "left_y_axis": _axis("runs"),
        }

    def _done(self) -> dict[str, Any]:
        return {
            "title": "Jobs completed, by type",
            "left": [self._by_type(COMPLETED, "Sum")],
            "left_y_axis": _axis("jobs"),
        }

    def _durations(self) -> dict[str, Any]:
        return {
            "title": "How long handlers ran, by type, p95",
            "left": [self._by_type(DURATION, "p95")],
            "left_y_axis": _axis("s"),
        }

    def _workers(
        self, services: Mapping[str, ecs.FargateService], functions: Mapping[str, str]
    ) -> Iterator[dict[str, Any]]:
        queues = {label(spec): spec.name for spec in self._topology.queues}
        yield {
            "title": "Jobs received, by queue: somebody works",
            "left": _of_queues(queues, series.RECEIVED, "Sum"),
            "left_y_axis": _axis("jobs"),
        }
        if services:
            yield {
                "title": "Worker tasks; CPU and memory",
                "left": _of_services(services, "CPUUtilization", "SampleCount", "tasks"),
                "left_y_axis": _axis("tasks"),
                "right": [
                    *_of_services(services, "CPUUtilization", "Maximum", "CPU"),
                    *_of_services(services, "MemoryUtilization", "Maximum", "memory"),
                ],
                "right_y_axis": _axis("%"),
            }
        if functions:
            yield {
                "title": "Functions: invocations, errors; p99",
                "left": [
                    *_of_functions(functions, "Invocations", "Sum"),
                    *_of_functions(functions, "Errors", "Sum"),
                    *_of_functions(functions, "Throttles", "Sum"),
                ],
                "left_y_axis": _axis("invocations"),
                "right": _of_functions(functions, "Duration", "p99"),
                "right_y_axis": _axis("ms"),
            }

    def _costs(self, schedules: bool) -> Iterator[dict[str, Any]]:
        names = {label(spec): spec.name for spec in self._topology.queues}
        if schedules:
            yield {
                "title": "Schedules",
                "left": [
                    of_schedules(self._topology, name).metric(label=name)
                    for name in (series.ATTEMPTS, series.TARGET_ERRORS, series.DROPPED)
                ],
                "left_y_axis": _axis("firings"),
            }
        yield {
            "title": "SQS: jobs sent; empty receives, each a request",
            "left": _of_queues(names, series.SENT, "Sum"),
            "left_y_axis": _axis("jobs"),
            "right": [_total(names, series.EMPTY)],
            "right_y_axis": _axis("requests"),
        }
        table = self._topology.table_name
        yield {
            "title": "Records: units of DynamoDB",
            "left": [
                of_table(table, name).metric(label=name)
                for name in ("ConsumedWriteCapacityUnits", "ConsumedReadCapacityUnits")
            ],
            "left_y_axis": _axis("units"),
        }

    def _by_type(self, metric: str, statistic: str) -> cloudwatch.MathExpression:
        return _expression(self._searched(metric, statistic), "")

    def _searched(self, metric: str, statistic: str) -> str:
        """All types at once, those that are declared later too.

        https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/search-expression-syntax.html
        """
        schema = ",".join((NAMESPACE, *sorted(OF_TYPE)))
        what = f'{{{schema}}} MetricName="{metric}" {SERVICE}="{self._service}"'
        return f"SEARCH('{what}', '{statistic}', {_SEARCHED_S})"


def _title(service: str) -> cloudwatch.TextWidget:
    return cloudwatch.TextWidget(
        markdown=f"# {service}\nFrom the top: a red alarm says what it means and what to do first. "
        "Below: does work start in time, does it fail, is it done, by whom, at what cost.",
        width=WIDTH,
        height=2,
    )


def _status(alarms: Sequence[cloudwatch.Alarm]) -> cloudwatch.AlarmStatusWidget:
    return cloudwatch.AlarmStatusWidget(
        title="Alarms",
        alarms=alarms,
        sort_by=cloudwatch.AlarmStatusWidgetSortBy.STATE_UPDATED_TIMESTAMP,
        width=WIDTH,
        height=1 + math.ceil(len(alarms) / _ALARMS_A_ROW),
    )


def _row(graphs: Iterable[dict[str, Any]]) -> Row:
    """Graphs side by side, as wide as the dashboard together."""
    each = list(graphs)
    width = WIDTH // len(each)
    widths = [width] * (len(each) - 1) + [WIDTH - width * (len(each) - 1)]
    return [
        cloudwatch.GraphWidget(width=width, height=_HEIGHT, **graph)
        for width, graph in zip(widths, each, strict=True)
    ]


def _axis(unit: str) -> cloudwatch.YAxisProps:
    return cloudwatch.YAxisProps(min=0, label=unit, show_units=False)


def _expression(
    expression: str, name: str, metrics: Mapping[str, Series] | None = None
) -> cloudwatch.MathExpression:
    return cloudwatch.MathExpression(
        expression=expression,
        using_metrics={each: one.metric() for each, one in (metrics or {}).items()},
        label=name,
        period=Duration.seconds(60),
    )


def _total(queues: Mapping[str, str], metric: str) -> cloudwatch.MathExpression:
    metrics = {
        f"e{place}": of_queue(name, metric, "Sum") for place, name in enumerate(queues.values())
    }
    return _expression(f"SUM([{', '.join(map(filled, metrics))}])", "empty receives", metrics)


def _of_queues(queues: Mapping[str, str], metric: str, statistic: str) -> list[cloudwatch.IMetric]:
    return [of_queue(queue, metric, statistic).metric(label=name) for name, queue in queues.items()]


def _of_functions(
    functions: Mapping[str, str], metric: str, statistic: str
) -> list[cloudwatch.IMetric]:
    return [
        of_function(function, metric, statistic).metric(label=f"{name} {metric.lower()}")
        for name, function in functions.items()
    ]


def _of_services(
    services: Mapping[str, ecs.FargateService], metric: str, statistic: str, what: str
) -> list[cloudwatch.IMetric]:
    """Of each service; how many values of CPU came in a minute is how many tasks run.

    https://docs.aws.amazon.com/AmazonECS/latest/developerguide/cloudwatch-metrics.html
    """
    return [
        of_service(service.cluster.cluster_name, service.service_name, metric, statistic).metric(
            label=f"{name} {what}"
        )
        for name, service in services.items()
    ]
