"""The code that the scripts of all contestants share.

It uses only the standard library, since each contestant has its own virtual environment.

A job is a number. Its handler takes `job_s` seconds and then records the number; where runs are
followed, it also records it at the start.
"""

from __future__ import annotations

import os
import struct
import sys
import time
from collections.abc import Iterator

ENDPOINT_URL = os.environ["AWS_ENDPOINT_URL"]
REGION = os.environ["AWS_REGION"]
QUEUES = os.environ["BENCH_QUEUES"].split(",")
CONCURRENCY = int(os.environ["BENCH_CONCURRENCY"])

FOLLOWED = "BENCH_STARTS" in os.environ
"""True if the starts of jobs are recorded, in a separate file."""

URGENT = 1_000_000
"""Jobs from this number on take no time, regardless of `job_s`."""

_RECORD = struct.Struct("<qd")
_JOB_S = float(os.environ["BENCH_JOB_S"])
_SPREAD = float(os.environ.get("BENCH_JOB_SPREAD", "0"))
_GOLDEN = 0.618034  # its multiples are spread evenly over 0 to 1
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT
_tally = os.open(os.environ["BENCH_TALLY"], _APPEND)
_starts = os.open(os.environ["BENCH_STARTS"], _APPEND) if FOLLOWED else -1


def begin(number: int) -> float:
    """Record a job's start if runs are followed; return its duration in seconds."""
    if FOLLOWED:
        os.write(_starts, _RECORD.pack(number, time.monotonic()))
    return job_s(number)


def job_s(number: int) -> float:
    """Return a job's duration in seconds; with a spread, it varies by number around the mean."""
    if number >= URGENT:
        return 0.0
    return _JOB_S * (1 + _SPREAD * (number * _GOLDEN % 1 - 0.5)) if _SPREAD else _JOB_S


def done(number: int) -> None:
    """Record that a job ran, and when: one system call, atomic across threads and processes."""
    os.write(_tally, _RECORD.pack(number, time.monotonic()))


def submissions() -> Iterator[tuple[str, range]]:
    """Yield the command line's queues and numbers, given as ``QUEUE:FIRST:COUNT``."""
    for argument in sys.argv[2:]:
        queue, first, count = argument.split(":")
        yield queue, range(int(first), int(first) + int(count))


def queue_url(queue: str) -> str:
    """Return a queue's URL, as ElasticMQ and other local servers form it."""
    return f"{ENDPOINT_URL}/000000000000/{queue}"
