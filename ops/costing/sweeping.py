"""The sweep: a function that looks at all dead letters every few minutes."""

from __future__ import annotations

import math
from collections.abc import Iterator

from headgate.jobs.core.topology import MAX_BATCH, QueueSpec
from headgate.jobs.definitions.app import App
from headgate.jobs.deployment.groups import FUNCTION_MEMORY_MB
from headgate.jobs.deployment.sweep_plan import EVERY, sweep_plan
from headgate.lambdas.sweep.sweeper import LIMIT
from headgate.ops.costing.alarms import has_bridge
from headgate.ops.costing.bill import Charge
from headgate.ops.costing.fleet import Fleet
from headgate.ops.prices import (
    DURATION,
    FIRINGS,
    INVOCATIONS,
    MONTH_S,
    READS,
    SQS_FIFO,
    SQS_STANDARD,
    WRITES,
)

SWEEPS = MONTH_S / EVERY.total_seconds()
"""In a month."""

SWEEP_S = 1.0
"""A sweep that finds little."""

_REMEMBERED = 20
"""Dead letters that a read unit of what is remembered of them holds."""


def charges(app: App, fleet: Fleet) -> Iterator[Charge]:
    """What sweeps ask in a month, if nobody replays or purges the dead letters."""
    yield Charge(price=FIRINGS, units=SWEEPS)
    yield Charge(price=INVOCATIONS, units=SWEEPS)
    yield Charge(price=DURATION, units=SWEEPS * SWEEP_S * FUNCTION_MEMORY_MB / 1024)
    yield Charge(price=WRITES, units=2 * SWEEPS)  # a lease, taken and given back
    others = len(sweep_plan(app, has_bridge=has_bridge(app)).queues) - len(fleet.queues)
    yield Charge(price=SQS_STANDARD, units=SWEEPS * others)
    for queue in fleet.queues:
        waiting = dead_letters(queue, fleet)
        price = SQS_FIFO if queue.fifo else SQS_STANDARD
        yield Charge(price=price, units=SWEEPS * requests(waiting))
        yield Charge(price=READS, units=SWEEPS * math.ceil(waiting / _REMEMBERED))


def dead_letters(queue: QueueSpec, fleet: Fleet) -> int:
    """Of a queue, at any time: what dies while SQS keeps it."""
    dying = sum(
        stream.jobs * stream.dead for stream in fleet.streams if stream.queue.name == queue.name
    )
    return round(dying * queue.dlq_retention.total_seconds() / MONTH_S)


def requests(waiting: int) -> int:
    """To SQS, of a sweep of a queue with so many dead letters: how many there are, receives until
    one brings nothing or enough are seen, and giving them back."""
    seen = min(waiting, LIMIT)
    batches = math.ceil(seen / MAX_BATCH)
    ends = 1 if 0 < seen < LIMIT else 0
    return 1 + 2 * batches + ends
