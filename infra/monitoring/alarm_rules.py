"""All alarms of an app, collected from `queue_rules` and `system_rules`. No CDK in here.

`infra.monitoring.alarms` turns them into resources, and ``headgate cost`` counts their metrics.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from headgate.infra.monitoring import queue_rules, system_rules
from headgate.infra.monitoring.rule import Rule, alarm_name
from headgate.infra.monitoring.system_rules import WORKERS
from headgate.jobs.definitions.app import App
from headgate.jobs.deployment.alarms.thresholds import Thresholds
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.groups.queue_selection import QueueSelection
from headgate.jobs.deployment.metric_names import service_name
from headgate.jobs.deployment.resource_names import function_name
from headgate.jobs.deployment.scaling.backlog import counted_groups
from headgate.jobs.deployment.serving import first_server


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
    if (thresholds := deployment.alarms) is None:
        return ()
    rules = (
        *_of_queues(app, deployment, thresholds),
        *system_rules.idle_hands(app.topology, deployment),
        *_of_system(app, thresholds, bridge=bridge, schedules=schedules),
        system_rules.sweep(sweep),
        *_of_demand(app, deployment),
        *_of_consumers(app, deployment),
    )
    return [
        replace(rule, severity="page") if rule.kind in thresholds.pages else rule for rule in rules
    ]


def roll_back_on(app: App, deployment: Deployment, selection: QueueSelection) -> list[str]:
    """Return the names of the alarms during which a deployment of these queues' workers fails."""
    if not deployment.rolls_back(app.stage):
        return []
    service = service_name(app.name, app.stage)
    specs = selection.of(app.topology)
    return [
        alarm_name(
            service,
            f"{queue_rules.label(spec)}-failing",
            nested=spec.group in deployment.nested,
        )
        for spec in specs
    ]


def _of_queues(app: App, deployment: Deployment, thresholds: Thresholds) -> Iterator[Rule]:
    topology, critical = app.topology, _critical_queues(app)
    for spec in topology.queues:
        server = first_server(topology, deployment, spec)
        group = WORKERS if server is None else server.name
        rules = queue_rules.rules_of(topology, spec, thresholds, critical=spec.name in critical)
        nested = spec.group if spec.group in deployment.nested else None
        yield from (replace(rule, group=group, nested=nested) for rule in rules)
    yield from queue_rules.in_flight(topology.queues, thresholds.in_flight)


def _of_system(
    app: App, thresholds: Thresholds, *, bridge: bool, schedules: bool
) -> Iterator[Rule]:
    yield from system_rules.set_aside(app.topology, fires=bridge)
    yield system_rules.dead_letters(app.topology, thresholds.all_dead_letters)
    if bridge:
        yield system_rules.bridge(app.topology.bridge_name, thresholds.schedules_percent)
    if schedules:
        yield system_rules.schedules(app.topology, thresholds.schedules_percent)


def _of_demand(app: App, deployment: Deployment) -> Iterator[Rule]:
    if counted_groups(app.topology, deployment.workers):
        yield system_rules.demand(function_name(app.topology, "demand"))


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
