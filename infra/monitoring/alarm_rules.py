"""Which alarms an app has, computed from its topology and its deployment. No CDK in here.

`infra.monitoring.alarms` makes resources of them, and ``headgate cost`` counts what they watch.
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
    """All alarms of an app; none if its deployment has none.

    Args:
        app: whose queues and types they are for.
        deployment: what runs its jobs, and the thresholds.
        bridge: whether anything fires the bridge.
        schedules: whether there is a group of schedules.
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
    """The queues, by physical name, that jobs of types with ``critical=True`` go to by default."""
    return frozenset(
        app.topology.queue(job.queue, job.priority).name
        for job in app.types.values()
        if job.alert_at_once
    )
