"""Rules for the size of an app's stack."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from headgate.jobs.core.existing.resources import ExistingQueue
from headgate.jobs.definitions.app import App
from headgate.jobs.deployment.alarms.thresholds import MOST_METRICS
from headgate.jobs.deployment.checks.places import queues_of
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.triggers import has_bridge, scheduled_types
from headgate.jobs.errors import Fault

MOST_RESOURCES = 500
"""Resources of one stack.
https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html"""

_BASE = 34
"""About as many are in any stack: the table, the bucket, topics, functions, the dashboard."""

_BRIDGE = 12
"""The bridge, its queue and its alarms, and the group of schedules."""

_NETWORK = 19
"""The network and the cluster of workers."""

_OF_QUEUE = 2
"""A queue and its policy."""

_ALARMS_OF_QUEUE = 5
_OF_GROUP = 12
_OF_CONSUMER = 4


def stack_too_large(app: App, deployment: Deployment) -> Iterator[Fault]:
    """A stack with more resources than CloudFormation takes, as nearly as can be told."""
    if (found := resource_count(app, deployment)) <= MOST_RESOURCES:
        return
    why = "Synthesis nests alarms of queue groups then; in a CDK app of your own it fails"
    instead = (
        f'Declare {_fewer(app)}, or write "nested": ["{app.topology.groups[-1]}"] into the '
        "deployment, and more groups if need be"
    )
    if _is_too_large_nested(app, deployment):
        why = "Nesting the alarms of all queue groups is not enough; services and data never move"
        instead = (
            'Let one worker group serve several queue groups ("queues": [...]), '
            f"declare {_fewer(app)}, or make two apps of it"
        )
    yield Fault(
        rule="stack-too-large",
        where=f"app {app.name}",
        what=f"its stack would have about {found} resources, and may have {MOST_RESOURCES}",
        why=why,
        instead=instead,
        severity="warning",
    )


def _fewer(app: App) -> str:
    """Return the name of fewer priorities, with what makes those of the app that no type uses."""
    if any(queue.unused for queue in app.queues.values()):
        return 'fewer priorities (leave out App(..., priorities="all"))'
    return "fewer priorities"


def _is_too_large_nested(app: App, deployment: Deployment) -> bool:
    every = replace(deployment, nested=app.topology.groups)
    return resource_count(app, every) > MOST_RESOURCES


def resource_count(app: App, deployment: Deployment) -> int:
    """Return the number of resources of an app's stack, give or take a few."""
    topology = app.topology
    queues = sum(_created(spec.existing) for spec in topology.queues)
    watched = [spec for spec in topology.queues if spec.group not in deployment.nested]
    alarms = _ALARMS_OF_QUEUE * len(watched) + math.ceil(len(topology.queues) / MOST_METRICS)
    return (
        _BASE
        + (_BRIDGE if has_bridge(app) else 0)
        + (_NETWORK if deployment.workers else 0)
        + _OF_QUEUE * queues
        + (alarms + len(deployment.nested) if deployment.alarms is not None else 0)
        + sum(_of_workers(len(queues_of(app, group))) for group in deployment.workers)
        + sum(_OF_CONSUMER + len(queues_of(app, each)) for each in deployment.consumers)
        + sum(len(job.schedules) for job in scheduled_types(app))
        + len(app.event_rules)
        + len({rule.bus for rule in app.event_rules.values()})
    )


def _created(existing: ExistingQueue | None) -> int:
    """Return the number of queues that are created for one of the app's: with its dead letters."""
    if existing is None:
        return 2
    return 0 if existing.dead_letters is not None else 1


def _of_workers(queues: int) -> int:
    """Return a worker group's resources: its service, and its alarms of two metrics a queue."""
    return _OF_GROUP + math.ceil(2 * queues / MOST_METRICS)
