"""Advice on an app that can be deployed as it is: what it pays for and doesn't use."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.infra.monitoring.queue_rules import rules_of  # needs no CDK
from headgate.jobs.core.topology import QueueSpec
from headgate.jobs.definitions.app import App
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.errors import Fault
from headgate.ops.prices import ALARMS


def advice(app: App, deployment: Deployment) -> Iterator[Fault]:
    """Yield what could be left out.

    Args:
        app: the app, without errors.
        deployment: its deployment.
    """
    unused = unused_queues(app)
    if not unused:
        return
    priorities = ", ".join(f"{spec.group}-{spec.priority}" for spec in unused)
    yield Fault(
        rule="unused-priorities",
        where=f"app {app.name}",
        what=f"no type names the priorities of {len(unused)} of its {len(app.topology.queues)} "
        f"queues ({priorities})",
        why=f"They are polled, and their alarms cost {_usd(app, deployment, unused):.2f} USD a "
        "month",
        instead='If no submission takes them, leave out App(..., priorities="all"); a type\'s '
        "other_priorities= keeps those that some take. `headgate diff` says which queues go, with "
        "the jobs in them",
        severity="advice",
    )


def unused_queues(app: App) -> list[QueueSpec]:
    """Return the queues of priorities that no type names, in groups that list no priorities.

    Those that something else created are meant to be used.
    """
    return [
        spec
        for spec in app.topology.queues
        if spec.existing is None and spec.priority in app.queues[spec.group].unused
    ]


def _usd(app: App, deployment: Deployment, queues: list[QueueSpec]) -> float:
    """Return the price of the metrics that the queues' own alarms watch, beyond the free ones."""
    if (alarms := deployment.alarms) is None:
        return 0.0
    watched = sum(
        len(rule.metrics)
        for spec in queues
        for rule in rules_of(app.topology, spec, alarms, critical=False)
    )
    return ALARMS.of(watched)
