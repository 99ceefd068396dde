"""How many metrics an app's alarms watch: CloudWatch charges for each one of each alarm.

Counted here, and not from CDK's own (`infra.monitoring.rules_for`), so that an estimate needs no
CDK; a test holds the two against each other, and against a whole template.
"""

from __future__ import annotations

from infra.scaling import alarm_metrics  # needs no CDK
from jobs.app import App
from jobs.deployment import Deployment

_OF_QUEUE = 10
"""Depth 1, age 3, late starts 3, failures 2, dead letters 1."""

_OF_BRIDGE = 3
"""Its errors, its invocations, and what it could not submit."""

_OF_SCHEDULES = 3

_MOST = 10
"""Of one alarm."""


def watched_metrics(app: App, deployment: Deployment) -> int:
    """Metrics that all alarms of an app watch together."""
    topology = app.topology
    lanes = [group.lanes for group in deployment.workers]
    lanes += [consumer.lanes for consumer in deployment.consumers]
    served = {queue.name for each in lanes for queue in each.of(topology)}
    unserved = sum(queue.name not in served for queue in topology.queues)
    of_groups = sum(
        _silent(len(queues), always=group.least > 0) + alarm_metrics(group, queues)
        for group in deployment.workers
        for queues in (group.lanes.of(topology),)
    )
    return (
        (_OF_QUEUE + 1) * len(topology.queues)  # with what is in flight in each
        + of_groups
        + _silent(unserved, always=False)
        + 1  # the quarantine
        + _of_bridge(app)
        + len(deployment.consumers)
    )


def _silent(queues: int, *, always: bool) -> int:
    """Of the alarm that nobody works on so many queues."""
    if not always:
        return 2 * min(queues, _MOST // 2)
    polled = min(queues, 2)
    return 2 * polled + min(queues, _MOST - 2 * polled)


def has_bridge(app: App) -> bool:
    """Whether anything fires the bridge."""
    return _has_schedules(app) or bool(app.event_rules)


def _has_schedules(app: App) -> bool:
    return app.long_delays or any(job.schedule is not None for job in app.types.values())


def _of_bridge(app: App) -> int:
    schedules = _OF_SCHEDULES if _has_schedules(app) else 0
    return schedules + _OF_BRIDGE if has_bridge(app) else 0
