"""Workers killed or stopped at random moments: only the jobs they held are redelivered."""

from __future__ import annotations

import asyncio
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from headgate.workers.process.exit_codes import EXIT_CLEAN
from tests.crash.trials.answers import remarkable
from tests.crash.trials.app import QUEUE
from tests.crash.trials.findings import Account, Findings, all_is_settled, settle_accounts
from tests.support.journal import until
from tests.support.stage import Stage
from tests.support.workers import READY, WorkerProcess

CONCURRENCY = 10
_JOB_S = 0.05
_LONGEST_LIFE_S = 1.5
"""Seconds after a worker's first job has begun; jobs take a thirtieth of it."""
_STARTING = 0.15
"""Fraction of the signals that come before a worker is ready."""
_LONGEST_START_S = 1.5
_BACKLOG = 400
_BOUND_S = 180.0

_STOPS = (signal.SIGTERM, signal.SIGINT)


@dataclass(slots=True)
class Cuts:
    """Cuts workers off, one life at a time, while keeping their queue filled.

    Args:
        stage: a stage with its queues.
        rng: chooses the moments.
    """

    stage: Stage
    rng: random.Random
    findings: Findings = field(default_factory=Findings)
    killed: set[int] = field(default_factory=set)
    cut: Counter[str] = field(default_factory=Counter)
    """The number of workers by signal and moment."""
    codes: Counter[int] = field(default_factory=Counter)
    """The number of stopped workers by exit code."""
    account: Account = field(init=False)

    def __post_init__(self) -> None:
        self.account = Account(self.stage.journal)

    async def stops(self, times: int) -> None:
        """Stop that many workers, each by SIGTERM or SIGINT; nothing may run twice after that."""
        for _ in range(times):
            await self._refill()
            number = self.rng.choice(_STOPS)
            async with self._cut(number) as worker:
                code = await worker.ended()
            # Before that it may have run none of our code.
            if READY in worker.log:
                self.findings.expect(code == EXIT_CLEAN, f"{number.name} ended with {code}")
            self.codes[code] += 1
            hidden = (await self.stage.depth(QUEUE)).in_flight
            self.findings.expect(not hidden, f"{number.name} left {hidden} messages hidden")
        self.account.read()
        again = sum(len(pids) > 1 for pids in self.account.starters.values())
        self.findings.figures["begun twice after stops"] = again
        self.findings.expect(not again, f"{again} jobs began twice after stops")

    async def kills(self, times: int, *, at_once: int = 1) -> None:
        """Kill that many workers, of which ``at_once`` run concurrently."""
        lives = iter(range(times))

        async def lane() -> None:
            for _ in lives:
                await self._refill()
                async with self._cut(signal.SIGKILL) as worker:
                    await worker.ended()
                self.killed.add(worker.pid)

        await asyncio.gather(*(lane() for _ in range(at_once)))

    async def finish(self) -> Findings:
        """Let a last worker do the rest, and report on all jobs."""
        last = await self.stage.worker(QUEUE)
        await all_is_settled(self.stage, last, within_s=_BOUND_S)
        self._expect_only_the_killed_to_be_repeated()
        self.findings.figures |= {
            "signals": dict(sorted(self.cut.items())),
            "exit codes of those stopped": dict(sorted(self.codes.items())),
        }
        await settle_accounts(self.findings, self.account, self.stage)
        return self.findings

    @asynccontextmanager
    async def _cut(self, number: signal.Signals) -> AsyncIterator[WorkerProcess]:
        """Yield a worker that got the signal at a random moment of its start or of its work."""
        early = self.rng.random() < _STARTING
        pause_s = self.rng.uniform(0, _LONGEST_START_S if early else _LONGEST_LIFE_S)
        process = self.stage.process(
            QUEUE, "--concurrency", str(CONCURRENCY), ready=None, keep=remarkable
        )
        async with process as worker:
            if not early:
                await until(partial(self._is_at_work, worker.pid))
            await asyncio.sleep(pause_s)
            self.cut[f"{number.name} {'at its start' if early else 'at work'}"] += 1
            worker.send(number)
            yield worker

    def _is_at_work(self, pid: int) -> bool:
        """Return True once this worker has begun a job, or no job is left to begin."""
        return not self.account.missing or pid in self.account.processes

    async def _refill(self) -> None:
        depth = await self.stage.depth(QUEUE)
        if depth.visible < _BACKLOG // 2:
            ids = await self.stage.submit("slow", _BACKLOG, seconds=_JOB_S)
            self.account.submitted.update(ids)

    def _expect_only_the_killed_to_be_repeated(self) -> None:
        """Expect that only killed workers' jobs began again, and no worker began a job twice."""
        self.account.read()
        starters = self.account.starters.values()
        again = Counter(pid for pids in starters for pid in pids[:-1])
        self.findings.figures["begun again after kills"] = sum(len(pids) > 1 for pids in starters)
        self.findings.figures["most of one worker begun again"] = max(again.values(), default=0)
        self.findings.expect(
            again.keys() <= self.killed, "a job was begun again whose worker was not killed"
        )
        self.findings.expect(
            all(len(set(pids)) == len(pids) for pids in starters), "a worker began a job twice"
        )
        self.findings.expect(
            max(again.values(), default=0) <= 3 * CONCURRENCY,
            f"of one worker {max(again.values(), default=0)} jobs were begun again",
        )
