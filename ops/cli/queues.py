"""``headgate queues``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from headgate.ops.cli.shared import AsJson, app_of, examples, noun

if TYPE_CHECKING:
    from headgate.jobs.core.topology import Topology
    from headgate.ops.queue_depths import Depths

queues = noun(
    "See the messages in an app's queues.", examples("headgate -A shop.app:app queues list")
)


@queues.command(
    "list",
    epilog=examples(
        "headgate -A shop.app:app queues list", "headgate -A shop.app:app queues list --json"
    ),
)
def list_queues(context: typer.Context, json: AsJson = False) -> None:
    """Show how many messages each queue holds.

    They are waiting, in flight (received by a worker), delayed, or dead. The numbers are SQS's,
    which are approximate. Exits with 1 if a queue does not exist.
    """
    import asyncio

    from headgate.ops.views.queues import show_queues

    found = asyncio.run(_read(app_of(context).topology))
    raise typer.Exit(show_queues(found, as_json=json))


async def _read(topology: Topology) -> Depths:
    from headgate.jobs.aws.sqs.transport import AsyncSqsTransport
    from headgate.ops.queue_depths import read_depths

    async with AsyncSqsTransport() as sqs:
        return await read_depths(topology, sqs)
