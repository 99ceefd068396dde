"""No job library: a loop around aiobotocore, or around boto3 in threads.

It makes the calls and nothing else: no retries, no heartbeat, no limits, no shutdown. The cost of a
library is measured against it.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from typing import Any

import boto3
from aiobotocore.config import AioConfig
from aiobotocore.session import get_session
from botocore.config import Config
from common import CONCURRENCY, QUEUES, begin, done, job_s, queue_url, submissions

_BATCH = 10
_WAIT_S = 20


def _bodies(numbers: range) -> list[dict[str, str]]:
    return [{"Id": str(number), "MessageBody": json.dumps({"n": number})} for number in numbers]


def _deletes(messages: list[Any]) -> list[dict[str, str]]:
    return [
        {"Id": str(index), "ReceiptHandle": message["ReceiptHandle"]}
        for index, message in enumerate(messages)
    ]


async def _run(message: Any) -> None:
    number = json.loads(message["Body"])["n"]
    if seconds := begin(number):
        await asyncio.sleep(seconds)
    done(number)


async def _poll(sqs: Any, url: str) -> None:
    while True:
        received = await sqs.receive_message(
            QueueUrl=url, MaxNumberOfMessages=_BATCH, WaitTimeSeconds=_WAIT_S
        )
        if messages := received.get("Messages"):
            # gather would make ten tasks for jobs that never wait
            if job_s(0):
                await asyncio.gather(*(_run(message) for message in messages))
            else:
                for message in messages:
                    await _run(message)
            await sqs.delete_message_batch(QueueUrl=url, Entries=_deletes(messages))


async def _work(pollers: int) -> None:
    config = AioConfig(max_pool_connections=100, parameter_validation=False)
    async with get_session().create_client("sqs", config=config) as sqs:
        await asyncio.gather(
            *(_poll(sqs, queue_url(queue)) for queue in QUEUES for _ in range(pollers))
        )


def _poll_in_thread(url: str) -> None:
    config = Config(max_pool_connections=1, parameter_validation=False)
    sqs = boto3.session.Session().client("sqs", config=config)
    while True:
        received = sqs.receive_message(
            QueueUrl=url, MaxNumberOfMessages=_BATCH, WaitTimeSeconds=_WAIT_S
        )
        if messages := received.get("Messages"):
            for message in messages:
                number = json.loads(message["Body"])["n"]
                time.sleep(begin(number))
                done(number)
            sqs.delete_message_batch(QueueUrl=url, Entries=_deletes(messages))


def _work_in_threads() -> None:
    threads = [
        threading.Thread(target=_poll_in_thread, args=[queue_url(queue)])
        for queue in QUEUES
        for _ in range(CONCURRENCY // len(QUEUES))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


async def _submit() -> None:
    async with get_session().create_client("sqs") as sqs:
        for queue, numbers in submissions():
            for first in range(0, len(numbers), _BATCH):
                await sqs.send_message_batch(
                    QueueUrl=queue_url(queue), Entries=_bodies(numbers[first : first + _BATCH])
                )


if __name__ == "__main__":
    match sys.argv[1]:
        case "work":
            asyncio.run(_work(int(sys.argv[2])))
        case "work-in-threads":
            _work_in_threads()
        case "submit":
            asyncio.run(_submit())
        case other:
            sys.exit(f"unknown: {other}")
