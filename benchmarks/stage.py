"""A contestant's queues and their messages."""

from __future__ import annotations

import asyncio
import itertools
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.contestants import Contestant, Group
from benchmarks.environments import PEERS
from benchmarks.processes import WorkerProcess
from benchmarks.tally import Runs, Tally
from headgate.jobs.aws.sqs.transport import AsyncSqsTransport, SqsTransport
from headgate.jobs.core.ports.transport import OutgoingMessage, ReceivedMessage
from headgate.jobs.core.topology import MAX_BATCH, Priority
from tests.support.queues import Queues

REGION = "us-east-1"
ACCOUNT = {
    "AWS_ACCESS_KEY_ID": "bench",
    "AWS_SECRET_ACCESS_KEY": "bench",
    "AWS_REGION": REGION,
    "AWS_DEFAULT_REGION": REGION,
    "AWS_EC2_METADATA_DISABLED": "true",
}

_PARALLEL = 8
_BATCH_BYTES = 250_000
"""Size of the bodies in one request, below the limits of all servers and versions."""

_VISIBILITY_S = 300
_SUBMIT_BOUND_S = 300.0


class Stage:
    """One contestant's queues on one server.

    Args:
        contestant: owner of the queues.
        server: the server's URL, without a proxy in front of it.
        folder: the folder of tallies and logs.
        lane: distinguishes several stages of one contestant.
        visibility_s: the queues' visibility timeout, in seconds.
    """

    def __init__(
        self,
        contestant: Contestant,
        server: str,
        folder: Path,
        *,
        lane: str = "",
        visibility_s: int = _VISIBILITY_S,
    ) -> None:
        self.contestant = contestant
        self._app = f"bench-{contestant.slug}{lane}"
        self._visibility_s = visibility_s
        self._server = server
        self._folder = folder
        self._made: set[str] = set()

    def queues(self, group: Group) -> list[str]:
        """Return the names of a group's queues, most urgent first."""
        if group == "drain":
            return [f"{self._app}-drain-normal"]
        return [f"{self._app}-jobs-{priority}" for priority in Priority]

    def clear(self, group: Group) -> None:
        """Recreate the group's queues, empty."""
        with Queues(self._server, REGION) as admin:
            for queue in self.queues(group):
                if queue in self._made:
                    admin.delete_queue(queue)
                admin.create_queue(queue, visibility_s=self._visibility_s)
                self._made.add(queue)

    def submit(
        self, group: Group, first: int, count: int, endpoint_url: str, command: Sequence[str] = ()
    ) -> None:
        """Have the contestant itself submit that many jobs to each of the group's queues."""
        specs = [f"{queue}:{first}:{count}" for queue in self.queues(group)]
        run = [self.contestant.python(), *(command or self.contestant.submit), *specs]
        environment = self._environment(group, endpoint_url, self._folder / "unused", 0, 1)
        log = self._folder / f"{self._app}-submit.log"
        with WorkerProcess(run, cwd=PEERS, environment=environment, log=log) as submitter:
            submitter.wait(_SUBMIT_BOUND_S)

    @contextmanager
    def submitting(
        self, specs: Sequence[str], endpoint_url: str, seconds: float
    ) -> Iterator[tuple[WorkerProcess, Tally]]:
        """Have Headgate submit ``QUEUE:FIRST:COUNT`` over ``seconds``; yield it and its tally."""
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            sent = Tally(Path(folder) / "sent")
            run = [self.contestant.python(), "headgate_peer.py", "submit-steadily", *specs]
            environment = {
                **self._environment("jobs", endpoint_url, sent.path, 0, 1),
                "BENCH_SECONDS": str(seconds),
            }
            log = Path(folder) / "submit.log"
            with WorkerProcess(run, cwd=PEERS, environment=environment, log=log) as submitter:
                yield submitter, sent

    def record(self, queue: str, count: int) -> list[OutgoingMessage]:
        """Take that many messages out of a queue, to be sent again later unchanged."""
        return asyncio.run(_record(self._server, queue, count))

    def load(self, queue: str, messages: Sequence[OutgoingMessage], count: int) -> None:
        """Send that many messages, repeating them as needed, bypassing the proxy."""
        chosen = list(itertools.islice(itertools.cycle(messages), count))
        asyncio.run(_load(self._server, queue, chosen))

    def depth(self, queue: str) -> int:
        """Return the number of messages left, in flight or not."""
        with SqsTransport(endpoint_url=self._server, region=REGION) as sqs:
            return sqs.depth(queue).total

    @contextmanager
    def working(
        self,
        group: Group,
        *,
        endpoint_url: str,
        job_s: float = 0,
        left: Path | None = None,
        table: str | None = None,
    ) -> Iterator[tuple[WorkerProcess, Tally]]:
        """Yield a running worker of the contestant, and the tally of its jobs.

        When stopped, Headgate's worker writes to ``left`` what it has not closed; given a table, it
        also writes full records.
        """
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            tally = Tally(Path(folder) / "tally")
            extra = {} if left is None else {"BENCH_LEFT": str(left)}
            if table is not None:
                extra |= {"BENCH_RECORDS": "full", "AWS_ENDPOINT_URL_DYNAMODB": table}
            with self._worker(group, endpoint_url, tally, job_s, extra) as worker:
                yield worker, tally

    @contextmanager
    def followed(self, runs: Runs, *, job_s: float, spread: float = 0) -> Iterator[WorkerProcess]:
        """Yield a running worker on the drained queue; its jobs' starts and ends go to ``runs``.

        With a ``spread`` of 1, jobs take between 0.5 and 1.5 times ``job_s``.
        """
        extra = {"BENCH_STARTS": str(runs.starts.path), "BENCH_JOB_SPREAD": str(spread)}
        with self._worker("drain", self._server, runs.ends, job_s, extra) as worker:
            yield worker

    @contextmanager
    def _worker(
        self, group: Group, endpoint_url: str, tally: Tally, job_s: float, extra: Mapping[str, str]
    ) -> Iterator[WorkerProcess]:
        slots = self.contestant.concurrency
        command = self.contestant.worker_command(self.queues(group), group, slots)
        environment = self._environment(group, endpoint_url, tally.path, job_s, slots)
        with (
            tempfile.TemporaryDirectory(dir=self._folder) as folder,
            WorkerProcess(
                command, cwd=PEERS, environment={**environment, **extra}, log=Path(folder) / "log"
            ) as worker,
        ):
            yield worker

    def _environment(
        self, group: Group, endpoint_url: str, tally: Path, job_s: float, concurrency: int
    ) -> dict[str, str]:
        return {
            **ACCOUNT,
            **dict(self.contestant.environment),
            "AWS_ENDPOINT_URL": endpoint_url,
            "BENCH_APP": self._app,
            "BENCH_CONCURRENCY": str(concurrency),
            "BENCH_JOB_S": str(job_s),
            "BENCH_QUEUES": ",".join(self.queues(group)),
            "BENCH_TALLY": str(tally),
            "BENCH_VISIBILITY_S": str(self._visibility_s),
            "PYTHONPATH": self.contestant.path(),
        }


def use_test_account() -> None:
    """Set this process's credentials to those of the local server's account."""
    os.environ.update(ACCOUNT)


async def _record(server: str, queue: str, count: int) -> list[OutgoingMessage]:
    taken: list[OutgoingMessage] = []
    async with AsyncSqsTransport(endpoint_url=server, region=REGION) as sqs:
        while len(taken) < count:
            received = await sqs.receive(queue, limit=MAX_BATCH, wait_s=2)
            if not received:
                raise RuntimeError(f"{queue} holds {len(taken)} messages, not {count}")
            taken += [_as_sent(message) for message in received]
            await sqs.delete(queue, [message.receipt for message in received])
    return taken


def _as_sent(message: ReceivedMessage) -> OutgoingMessage:
    return OutgoingMessage(
        body=message.body, attributes=dict(message.attributes), group=message.group
    )


async def _load(server: str, queue: str, messages: Sequence[OutgoingMessage]) -> None:
    largest = max((len(message.body) for message in messages), default=1)
    count = max(1, min(MAX_BATCH, _BATCH_BYTES // largest))
    batches = iter([messages[first : first + count] for first in range(0, len(messages), count)])
    async with AsyncSqsTransport(endpoint_url=server, region=REGION) as sqs:

        async def send_in_turn() -> None:
            for batch in batches:
                if failures := await sqs.send(queue, batch):
                    raise RuntimeError(f"{queue} did not take a message: {failures[0]}")

        await asyncio.gather(*(send_in_turn() for _ in range(_PARALLEL)))
