"""dramatiq-sqs. Run by ``dramatiq dramatiq_peer``; as a script it submits."""

from __future__ import annotations

import time

import dramatiq
from common import ENDPOINT_URL, QUEUES, REGION, begin, done, submissions
from dramatiq.middleware import Retries
from dramatiq_sqs import SQSBroker

broker = SQSBroker(
    endpoint_url=ENDPOINT_URL,
    region_name=REGION,
    middleware=[Retries()],
    visibility_timeout=None,  # the queue's: by default a killed worker's messages hide for 12 h
)
dramatiq.set_broker(broker)


def _bench(number: int) -> None:
    if seconds := begin(number):
        time.sleep(seconds)
    done(number)


# A queue belongs to an actor, so each queue has one.
ACTORS = {queue: dramatiq.actor(_bench, actor_name=queue, queue_name=queue) for queue in QUEUES}


if __name__ == "__main__":
    for queue, numbers in submissions():
        for number in numbers:
            ACTORS[queue].send(number)
