"""Requests to SQS: sends, receives, settlements, heartbeats and empty receives.

A job takes a send, and each of its attempts a receive and a settlement: a delete, or a change of
visibility. Up to ten of the same kind share a request. A job that dies is sent once more, to its
dead-letter queue. Jobs of a bundle share all three; one that fails is sent anew, alone. A receive
waits 20 s, so an idle queue costs 3 requests a minute per process.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime

from headgate.jobs.core.naming import PAYLOADS
from headgate.jobs.core.topology import MAX_BATCH, MAX_MESSAGE_BYTES, QueueSpec
from headgate.jobs.messages.bundles import MOST_JOBS
from headgate.jobs.messages.envelope import VERSION, Envelope, PayloadRef
from headgate.jobs.messages.job_ids import derived_job_id
from headgate.jobs.messages.outgoing import message_of
from headgate.ops.costing.bill import Charge
from headgate.ops.costing.fleet import Fleet
from headgate.ops.costing.load import Load, Stream
from headgate.ops.prices import MONTH_S, SQS_FAIR, SQS_FIFO, SQS_STANDARD, Price

BILLED_BYTES = 65_536
"""SQS bills every 64 KB of a request's messages as one request.
https://aws.amazon.com/sqs/pricing/"""

_ANY_TIME = datetime(2026, 11, 1, 12, 0, 0, 123456, tzinfo=UTC)


def charges(fleet: Fleet, load: Load, limit: int) -> Iterator[Charge]:
    """Yield a month's charges for SQS.

    Args:
        fleet: the workers and functions that receive.
        load: the properties of the jobs.
        limit: bytes of a message above which its payload goes to S3.
    """
    for stream in fleet.streams:
        requests = of_job(stream, fleet, load, limit) if stream.jobs else 0.0
        for price in _prices(stream.queue, load):
            yield Charge(price=price, units=stream.jobs * requests, job_type=stream.job.name)
    for queue in fleet.queues:
        yield Charge(price=_price(queue), units=empty_receives(queue, fleet, load, limit))


def of_job(stream: Stream, fleet: Fleet, load: Load, limit: int) -> float:
    """Return the requests that one job of a type takes, on average."""
    size, beats = message_bytes(stream, load, limit), heartbeats(stream, fleet)
    shared, direct = jobs_in_message(stream, load, limit), stream.direct / stream.jobs
    whole, single = _Requests(size * shared, load), _Requests(size, load)
    first = (whole.carrying + whole.attempt + beats) / shared
    anew = min(1.0, stream.attempts - 1) * single.carrying if shared > 1 else 0.0
    by_bridge = math.ceil(size / BILLED_BYTES) + single.attempt + beats
    later = (stream.attempts - 1) * (single.attempt + beats)
    return (
        direct * (first + anew) + (1 - direct) * by_bridge + later + stream.dead * single.carrying
    )


class _Requests:
    """Requests per message of a size, with its share of those that carry several."""

    def __init__(self, size: float, load: Load) -> None:
        together = min(load.together, max(1, MAX_MESSAGE_BYTES // size))
        self.carrying = math.ceil(together * size / BILLED_BYTES) / together
        """To send or to receive it."""
        self.attempt = self.carrying + 1 / together
        """To receive and to settle it."""


def jobs_in_message(stream: Stream, load: Load, limit: int) -> float:
    """Return the number of jobs in a message that clients send; 1 for a type without bundles."""
    if (bundle := stream.job.bundle) is None:
        return 1.0
    fit = min(bundle.bytes, limit) // message_bytes(stream, load, limit)
    return float(max(1, min(load.bundled or MOST_JOBS, fit, MOST_JOBS)))


def message_bytes(stream: Stream, load: Load, limit: int) -> int:
    """Return the size of a type's messages, as SQS counts it."""
    bare = _bare_bytes(stream, offloaded=False)
    whole = bare + load.payload_bytes
    return whole if whole <= limit else _bare_bytes(stream, offloaded=True)


def is_offloaded(stream: Stream, load: Load, limit: int) -> bool:
    """Return True if a type's payloads are too large for its messages."""
    return _bare_bytes(stream, offloaded=False) + load.payload_bytes > limit


def heartbeats(stream: Stream, fleet: Fleet) -> float:
    """Return the most requests for heartbeats that one attempt takes.

    Held messages are extended every third of the visibility timeout, or up to an eighth of that
    earlier, ten to a request.
    """
    beats = fleet.run_s[stream.job.name] // (stream.queue.heartbeat_s * 7 / 8)
    workers = fleet.workers(stream.queue)
    if not beats or not workers:
        return 0.0  # a Lambda function extends nothing
    held = stream.runs * fleet.run_s[stream.job.name] / MONTH_S / workers
    return beats / min(max(held, 1.0), MAX_BATCH)


def empty_receives(queue: QueueSpec, fleet: Fleet, load: Load, limit: int) -> float:
    """Return the number of empty receives in a month.

    Where messages arrive at random, ``rate`` times a second, a poll of ``wait`` seconds stays empty
    with the probability e^-(rate * wait), and takes (1 - e^-(rate * wait)) / rate on average.
    """
    if not (pollers := fleet.pollers(queue)):
        return 0.0
    wait_s = queue.receive_wait.total_seconds()
    received = sum(
        stream.runs - stream.direct * (1 - 1 / jobs_in_message(stream, load, limit))
        for stream in fleet.streams
        if stream.queue.name == queue.name
    )
    rate = received / load.together / pollers / MONTH_S
    if not rate:
        return pollers * MONTH_S / wait_s
    empty = math.exp(-rate * wait_s)
    return pollers * MONTH_S * rate * empty / -math.expm1(-rate * wait_s)


def _bare_bytes(stream: Stream, *, offloaded: bool) -> int:
    """Return the size of a message without its payload."""
    job = stream.job
    job_id = derived_job_id(_ANY_TIME)
    ref = PayloadRef(key=f"{PAYLOADS}{job_id}", sha256="0" * 64, size=2**20, encoding="gzip")
    envelope = Envelope(
        v=VERSION,
        id=job_id,
        type=job.name,
        schema=job.schema,
        payload=None if offloaded else 0,
        payload_ref=ref if offloaded else None,
        queue=job.queue,
        priority=job.priority,
        submitted_at=_ANY_TIME,
    )
    return message_of(envelope).size


def _prices(queue: QueueSpec, load: Load) -> list[Price]:
    fair = [SQS_FAIR] if load.tenants and not queue.fifo else []
    return [_price(queue), *fair]


def _price(queue: QueueSpec) -> Price:
    return SQS_FIFO if queue.fifo else SQS_STANDARD
