"""The function that counts for worker groups with many queues, and the metrics it publishes."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.jobs.core.topology import Topology
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.resource_names import FUNCTION_MEMORY_MB
from headgate.jobs.deployment.scaling.backlog import counted_groups
from headgate.jobs.deployment.scaling.demand_plan import EVERY, demand_plan
from headgate.ops.costing.bill import Charge
from headgate.ops.costing.watching import EMF_LINE, EVENT_OVERHEAD, INVOCATION_LINES, logged
from headgate.ops.prices import (
    DURATION,
    FIRINGS,
    INVOCATIONS,
    METRICS,
    MONTH_S,
    SQS_FIFO,
    SQS_STANDARD,
)

COUNTS = MONTH_S / EVERY.total_seconds()
"""Counts in a month."""

QUEUE_S = 0.02
"""Duration of asking for one queue's depth."""


def charges(topology: Topology, deployment: Deployment) -> Iterator[Charge]:
    """Yield a month's charges; none if all groups fit an alarm."""
    plan = demand_plan(topology, counted_groups(topology, deployment.workers))
    if not plan.groups:
        return
    fifo = {spec.name: spec.fifo for spec in topology.queues}
    asked = [queue.name for group in plan.groups for queue in group.queues]
    yield Charge(price=FIRINGS, units=COUNTS)
    yield Charge(price=INVOCATIONS, units=COUNTS)
    gb_s = QUEUE_S * len(asked) * FUNCTION_MEMORY_MB / 1024
    yield Charge(price=DURATION, units=COUNTS * gb_s)
    for name in asked:
        yield Charge(price=SQS_FIFO if fifo[name] else SQS_STANDARD, units=COUNTS)
    yield Charge(price=METRICS, units=len(plan.groups))
    lines = INVOCATION_LINES + len(plan.groups) * (EMF_LINE + EVENT_OVERHEAD)
    yield from logged(COUNTS * lines, None)
