"""The sweep: a function that reads all dead letters every few minutes."""

from __future__ import annotations

import math
from collections.abc import Iterator

from headgate.jobs.core.topology import MAX_BATCH, QueueSpec
from headgate.jobs.definitions.app import App
from headgate.jobs.deployment.resource_names import FUNCTION_MEMORY_MB
from headgate.jobs.deployment.sweep_plan import EVERY, sweep_plan
from headgate.jobs.deployment.triggers import has_bridge
from headgate.lambdas.sweep.sweeper import LIMIT
from headgate.ops.costing.bill import Charge
from headgate.ops.costing.fleet import Fleet
from headgate.ops.prices import (
    DURATION,
    FIRINGS,
    INVOCATIONS,
    METRICS,
    MONTH_S,
    READS,
    SQS_FIFO,
    SQS_STANDARD,
    WRITES,
)

SWEEPS = MONTH_S / EVERY.total_seconds()
"""Sweeps in a month."""

SWEEP_S = 1.0
"""Duration of a sweep that finds few dead letters."""

_REMEMBERED = 20
"""Remembered dead letters per read unit."""


def charges(app: App, fleet: Fleet) -> Iterator[Charge]:
    """Yield a month's charges for sweeps, if nobody replays or purges the dead letters."""
    yield Charge(price=FIRINGS, units=SWEEPS)
    yield Charge(price=METRICS, units=1)  # the number of dead letters
    yield Charge(price=INVOCATIONS, units=SWEEPS)
    yield Charge(price=DURATION, units=SWEEPS * SWEEP_S * FUNCTION_MEMORY_MB / 1024)
    yield Charge(price=WRITES, units=2 * SWEEPS)  # a lease, acquired and released
    others = len(sweep_plan(app, has_bridge=has_bridge(app)).queues) - len(fleet.queues)
    yield Charge(price=SQS_STANDARD, units=SWEEPS * others)
    for queue in fleet.queues:
        waiting = dead_letters(queue, fleet)
        price = SQS_FIFO if queue.fifo else SQS_STANDARD
        yield Charge(price=price, units=SWEEPS * requests(waiting))
        yield Charge(price=READS, units=SWEEPS * math.ceil(waiting / _REMEMBERED))


def dead_letters(queue: QueueSpec, fleet: Fleet) -> int:
    """Return the dead letters of a queue at any time: the jobs that die within its retention."""
    dying = sum(
        stream.jobs * stream.dead for stream in fleet.streams if stream.queue.name == queue.name
    )
    return round(dying * queue.dlq_retention.total_seconds() / MONTH_S)


def requests(waiting: int) -> int:
    """Return the requests to SQS for one sweep of a queue with ``waiting`` dead letters.

    One asks for their number; then come receives, until one is empty or enough were seen, and
    requests that make the messages visible again.
    """
    seen = min(waiting, LIMIT)
    batches = math.ceil(seen / MAX_BATCH)
    ends = 1 if 0 < seen < LIMIT else 0
    return 1 + 2 * batches + ends
