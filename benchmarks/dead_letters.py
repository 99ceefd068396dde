"""Looks through many dead letters on ElasticMQ: seconds, requests and memory of each.

    python -m benchmarks.dead_letters --letters 100000

Prints a line for each step, by `Client`: the first page, a grouped count, and an export. Each ends
after 90 seconds, or little more, whatever it has seen by then. The memory is that of this process
at its peak, as Linux tells it, after each step. Filling the queue takes the most time; its progress
is told on stderr.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3

from benchmarks.stage import REGION, use_test_account
from headgate import App, Client
from headgate.jobs.aws.provision import create_table
from headgate.jobs.client.dead_letters.answers import LetterCounts, LetterPage, LettersExported
from headgate.jobs.core.topology import MAX_BATCH
from headgate.ops.local.aws import LocalAws
from tests.support.servers import running_server

_AT_ONCE = 8
"""Requests that fill a queue at a time."""

_TOLD_EVERY = 1_000
"""Requests after which the progress is told."""

BODY = '{"v": 1, "payload": {"to": "ada@example.com", "subject": "Hello"}}'


def main() -> None:
    """Fill a queue, and look through it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--letters", type=int, default=100_000)
    count = parser.parse_args().letters
    use_test_account()
    with running_server("elasticmq") as sqs_url, LocalAws() as others:
        os.environ["AWS_ENDPOINT_URL_SQS"] = sqs_url
        os.environ["AWS_ENDPOINT_URL"] = others.endpoint_url
        app = App(f"b{uuid4().hex[:8]}", priorities="all", records="off")
        app.define("send-email", dict[str, str])
        asyncio.run(create_table(app.topology.table_name))  # the audit has each export
        fill(app, count)
        with Client(app) as client, Path(os.devnull).open("w", encoding="utf-8") as nowhere:
            letters = client.dead_letters
            _measure("first page of 50", lambda: letters.list(limit=50))
            _measure("count by type and error", lambda: letters.count(("type", "error")))
            _measure("export", lambda: letters.export(to=nowhere))


def _measure(what: str, step: Callable[[], LetterPage | LetterCounts | LettersExported]) -> None:
    began_s = time.perf_counter()
    look = step().look
    took_s = time.perf_counter() - began_s
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{what:<24} {took_s:7.2f} s  {look.requests:6,} requests  {look.seen:7,} seen  "
        f"peak {peak_mib:5.0f} MiB",
        flush=True,
    )


def fill(app: App, count: int) -> None:
    """Create an app's queues, and fill one of those of its dead letters."""
    sqs = boto3.session.Session(region_name=REGION).client("sqs")
    pairs = [(spec.name, spec.dlq_name) for spec in app.topology.queues]
    for name in (*chain.from_iterable(pairs), app.topology.quarantine_name):
        sqs.create_queue(QueueName=name)
    full = app.topology.queue("jobs", "normal").dlq_name
    url = sqs.get_queue_url(QueueName=full)["QueueUrl"]

    def send(start: int) -> None:
        entries = [_letter(number) for number in range(start, min(count, start + MAX_BATCH))]
        answer = sqs.send_message_batch(QueueUrl=url, Entries=entries)
        if refused := answer.get("Failed"):
            raise SystemExit(f"letters that SQS did not take: {refused}")

    with ThreadPoolExecutor(_AT_ONCE) as threads:
        sent = threads.map(send, range(0, count, MAX_BATCH))
        for requests, _ in enumerate(sent, start=1):
            if requests % _TOLD_EVERY == 0:
                print(f"{requests * MAX_BATCH:,} letters", file=sys.stderr, flush=True)
    sqs.close()


def _letter(number: int) -> Any:
    told = {
        "JobId": str(number),
        "JobType": "send-email",
        "Reason": "attempts-exhausted",
        "ErrorType": f"Error{number % 5}",
    }
    return {
        "Id": str(number),
        "MessageBody": BODY,
        "MessageAttributes": {
            name: {"DataType": "String", "StringValue": value} for name, value in told.items()
        },
    }


if __name__ == "__main__":
    main()
