"""The dashboard of an app for the person on call; from top to bottom it narrows down the fault."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ecs as ecs
from constructs import Construct

from headgate.infra.monitoring.graphs import Graph, Graphs
from headgate.jobs.core.topology import Topology
from headgate.jobs.deployment.metric_names import service_name

WIDTH = 24
"""Columns of a dashboard's grid.
https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/CloudWatch-Dashboard-Body-Structure.html"""

_HEIGHT = 6
_ALARMS_A_ROW = 6

_MOST_ALARMS = 100
"""Maximum for one widget (same page)."""


class Dashboard(Construct):
    """One dashboard; an account's first three are free.

    Args:
        topology: the topology with the queues to show.
        alarms: shown at the top, if there are any.
        set_aside: names on AWS of the queues of messages set aside, in addition to the dead-letter
            queues, by label.
        services: the workers' services, by group name.
        functions: names on AWS of the app's functions, by label.
        schedules: whether the app has a group of schedules.
        standby: whether another region has a dashboard of the same system; their names share one
            space. https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutDashboard.html
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        topology: Topology,
        alarms: Sequence[cloudwatch.IAlarm],
        set_aside: Mapping[str, str],
        services: Mapping[str, ecs.FargateService],
        functions: Mapping[str, str],
        schedules: bool,
        standby: bool = False,
    ) -> None:
        super().__init__(scope, construct_id)
        service = service_name(topology.app, topology.stage)
        draw = Graphs(topology)
        self.dashboard = cloudwatch.Dashboard(
            self,
            "Dashboard",
            dashboard_name=f"{service}-standby" if standby else service,
            default_interval=Duration.hours(3),
            widgets=[
                [_title(service)],
                *_status(alarms),
                _row(draw.start(priority) for priority in draw.priorities),
                _row(draw.waiting(priority) for priority in draw.priorities),
                _row([draw.failing(), draw.dead(set_aside), draw.failed_types()]),
                _row([draw.outcomes(), draw.done(), draw.durations(), *draw.tenants()]),
                _row(draw.workers(services, functions)),
                _row(draw.costs(schedules=schedules)),
            ],
        )


def _title(service: str) -> cloudwatch.TextWidget:
    return cloudwatch.TextWidget(
        markdown=f"# {service}\nFrom the top: a red alarm says what it means and what to do first. "
        "Below: late starts, failures, completed jobs, workers and functions, costs.",
        width=WIDTH,
        height=2,
    )


def _status(alarms: Sequence[cloudwatch.IAlarm]) -> Iterator[list[cloudwatch.IWidget]]:
    """Yield the alarms, in rows of as many as fit a widget."""
    for first in range(0, len(alarms), _MOST_ALARMS):
        part = alarms[first : first + _MOST_ALARMS]
        yield [
            cloudwatch.AlarmStatusWidget(
                title="Alarms",
                alarms=part,
                sort_by=cloudwatch.AlarmStatusWidgetSortBy.STATE_UPDATED_TIMESTAMP,
                width=WIDTH,
                height=1 + math.ceil(len(part) / _ALARMS_A_ROW),
            )
        ]


def _row(graphs: Iterable[Graph]) -> list[cloudwatch.IWidget]:
    """Return graphs side by side, together as wide as the dashboard."""
    each = list(graphs)
    width = WIDTH // len(each)
    widths = [width] * (len(each) - 1) + [WIDTH - width * (len(each) - 1)]
    return [
        cloudwatch.GraphWidget(width=width, height=_HEIGHT, **graph)
        for width, graph in zip(widths, each, strict=True)
    ]
