"""The contestants, and their settings."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from benchmarks.environments import PEERS, ROOT, python_with

Group = Literal["drain", "jobs"]
"""The one queue that is drained, or the four queues by priority."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """One way to process jobs on SQS."""

    name: str
    requirements: str | None
    """The pinned file under `peers/` to install it from; None for this environment."""
    work: tuple[str, ...]
    """Python's arguments for a worker, with ``{queues}``, ``{group}`` and ``{concurrency}``."""
    submit: tuple[str, ...]
    """Python's arguments for submitting."""
    settings: str
    """The chosen settings, for the report."""
    concurrency: int = 50
    environment: tuple[tuple[str, str], ...] = ()

    @property
    def slug(self) -> str:
        """The name as a part of queue names."""
        return "".join(letter if letter.isalnum() else "-" for letter in self.name).strip("-")

    def python(self) -> str:
        """Return the path of its interpreter, installing it first if necessary."""
        if self.requirements is None:
            return sys.executable
        return python_with(PEERS / self.requirements)

    def path(self) -> str:
        """Return the interpreter's module path: Headgate is measured from this checkout."""
        return os.pathsep.join(map(str, (PEERS, *([ROOT] if self.requirements is None else []))))

    def worker_command(self, queues: Sequence[str], group: Group, concurrency: int) -> list[str]:
        """Return the command of a worker on these queues."""
        values = {"queues": ",".join(queues), "group": group, "concurrency": concurrency}
        return [self.python(), *(part.format(**values) for part in self.work)]


_CELERY = (
    *("-m", "celery", "-A", "celery_peer", "worker", "--loglevel", "ERROR"),
    *("--queues", "{queues}", "--concurrency", "{concurrency}"),
    *("--without-gossip", "--without-mingle", "--without-heartbeat"),
)

HEADGATE = Contestant(
    name="headgate",
    requirements=None,
    work=("headgate_peer.py", "work", "{group}"),
    submit=("headgate_peer.py", "submit"),
    settings="as it comes; 50 slots; without records",
)

CELERY_GEVENT = Contestant(
    name="celery (gevent)",
    requirements="celery.txt",
    work=(*_CELERY, "--pool", "gevent"),
    submit=("celery_peer.py", "submit"),
    settings="50 greenlets; `acks_late`, without which a job is deleted before it runs; "
    "`polling_interval=0`, `wait_time_seconds=20`, predefined queues; no events, no results",
)

CELERY_PREFORK = Contestant(
    name="celery (prefork)",
    requirements="celery.txt",
    work=(*_CELERY, "--pool", "prefork"),
    submit=("celery_peer.py", "submit"),
    settings="as above with 2 processes, Celery's default for two cores, and a prefetch of 100",
    concurrency=2,
)

DRAMATIQ = Contestant(
    name="dramatiq-sqs",
    requirements="dramatiq.txt",
    work=("-m", "dramatiq", "dramatiq_peer", "--processes", "1", "--threads", "{concurrency}"),
    submit=("dramatiq_peer.py", "submit"),
    settings="1 process with 50 threads; only `Retries` of its middleware; polls of 20 s; "
    "the queue's visibility timeout, not its own of 12 h",
    environment=(("dramatiq_worker_timeout", "20000"),),
)

TASKIQ = Contestant(
    name="taskiq-aio-sqs",
    requirements="taskiq.txt",
    work=(
        *("-m", "taskiq", "worker", "taskiq_peer:broker", "--workers", "1"),
        *("--max-async-tasks", "{concurrency}", "--max-prefetch", "50"),
        *("--log-level", "WARNING"),
    ),
    submit=("taskiq_peer.py", "submit"),
    settings="50 tasks, a prefetch of 50, 10 messages a receive, polls of 20 s, sends batched; "
    "its heartbeat on where jobs are followed, off where speed is measured",
)

BARE = Contestant(
    name="bare aiobotocore",
    requirements="bare.txt",
    work=("bare_peer.py", "work", "1"),
    submit=("bare_peer.py", "submit"),
    settings="no library: receive ten, run them, delete ten; one poller a queue",
)

BARE_POLLERS = Contestant(
    name="bare aiobotocore, 5 pollers",
    requirements="bare.txt",
    work=("bare_peer.py", "work", "5"),
    submit=("bare_peer.py", "submit"),
    settings="the same with five such loops, so 50 messages at once",
)

BARE_BOTO3 = Contestant(
    name="bare boto3, 5 threads",
    requirements="bare.txt",
    work=("bare_peer.py", "work-in-threads"),
    submit=("bare_peer.py", "submit"),
    settings="the same on boto3 in five threads; on four queues in one thread each",
    concurrency=5,
)

PEERS_ALONE = (CELERY_GEVENT, CELERY_PREFORK, DRAMATIQ, TASKIQ)
ALL = (HEADGATE, *PEERS_ALONE, BARE, BARE_POLLERS, BARE_BOTO3)


def in_turn(contestants: Sequence[Contestant], rounds: int) -> Iterator[Contestant]:
    """Yield every contestant in every round, each round starting with another one."""
    for number in range(rounds):
        first = number % len(contestants)
        yield from (*contestants[first:], *contestants[:first])
