"""Inspection of the server's queues once the workers have stopped."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.jobs.core.ports.transport import AsyncTransport, QueueDepth, ReceivedMessage
from headgate.jobs.core.topology import MAX_BATCH, Topology
from headgate.ops.demo.checks import Letter


async def read_depths(transport: AsyncTransport, topology: Topology) -> dict[str, QueueDepth]:
    """Return the depth of each queue that has to be empty: all but the dead-letter queues."""
    names = [*(spec.name for spec in topology.queues), topology.quarantine_name]
    return {name: await transport.depth(name) for name in names}


async def read_letters(transport: AsyncTransport, topology: Topology) -> list[Letter]:
    """Receive everything in the dead-letter queues. Nothing is deleted, only hidden for 30 s."""
    return [
        letter
        for spec in topology.queues
        for letter in _letters(spec.dlq_name, await _drained(transport, spec.dlq_name))
    ]


async def _drained(transport: AsyncTransport, queue: str) -> list[ReceivedMessage]:
    messages: list[ReceivedMessage] = []
    while batch := await transport.receive(queue, limit=MAX_BATCH, wait_s=0):
        messages += batch
    return messages


def _letters(queue: str, messages: Iterable[ReceivedMessage]) -> list[Letter]:
    return [
        Letter(
            queue=queue,
            body=message.body,
            job_id=message.attributes.get("JobId", ""),
            reason=message.attributes.get("Reason", ""),
            error_type=message.attributes.get("ErrorType", ""),
        )
        for message in messages
    ]
