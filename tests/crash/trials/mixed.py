"""Everything at once, for a given time: odd answers, outages, kills and stops under steady load."""

from __future__ import annotations

import asyncio
import random
import signal
import statistics
from collections import Counter
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from headgate import Spool
from headgate.jobs.client.spool.file import SpoolFile
from headgate.jobs.core.clock import SystemClock
from headgate.workers.process.exit_codes import EXIT_CLEAN, EXIT_UNFINISHED
from tests.crash.trials.answers import remarkable
from tests.crash.trials.app import KINDS, ONCE, QUEUE
from tests.crash.trials.catalogue import AT_ONCE, TABLE, Weather
from tests.crash.trials.findings import Account, Findings, all_is_settled, settle_accounts
from tests.support.journal import until
from tests.support.proxy import Proxy
from tests.support.stage import Stage
from tests.support.submitter import Submitter
from tests.support.workers import READY, WorkerProcess

_SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
_IN_ORDER = (EXIT_CLEAN, EXIT_UNFINISHED)
"""In an outage a stop may have to leave a settlement undone, which the log then names."""
_LIFE_S = (3.0, 30.0)
"""Range of seconds after which a worker is cut off."""
_BATCHES = (10, 60)
"""Range of the number of jobs that a submitter sends before it is killed."""
_CALM_S = (1.0, 8.0)
_STORM_S = (0.5, 6.0)
_OUTAGE_S = (2.0, 10.0)
_BATCH = 25
_BATCH_PAUSE_S = 0.25
_LOOK_S = 1.0
_LANES = 2
_BOUND_S = 1_200.0
"""Seconds for the remaining jobs at the end.

A job whose claim failed repeatedly stays away for up to a quarter of an hour.
"""
_GROWTH = 1.25
"""The growth allowed from the first tenth's memory to the last's."""

_WARM_S = 60.0
"""Seconds of a trial from which memory is compared: at first a worker still imports what it needs
in a storm, aiobotocore above all."""


@dataclass(slots=True)
class Mixed:
    """The trial.

    Args:
        stage: a stage with its queues.
        proxy: the proxy that all processes go through.
        directory: the spool's directory.
        rng: decides the events and their times.
    """

    stage: Stage
    proxy: Proxy
    directory: Path
    rng: random.Random
    findings: Findings = field(default_factory=Findings)
    cut: Counter[str] = field(default_factory=Counter)
    ends: dict[int, str] = field(default_factory=dict)
    """The signals by which workers were cut off, by process."""
    storms: Counter[str] = field(default_factory=Counter)
    memory_mb: list[float] = field(default_factory=list)
    """Memory samples of the worker that is never cut off, in MB."""
    account: Account = field(init=False)
    weather: Weather = field(init=False)

    def __post_init__(self) -> None:
        self.account = Account(self.stage.journal)
        self.weather = Weather(self.rng)
        self.proxy.draw(self.weather.fault_for)

    async def run(self, seconds: float) -> Findings:
        """Run for that many seconds, then let everything settle, and report on all jobs."""
        async with self._worker() as elder:
            await self._for_so_long(
                seconds,
                self._change_the_weather(),
                self._submit(),
                self._watch(elder),
                *(self._live() for _ in range(_LANES)),
            )
            self.weather.clear()
            await self._rest(elder)
        self._tell(seconds)
        await settle_accounts(self.findings, self.account, self.stage)
        self.findings.figures["their earlier runners were ended by"] = dict(self._ends_of_once())
        return self.findings

    async def _for_so_long(self, seconds: float, *endless: Coroutine[Any, Any, None]) -> None:
        """Run all of these concurrently for that many seconds.

        Raises:
            Exception: the error of one of them.
        """
        tasks = [asyncio.create_task(each) for each in endless]
        try:
            await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            failed = [task for task in tasks if task.done()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in failed:
            task.result()

    async def _change_the_weather(self) -> None:
        """Alternate calm and storms: odd answers to some, or an outage of the table or of all."""
        while True:
            self.weather.clear()
            await asyncio.sleep(self.rng.uniform(*_CALM_S))
            kinds = self.rng.sample(AT_ONCE, self.rng.randint(1, 4))
            storm = self.rng.choice(["odd answers", "odd answers", "table outage", "outage"])
            self.storms[storm] += 1
            if storm == "odd answers":
                self.weather.turn(self.rng.choice([0.05, 0.3, 0.6]), kinds)
                await asyncio.sleep(self.rng.uniform(*_STORM_S))
            else:
                self.weather.turn(1, kinds, TABLE if storm == "table outage" else frozenset())
                await asyncio.sleep(self.rng.uniform(*_OUTAGE_S))

    async def _live(self) -> None:
        """Run one worker after the other, each cut off at a random moment."""
        while True:
            async with self._worker(ready=None) as worker:
                await asyncio.sleep(self.rng.uniform(*_LIFE_S))
                self.findings.expect(worker.alive, f"a worker ended by itself: {worker.log}")
                number = self.rng.choice(_SIGNALS)
                self.cut[number.name] += 1
                self.ends[worker.pid] = number.name
                worker.send(number)
                code = await worker.ended()
                in_order = number is signal.SIGKILL or READY not in worker.log or code in _IN_ORDER
                self.findings.expect(in_order, f"{number.name} ended with {code}")

    async def _submit(self) -> None:
        """Run one submitter after the other on one spool, each killed in the middle of a batch."""
        while True:
            async with self._submitter() as submitter:
                for _ in range(self.rng.randint(*_BATCHES)):
                    kind = self.rng.choice(KINDS)
                    ids = await submitter.submit(kind, _BATCH)
                    self.account.submitted.update(ids)
                    if kind == ONCE:
                        self.account.once.update(ids)
                    self.findings.expect(len(ids) == _BATCH, "submit raised in spite of its spool")
                    await asyncio.sleep(_BATCH_PAUSE_S)
                # Some jobs of this batch may have been kept, though their submitter never learned
                # of it.
                doomed = asyncio.create_task(submitter.submit("quick", _BATCH))
                await asyncio.sleep(self.rng.uniform(0, _BATCH_PAUSE_S))
                doomed.cancel()
                await asyncio.gather(doomed, return_exceptions=True)
                await submitter.kill()
                self.cut["submitters killed"] += 1

    async def _watch(self, elder: WorkerProcess) -> None:
        process = psutil.Process(elder.pid)
        while True:
            self.findings.expect(elder.alive, "the worker that nobody cuts off has ended")
            if not elder.alive:
                return
            self.memory_mb.append(process.memory_info().rss / 2**20)
            self.account.read()
            await asyncio.sleep(_LOOK_S)

    async def _rest(self, elder: WorkerProcess) -> None:
        """Wait until all jobs have been sent and run, and end the last worker in order."""
        async with self._submitter() as submitter:
            await until(self._is_sent, within_s=_BOUND_S)
            await submitter.end()
        await all_is_settled(self.stage, elder, within_s=_BOUND_S)
        elder.send(signal.SIGTERM)
        code = await elder.ended()
        self.findings.expect(code == EXIT_CLEAN, f"the last worker ended with {code}")
        self.findings.expect("Traceback" not in elder.log, "the last worker logged a traceback")

    def _is_sent(self) -> bool:
        """Return True if nothing is left in the spool."""
        file = SpoolFile(Spool(self.directory / "jobs.spool"), SystemClock())
        try:
            waiting, _ = file.totals()
        finally:
            file.close()
        return not waiting

    def _worker(self, ready: str | None = READY) -> WorkerProcess:
        return self.stage.process(
            QUEUE, endpoint_url=self.proxy.endpoint_url, ready=ready, keep=remarkable
        )

    def _submitter(self) -> Submitter:
        env = self.stage.environment(endpoint_url=self.proxy.endpoint_url)
        return Submitter(self.directory / "jobs.spool", env, app=self.stage.fixture.path)

    def _ends_of_once(self) -> Counter[str]:
        """Count the jobs with ``once=True`` that ended twice, by the end of an earlier runner."""
        again = self.account.twice & self.account.once
        runners = (self.account.starters[job_id][:-1] for job_id in sorted(again))
        return Counter(
            "/".join(sorted({self.ends.get(pid, "none") for pid in pids})) for pids in runners
        )

    def _tell(self, seconds: float) -> None:
        first, last = _ends(self.memory_mb)
        self.findings.figures |= {
            "minutes": round(seconds / 60, 1),
            "storms": dict(sorted(self.storms.items())),
            "cut off": dict(sorted(self.cut.items())),
            "requests": self.proxy.requests.total(),
            "answered oddly": self.weather.drawn.total(),
            "memory of one worker, MB": f"{first:.0f} -> {last:.0f}",
        }
        if seconds >= _WARM_S:
            said = f"memory grew: {first:.0f} to {last:.0f} MB"
            self.findings.expect(last <= first * _GROWTH, said)


def _ends(samples: Sequence[float]) -> tuple[float, float]:
    """Return the means over the first and the last tenth."""
    tenth = max(1, len(samples) // 10)
    return statistics.fmean(samples[:tenth]), statistics.fmean(samples[-tenth:])
