"""An SQS that acknowledges deletes and carries none out, as it does on rare occasions.

https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/standard-queues-at-least-once-delivery.html
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.jobs.core.ports.transport import EntryFailure
from headgate.jobs.testing import MemorySqs


def undelete(sqs: MemorySqs, deliveries: int) -> None:
    """Let the deletes of the first deliveries of a test's only message have no effect."""
    delete, kept = sqs.delete, set[str]()

    async def acknowledge(queue: str, receipts: Sequence[str]) -> list[EntryFailure]:
        for receipt in receipts:
            if len(kept) < deliveries:
                kept.add(receipt)
        left = [receipt for receipt in receipts if receipt not in kept]
        return await delete(queue, left) if left else []

    sqs.delete = acknowledge  # type: ignore[method-assign]  # in the place of the real one
