"""All alarms of an app, collected from `queue_rules` and `system_rules`. No CDK in here.

`infra.monitoring.alarms` turns them into resources, and ``headgate cost`` counts their metrics.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headgate.infra.monitoring import queue_rules, system_rules
from headgate.infra.monitoring.rule import Rule
from headgate.jobs.definitions.app import App
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.groups import function_name
from headgate.jobs.deployment.thresholds import Thresholds


def rules_for(
    app: App, deployment: Deployment, *, bridge: bool, schedules: bool, sweep: str
) -> Sequence[Rule]:
    """Return all alarms of an app; none if its deployment disables them.

    Args:
        app: the app with the queues and types.
        deployment: the deployment, with workers, functions and thresholds.
        bridge: whether the app has a bridge.
        schedules: whether the app has a group of schedules.
        sweep: the sweep function's name.
    """
    if deployment.alarms is None:
        return ()
    return (
        *_of_queues(app, deployment.alarms),
        *system_rules.idle_hands(app.topology, deployment),
        *_of_system(app, deployment.alarms, bridge=bridge, schedules=schedules),
        system_rules.sweep(sweep),
        *_of_consumers(app, deployment),
    )


def _of_queues(app: App, thresholds: Thresholds) -> Iterator[Rule]:
    topology, critical = app.topology, _critical_queues(app)
    for spec in topology.queues:
        yield from queue_rules.rules_of(topology, spec, thresholds, critical=spec.name in critical)
    yield from queue_rules.in_flight(topology.queues, thresholds.in_flight)


def _of_system(
    app: App, thresholds: Thresholds, *, bridge: bool, schedules: bool
) -> Iterator[Rule]:
    yield from system_rules.set_aside(app.topology, fires=bridge)
    if bridge:
        yield system_rules.bridge(app.topology.bridge_name, thresholds.schedules_percent)
    if schedules:
        yield system_rules.schedules(app.topology, thresholds.schedules_percent)


def _of_consumers(app: App, deployment: Deployment) -> Iterator[Rule]:
    for group in deployment.consumers:
        yield system_rules.consumer(group.name, function_name(app.topology, group.name))


def _critical_queues(app: App) -> frozenset[str]:
    """Return the default queues, by physical name, of job types with ``alert_at_once=True``."""
    return frozenset(
        app.topology.queue(job.queue, job.priority).name
        for job in app.types.values()
        if job.alert_at_once
    )
