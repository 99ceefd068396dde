"""The jobs that handlers in child processes submit, which the worker sends for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.jobs.client.async_client import AsyncClient
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.definitions.app import App
from headgate.jobs.messages.envelope import parse
from headgate.jobs.submission.prepare import Submission


async def submit_for_child(app: App, client: AsyncClient, message: Mapping[str, Any]) -> str | None:
    """Send a job that a handler in a child process submits.

    Args:
        app: knows the job's queue.
        client: sends it.
        message: the fields of its `OutgoingMessage`; see `workers.isolation.protocol`.

    Returns:
        The id of the job that is kept in its place; None if it was sent itself.
    """
    outgoing = OutgoingMessage(**message)
    envelope = parse(outgoing.body)
    queue = app.topology.queue(envelope.queue, envelope.priority)
    submission = Submission(queue=queue, message=outgoing, envelope=envelope)
    return (await client.send(submission)).duplicate_of
