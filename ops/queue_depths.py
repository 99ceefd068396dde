"""Numbers of messages in an app's queues, as SQS counts them: approximately."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from headgate.jobs.core.ports import AsyncTransport, QueueDepth
from headgate.jobs.core.topology import QueueSpec, Topology
from headgate.jobs.errors import QueueMissing


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneDepth:
    """The messages of one queue; a count is None if its queue on SQS does not exist."""

    queue: QueueSpec
    waiting: int | None
    in_flight: int | None
    """Received and not deleted: running, or held by a worker."""
    delayed: int | None
    dead: int | None
    """All messages of its dead-letter queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Depths:
    """The messages of all of an app's queues."""

    lanes: tuple[LaneDepth, ...]
    quarantine_name: str
    quarantined: int | None
    missing: tuple[str, ...]
    """The names of queues that don't exist."""


async def read_depths(topology: Topology, transport: AsyncTransport) -> Depths:
    """Ask SQS for the depths of an app's queues, all at the same time.

    Raises:
        TransportError: SQS could not be asked, or refused.
    """
    names = [name for queue in topology.queues for name in (queue.name, queue.dlq_name)]
    names.append(topology.quarantine_name)
    depths = await asyncio.gather(*(_depth(transport, name) for name in names))
    found = dict(zip(names, depths, strict=True))
    return Depths(
        lanes=tuple(_lane(queue, found) for queue in topology.queues),
        quarantine_name=topology.quarantine_name,
        quarantined=_all(found[topology.quarantine_name]),
        missing=tuple(name for name, depth in found.items() if depth is None),
    )


async def _depth(transport: AsyncTransport, name: str) -> QueueDepth | None:
    try:
        return await transport.depth(name)
    except QueueMissing:
        return None


def _lane(queue: QueueSpec, found: Mapping[str, QueueDepth | None]) -> LaneDepth:
    depth = found[queue.name]
    return LaneDepth(
        queue=queue,
        waiting=None if depth is None else depth.visible,
        in_flight=None if depth is None else depth.in_flight,
        delayed=None if depth is None else depth.delayed,
        dead=_all(found[queue.dlq_name]),
    )


def _all(depth: QueueDepth | None) -> int | None:
    return None if depth is None else depth.visible + depth.in_flight + depth.delayed
