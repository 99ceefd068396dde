"""Celery. Run by ``celery -A celery_peer worker``; as a script it submits."""

from __future__ import annotations

import os
import time

from celery import Celery
from common import CONCURRENCY, QUEUES, begin, done, queue_url, submissions

app = Celery("bench")
app.conf.update(
    broker_url="sqs://",
    broker_transport_options={
        # Long polls, without a pause of Celery's own between them.
        "wait_time_seconds": 20,
        "polling_interval": 0,
        # Otherwise it lists the account's queues, and creates missing ones.
        "predefined_queues": {
            queue: {
                "url": queue_url(queue),
                "access_key_id": os.environ["AWS_ACCESS_KEY_ID"],
                "secret_access_key": os.environ["AWS_SECRET_ACCESS_KEY"],
                "region": os.environ["AWS_REGION"],
            }
            for queue in QUEUES
        },
        "is_secure": False,
    },
    # At least once, as for every contestant: by default a job is deleted before it runs.
    task_acks_late=True,
    task_ignore_result=True,
    task_store_errors_even_if_ignored=False,
    worker_prefetch_multiplier=max(4, 100 // CONCURRENCY),
    worker_send_task_events=False,
    worker_enable_remote_control=False,
    broker_connection_retry_on_startup=True,
)


@app.task(name="bench")
def bench(number: int) -> None:
    if seconds := begin(number):
        time.sleep(seconds)
    done(number)


if __name__ == "__main__":
    for queue, numbers in submissions():
        for number in numbers:
            bench.apply_async((number,), queue=queue)
