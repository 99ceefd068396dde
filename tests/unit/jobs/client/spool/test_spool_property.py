"""Whatever fails, and whichever process is killed: stored jobs are sent, in order, and once."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headgate import Client
from headgate.jobs.client.spool.drainer import Drainer
from headgate.jobs.client.spool.flights import THREADS
from headgate.jobs.client.spool.policy import Answer, SpoolClaim
from headgate.jobs.client.spool.sending import SpoolSending
from headgate.jobs.client.spool.spooler import Spooler
from headgate.jobs.core.immediate import driven, immediate
from headgate.jobs.core.ports.transport import EntryFailure, OutgoingMessage
from headgate.jobs.errors import ServiceUnavailable
from headgate.jobs.messages.envelope import parse
from tests.support.backends import over
from tests.support.spool_bench import EMAIL, FIFO, NORMAL, Bench

Network = Literal["up", "down", "answers lost", "an entry fails"]

NETWORKS = st.sampled_from(["up", "up", "down", "answers lost"])
DEATHS = st.sampled_from([*[None] * 12, *range(1, 13)])
"""The step at which a process dies."""
PROCESSES = 2


class Killed(BaseException):
    """The process has been killed."""


class Process:
    """A process that submits and drains, and may be killed before and after any of its steps.

    A dead process does nothing more, so that nothing is cleaned up.
    """

    def __init__(self, bench: Bench, doubtful: set[str]) -> None:
        self._bench = bench
        self.network: Network = "up"
        self.dies_at: int | None = None
        self._steps = 0
        self._dead = False
        self._doubtful = doubtful
        """Jobs whose answer was lost."""
        self._unconfirmed: set[str] = set()
        self.client = Client(
            bench.app,
            events=bench.hub,
            spool=bench.spool,
            backend=over(self, clock=bench.clock, sleep=lambda _seconds: None),
        )
        with patch.object(Drainer, "start"):  # nothing runs concurrently with the test
            self.client.__enter__()
        spooler = self.client._fallback
        assert isinstance(spooler, Spooler)
        assert spooler._drainer is not None
        self.file = spooler._drainer.file
        self._settle = self.file.settle
        stepping = {name: self._stepping(getattr(self.file, name)) for name in ("put", "claim")}
        vars(self.file).update(stepping, settle=self._stepping(self._settling))
        sending = SpoolSending(
            self.file,
            immediate(self.send),
            lambda _: None,
            bench.clock,
            bench.hub,
            THREADS,
            parallel=1,
        )
        self._drain = driven(sending.drain)

    def send(self, queue: str, messages: Sequence[OutgoingMessage]) -> list[EntryFailure]:
        """Send to SQS."""
        self._step()
        if self.network == "down":
            raise ServiceUnavailable("no connection")
        if self.network == "an entry fails":
            self._bench.sqs.faults.fail_entries("send", indexes=[1])
        failures = self._bench.sqs.sync.send(queue, messages)
        failed = {failure.index for failure in failures}
        taken = {
            str(parse(message.body).id)
            for index, message in enumerate(messages)
            if index not in failed
        }
        if self.network == "answers lost":
            self._doubtful |= taken
            raise ServiceUnavailable("connection reset")
        self._unconfirmed |= taken
        self._step()
        return failures

    def submit(self, count: int, *, fifo: bool) -> list[str]:
        """Submit that many jobs; return no ids if the process died before it returned."""
        if fifo:
            return self._returned(
                lambda: self.client.submit_many(self._bench.order, [EMAIL] * count, group="a")
            )
        return self._returned(lambda: self.client.submit_many(self._bench.email, [EMAIL] * count))

    def drain(self) -> None:
        """Send the waiting jobs."""
        self._returned(self._drain)

    @property
    def dead(self) -> bool:
        return self._dead

    def _returned(self, act: Callable[[], Any]) -> list[str]:
        self._steps = 0
        try:
            result = act()
        except Killed:
            self._doubtful |= self._unconfirmed
            return []
        finally:
            self._unconfirmed.clear()
        return [handle.id for handle in result] if isinstance(result, list) else []

    def _settling(self, claim: SpoolClaim, answer: Answer, *, done: bool = True) -> None:
        self._settle(claim, answer, done=done)
        self._unconfirmed -= {job.id for job in answer.sent}

    def _stepping(self, act: Callable[..., Any]) -> Callable[..., Any]:
        def stepped(*args: Any, **options: Any) -> Any:
            self._step()
            result = act(*args, **options)
            self._step()
            return result

        return stepped

    def _step(self) -> None:
        self._steps += 1
        if self._dead or self._steps == self.dies_at:
            self._dead = True
            raise Killed


class Spools(RuleBasedStateMachine):
    """Processes that share a file, and an SQS that fails at random."""

    @initialize()
    def start(self) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.bench = Bench(Path(self.directory.name))
        self.doubtful: set[str] = set()
        self.returned: dict[str, list[str]] = {NORMAL: [], FIFO: []}
        self.entries_failed = False
        self.processes = [Process(self.bench, self.doubtful) for _ in range(PROCESSES)]

    @rule(
        which=st.integers(0, PROCESSES - 1),
        count=st.integers(1, 12),
        fifo=st.booleans(),
        network=NETWORKS,
        dies_at=DEATHS,
    )
    def submit(
        self, which: int, count: int, fifo: bool, network: Network, dies_at: int | None
    ) -> None:
        process = self._next(which, network, dies_at)
        self.returned[FIFO if fifo else NORMAL] += process.submit(count, fifo=fifo)
        self._bury(which)

    @rule(
        which=st.integers(0, PROCESSES - 1),
        network=NETWORKS | st.just("an entry fails"),
        dies_at=DEATHS,
    )
    def drain(self, which: int, network: Network, dies_at: int | None) -> None:
        self.entries_failed |= network == "an entry fails"
        self._next(which, network, dies_at).drain()
        self._bury(which)

    @rule(minutes=st.integers(1, 3))
    def wait(self, minutes: int) -> None:
        self.bench.clock.advance(timedelta(minutes=minutes))

    @invariant()
    def none_overtakes_another_of_its_queue(self) -> None:
        if not hasattr(self, "bench"):
            return
        for queue, returned in self.returned.items():
            # SQS may fail single entries of a batch. Only on a FIFO queue does that matter.
            if queue == FIFO or not self.entries_failed:
                place = {job_id: number for number, job_id in enumerate(returned)}
                firsts = dict.fromkeys(self.bench.sent(queue))
                places = [place[job_id] for job_id in firsts if job_id in place]
                assert places == sorted(places)

    def teardown(self) -> None:
        if not hasattr(self, "bench"):
            return
        self.bench.clock.advance(self.bench.spool.lease)
        self._next(0, "up", None).drain()
        for process in self.processes:
            process.file.close()
        self.directory.cleanup()
        self.none_overtakes_another_of_its_queue()
        for queue, returned in self.returned.items():
            sent = Counter(self.bench.sent(queue))
            assert sent.keys() >= set(returned), "one that was promised is missing"
            twice = {job_id for job_id, times in sent.items() if times > 1}
            assert twice <= self.doubtful, "one was sent twice though its answer came"

    def _next(self, which: int, network: Network, dies_at: int | None) -> Process:
        process = self.processes[which]
        process.network, process.dies_at = network, dies_at
        return process

    def _bury(self, which: int) -> None:
        self.bench.heal()
        if self.processes[which].dead:
            self.processes[which].file.close()
            self.processes[which] = Process(self.bench, self.doubtful)


Spools.TestCase.settings = settings(max_examples=60, stateful_step_count=20)
TestEverySubmissionThatReturnedIsSentInOrderAndOnceUnlessAnAnswerWasLost = Spools.TestCase
