"""The alarms of queue groups that go into nested stacks where one stack is too small. No CDK here.

Queues, tables and buckets never move: CloudFormation would create them anew. What moves are alarms,
which hold no data, and have another name there: the new ones exist before the old ones are deleted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from headgate.infra.monitoring.alarm_rules import rules_for
from headgate.jobs.definitions.app import App
from headgate.jobs.deployment.deployment import Deployment


def nested_further(app: App, deployment: Deployment, over: int) -> Deployment | None:
    """Return the deployment with so many nested groups more that the stack is no longer too large.

    The groups declared last come first: a stack that grows had the others before.

    Args:
        app: the app.
        deployment: its deployment.
        over: the number of resources that the stack has too many.

    Returns:
        The deployment; None if it is too large with all groups nested.
    """
    alarms = _alarms_by_group(app, deployment)
    nested = list(deployment.nested)
    for group in reversed(app.topology.groups):
        if over <= 0:
            break
        if group not in nested and alarms[group] > 1:
            nested.append(group)
            over -= alarms[group] - 1  # the nested stack is a resource itself
    return replace(deployment, nested=tuple(nested)) if over <= 0 else None


def _alarms_by_group(app: App, deployment: Deployment) -> Counter[str | None]:
    every = replace(deployment, nested=app.topology.groups)
    rules = rules_for(app, every, bridge=False, schedules=False, sweep="sweep")
    return Counter(rule.nested for rule in rules)
