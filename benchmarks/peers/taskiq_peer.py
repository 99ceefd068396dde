"""taskiq-aio-sqs. Run by ``taskiq worker taskiq_peer:broker``; as a script it submits."""

from __future__ import annotations

import asyncio
import os

from common import ENDPOINT_URL, FOLLOWED, QUEUES, REGION, begin, done, submissions
from taskiq_aio_sqs import SQSBroker, SQSQueue

_IN_ONE_GO = 1_000  # concurrent submissions
_LAST_BATCH_S = 2.0  # ten times what the last batch takes

broker = SQSBroker(
    QUEUES[0],
    endpoint_url=ENDPOINT_URL,
    region_name=REGION,
    aws_access_key_id=os.environ["AWS_ACCESS_KEY_ID"],
    aws_secret_access_key=os.environ["AWS_SECRET_ACCESS_KEY"],
    enable_batching=True,
    batch_timeout=0.1,
    # It costs speed, and keeps long jobs alive: on only where that matters.
    enable_heartbeat=FOLLOWED,
)
_queues = [
    SQSQueue(name=queue, max_number_of_messages=10, wait_time_seconds=20) for queue in QUEUES
]
broker.with_default_queue(_queues[0]).with_queues(*_queues)


@broker.task(task_name="bench")
async def bench(number: int) -> None:
    if seconds := begin(number):
        await asyncio.sleep(seconds)
    done(number)


async def _submit() -> None:
    await broker.startup()
    for queue, numbers in submissions():
        kicker = bench.kicker().with_labels(queue=queue)
        for first in range(0, len(numbers), _IN_ONE_GO):
            chunk = numbers[first : first + _IN_ONE_GO]
            await asyncio.gather(*(kicker.kiq(number) for number in chunk))
    await _sent()
    await broker.shutdown()


async def _sent() -> None:
    """Wait until the batches are sent: a shutdown in the midst of a send never returns (2.1.1)."""
    # No public API reports this, and nothing can be awaited: so poll its buffers.
    while not all(buffer.empty() for buffer in broker._batch_buffers.values()):  # noqa: ASYNC110, SLF001 - as above
        await asyncio.sleep(0.05)
    await asyncio.sleep(_LAST_BATCH_S)


if __name__ == "__main__":
    asyncio.run(_submit())
