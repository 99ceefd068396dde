"""Faults of our own, not of a handler: the message stays in its queue, and is delivered again."""

from __future__ import annotations

import asyncio

from headgate.jobs.execution.delivery import Delivery
from headgate.jobs.values.own_log import OwnLog
from headgate.workers.held import Hold

_log = OwnLog("headgate.worker")


def log_fault(task: asyncio.Task[None], hold: Hold) -> None:
    """Log the error that has ended a message's task, if one has."""
    if not task.cancelled() and (error := task.exception()) is not None:
        tell_fault(error, hold.delivery)


def tell_fault(error: BaseException, delivery: Delivery) -> None:
    """Log a fault that has ended the processing of a message."""
    _log.error(
        "processing message %s of %s failed",
        delivery.message.message_id,
        delivery.queue.name,
        exc_info=error,
    )
