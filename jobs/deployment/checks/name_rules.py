"""Rules for names: those that AWS refuses, and those that it can't tell apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.event_rules.event_rule import rule_name
from headgate.jobs.deployment.checks.places import queues_of
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.resource_names import function_name, output_key, worker_service_name
from headgate.jobs.deployment.scaling.backlog import is_counted
from headgate.jobs.deployment.triggers import has_bridge, has_schedules, scheduled_types
from headgate.jobs.errors import ConfigurationError, Fault
from headgate.jobs.schedules.firing import schedule_name


def names_too_long(app: App, deployment: Deployment) -> Iterator[Fault]:
    """A resource whose name on AWS would be longer than AWS allows."""
    told: set[str] = set()
    for name in _names(app, deployment):
        try:
            name()
        except ConfigurationError as error:
            told.add(str(error))
    for what in sorted(told):
        yield Fault(
            rule="names-too-long",
            where=f"app {app.name}",
            what=what,
            why="Synthesis refuses it",
            instead="Shorten the name of the app, stage, group, type or event rule, of which it "
            "consists",
        )


def _names(app: App, deployment: Deployment) -> Iterator[Callable[[], str]]:
    """Yield functions that make the names with limits of their own; queues' are made by then."""
    topology = app.topology
    yield lambda: topology.schedule_group
    yield partial(function_name, topology, "sweep")
    if any(is_counted(queues_of(app, group)) for group in deployment.workers):
        yield partial(function_name, topology, "demand")
    for consumer in deployment.consumers:
        yield partial(function_name, topology, consumer.name)
    for group in deployment.workers:
        yield partial(worker_service_name, topology, group.name)
    if has_bridge(app):
        yield lambda: topology.bridge_name
    if has_schedules(app):
        yield lambda: topology.scheduler_role
        for job in scheduled_types(app):
            yield from (partial(schedule_name, declared) for declared in job.schedules)
    for rule in app.event_rules.values():
        yield partial(rule_name, topology, rule)


def names_alike(app: App, deployment: Deployment) -> Iterator[Fault]:
    """Groups of one kind whose outputs would have the same keys, so that one would hide another."""
    drained = "; one that has been deployed has to be drained first (`headgate queues drain`)"
    for kind, names, first in (
        ("queue groups", app.topology.groups, drained),
        ("worker groups", [group.name for group in deployment.workers], ""),
        ("consumers", [group.name for group in deployment.consumers], ""),
    ):
        for alike in _alike(names):
            yield Fault(
                rule="names-alike",
                where=f"app {app.name}",
                what=f"the {kind} {' and '.join(map(repr, alike))} differ by hyphens alone",
                why="The keys of a stack's outputs have none: those of one would hide the other's",
                instead=f"Rename {' or '.join(map(repr, alike))}, so that another letter or digit "
                f"tells them apart{first}",
            )


def _alike(names: Iterable[str]) -> Iterator[list[str]]:
    """Yield the names that have a key of outputs in common."""
    found = defaultdict[str, list[str]](list)
    for name in names:
        found[output_key(name)].append(name)
    return (alike for alike in found.values() if len(alike) > 1)
