"""The graphs of an app's dashboard, each as the arguments of a `GraphWidget`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ecs as ecs

from headgate.infra.monitoring import metrics
from headgate.infra.monitoring.cdk_metrics import as_expression, as_metric
from headgate.infra.monitoring.maths import failed_percent, numbered, total
from headgate.infra.monitoring.metrics import Series
from headgate.infra.monitoring.queue_rules import label, start_within_s
from headgate.jobs.core.topology import Priority, QueueSpec, Topology
from headgate.jobs.deployment.metric_names import (
    COMPLETED,
    COUNTED,
    DURATION,
    FAILED,
    NAMESPACE,
    OF_TYPE,
    SERVICE,
    TYPE,
    service_name,
)

_SEARCHED_S = 300

_TYPE_LABEL = f"${{PROP('Dim.{TYPE}')}}"
"""https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/graph-dynamic-labels.html"""

Graph = dict[str, Any]


class Graphs:
    """The graphs of an app.

    Args:
        topology: the topology with the queues.
    """

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._service = service_name(topology.app, topology.stage)

    @property
    def priorities(self) -> Iterator[Priority]:
        """The app's priorities, the most urgent first."""
        used = {spec.priority for spec in self._topology.queues}
        return (priority for priority in Priority if priority in used)

    def _of(self, priority: Priority) -> list[QueueSpec]:
        return [spec for spec in self._topology.queues if spec.priority == priority]

    def start(self, priority: Priority) -> Graph:
        """Return the jobs' wait for their start, with the time that they may wait."""
        targets = sorted({start_within_s(spec) for spec in self._of(priority)})
        return {
            "title": f"{priority}: p99 wait to start",
            "left": [
                as_metric(metrics.wait(self._topology, spec), label=spec.group)
                for spec in self._of(priority)
            ],
            "left_annotations": [
                cloudwatch.HorizontalAnnotation(value=target, label=f"within {target} s")
                for target in targets
            ],
            "left_y_axis": _axis("s"),
        }

    def waiting(self, priority: Priority) -> Graph:
        """Return the number of waiting jobs, and the age of the oldest."""
        specs = self._of(priority)
        return {
            "title": f"{priority}: waiting, and oldest",
            "left": [as_metric(metrics.visible(spec.name), label=spec.group) for spec in specs],
            "left_y_axis": _axis("jobs"),
            "right": [
                as_metric(metrics.oldest_age(spec.name), label=f"{spec.group} oldest")
                for spec in specs
            ],
            "right_y_axis": _axis("s"),
        }

    def tenants(self) -> Iterator[Graph]:
        """Yield the noisy tenants, and the age of the oldest job of all others.

        SQS tells them of standard queues alone. Without any there is no graph, since CloudWatch
        refuses a dashboard with one that has neither metrics nor annotations.
        """
        standard = {label(spec): spec.name for spec in self._topology.queues if not spec.fifo}
        if standard:
            yield {
                "title": "Noisy tenants; oldest job of the others",
                "left": _of_queues(standard, metrics.noisy_tenants),
                "left_y_axis": _axis("tenants"),
                "right": [
                    as_metric(metrics.oldest_age_of_quiet(name), label=f"{lane} oldest")
                    for lane, name in standard.items()
                ],
                "right_y_axis": _axis("s"),
            }

    def failing(self) -> Graph:
        """Return the rate of failed runs, by queue."""
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
        of_queue = {
            failed: metrics.failed(self._topology, spec),
            completed: metrics.completed(self._topology, spec),
        }
        return as_expression(failed_percent(failed, completed), of_queue, label=label(spec))

    def dead(self, set_aside: Mapping[str, str]) -> Graph:
        """Return the dead letters, and the queues of ``set_aside``: their names by label."""
        dead = {f"{label(spec)}-dlq": spec.dlq_name for spec in self._topology.queues}
        return {
            "title": "Dead letters, and messages set aside",
            "left": _of_queues({**dead, **set_aside}, metrics.visible),
            "left_y_axis": _axis("jobs"),
        }

    def failed_types(self) -> Graph:
        """Return the failed runs, by type."""
        return {
            "title": "Failed runs, by type",
            "left": [self._by_type(FAILED, "Sum")],
            "left_y_axis": _axis("runs"),
        }

    def outcomes(self) -> Graph:
        """Return the outcomes of all runs."""
        return {
            "title": "Outcomes of runs",
            "left": [
                as_expression(f"SUM({self._searched(name, 'Sum')})", {}, label=name)
                for name in COUNTED.values()
            ],
            "stacked": True,
            "left_y_axis": _axis("runs"),
        }

    def done(self) -> Graph:
        """Return the completed jobs, by type."""
        return {
            "title": "Jobs completed, by type",
            "left": [self._by_type(COMPLETED, "Sum")],
            "left_y_axis": _axis("jobs"),
        }

    def durations(self) -> Graph:
        """Return the handlers' durations, by type."""
        return {
            "title": "How long handlers ran, by type, p95",
            "left": [self._by_type(DURATION, "p95")],
            "left_y_axis": _axis("s"),
        }

    def workers(
        self, services: Mapping[str, ecs.FargateService], functions: Mapping[str, str]
    ) -> Iterator[Graph]:
        """Yield the activity of workers and functions: receives, services, functions."""
        queues = {label(spec): spec.name for spec in self._topology.queues}
        yield {
            "title": "Jobs received, by queue",
            "left": _of_queues(queues, metrics.received),
            "left_y_axis": _axis("jobs"),
        }
        if services:
            yield {
                "title": "Worker tasks; CPU and memory",
                "left": _of_services(services, metrics.running_tasks, "tasks"),
                "left_y_axis": _axis("tasks"),
                "right": [
                    *_of_services(services, metrics.cpu, "CPU"),
                    *_of_services(services, metrics.memory, "memory"),
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

    def costs(self, *, schedules: bool) -> Iterator[Graph]:
        """Yield the firings, and the metrics that are billed by the request."""
        names = {label(spec): spec.name for spec in self._topology.queues}
        if schedules:
            yield {
                "title": "Schedules",
                "left": [
                    as_metric(metrics.of_schedules(self._topology, name), label=name)
                    for name in (metrics.ATTEMPTS, metrics.TARGET_ERRORS, metrics.DROPPED)
                ],
                "left_y_axis": _axis("firings"),
            }
        yield {
            "title": "SQS: jobs sent; empty receives, each a request",
            "left": _of_queues(names, metrics.sent),
            "left_y_axis": _axis("jobs"),
            "right": [_empty_receives(names)],
            "right_y_axis": _axis("requests"),
        }
        table = self._topology.table_name
        yield {
            "title": "Records: units of DynamoDB",
            "left": [
                as_metric(metrics.of_table(table, name), label=name)
                for name in ("ConsumedWriteCapacityUnits", "ConsumedReadCapacityUnits")
            ],
            "left_y_axis": _axis("units"),
        }

    def _by_type(self, metric: str, statistic: str) -> cloudwatch.MathExpression:
        return as_expression(self._searched(metric, statistic), {}, label=_TYPE_LABEL)

    def _searched(self, metric: str, statistic: str) -> str:
        """Return an expression for all types at once, including those declared later.

        https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/search-expression-syntax.html
        """
        schema = ",".join((NAMESPACE, *sorted(OF_TYPE)))
        what = f'{{{schema}}} MetricName="{metric}" {SERVICE}="{self._service}"'
        return f"SEARCH('{what}', '{statistic}', {_SEARCHED_S})"


def _axis(unit: str) -> cloudwatch.YAxisProps:
    return cloudwatch.YAxisProps(min=0, label=unit, show_units=False)


def _empty_receives(queues: Mapping[str, str]) -> cloudwatch.MathExpression:
    each = numbered("e", queues.values(), metrics.empty_receives)
    return as_expression(total(each), each, label="empty receives")


def _of_queues(
    queues: Mapping[str, str], metric: Callable[[str], Series]
) -> list[cloudwatch.IMetric]:
    return [as_metric(metric(queue), label=name) for name, queue in queues.items()]


def _of_functions(
    functions: Mapping[str, str], metric: str, statistic: str
) -> list[cloudwatch.IMetric]:
    return [
        as_metric(
            metrics.of_function(function, metric, statistic), label=f"{name} {metric.lower()}"
        )
        for name, function in functions.items()
    ]


def _of_services(
    services: Mapping[str, ecs.FargateService], metric: Callable[[str, str], Series], what: str
) -> list[cloudwatch.IMetric]:
    """Return a metric of each service, by its cluster's and its own name."""
    return [
        as_metric(
            metric(service.cluster.cluster_name, service.service_name), label=f"{name} {what}"
        )
        for name, service in services.items()
    ]
