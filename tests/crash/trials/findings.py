"""A trial's figures, and the promises that it saw broken."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from headgate.jobs.messages.envelope import parse
from tests.crash.trials.app import QUEUE
from tests.support.journal import Journal
from tests.support.stage import EMPTY, Stage
from tests.support.workers import WorkerProcess

_LOOK_S = 0.2


@dataclass(slots=True)
class Findings:
    """Figures by name, and broken promises."""

    figures: dict[str, object] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)

    def expect(self, holds: bool, otherwise: str) -> None:
        """Record a broken promise, unless it holds."""
        if not holds:
            self.broken.append(otherwise)

    def lines(self) -> Iterable[str]:
        """Yield the findings as readable lines."""
        for name, figure in self.figures.items():
            yield f"{name:<44}{figure}"
        for what in self.broken:
            yield f"BROKEN: {what}"


class Account:
    """The runs of the submitted jobs, with the processes that ran them.

    Args:
        journal: written by the jobs; each line of it is read once.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._offset = 0
        self.submitted: set[str] = set()
        self.once: set[str] = set()
        """The submitted jobs that have ``once=True``."""
        self.done: Counter[str] = Counter()
        self.starters: dict[str, list[int]] = {}
        """The processes in which each job began, in order."""
        self.processes: set[int] = set()
        """All processes that have begun a job."""

    def read(self) -> None:
        """Read what has been written since the last time."""
        entries, self._offset = self._journal.entries_from(self._offset)
        for entry in entries:
            if entry.event == "done":
                self.done[entry.job_id] += 1
            elif entry.event == "start":
                self.starters.setdefault(entry.job_id, []).append(entry.pid)
                self.processes.add(entry.pid)

    @property
    def missing(self) -> set[str]:
        """Return the submitted jobs that have not ended so far."""
        self.read()
        return self.submitted - self.done.keys()

    @property
    def twice(self) -> set[str]:
        """Return the jobs that have ended more than once."""
        return {job_id for job_id, times in self.done.items() if times > 1}


async def parked(stage: Stage) -> dict[str, str]:
    """Take the jobs out of the dead-letter queue and the quarantine; return their reasons."""
    found: dict[str, str] = {}
    for name in (stage.queue(QUEUE).dlq_name, stage.app.topology.quarantine_name):
        while messages := await stage.sqs.receive(name, limit=10, wait_s=0):
            for message in messages:
                found[str(parse(message.body).id)] = message.attributes.get("Reason", "none")
            await stage.sqs.delete(name, [message.receipt for message in messages])
    return found


async def all_is_settled(stage: Stage, worker: WorkerProcess, *, within_s: float) -> None:
    """Wait until the queue holds nothing, or the last worker has ended.

    Raises:
        TimeoutError: neither happened.
    """
    async with asyncio.timeout(within_s):
        while worker.alive and await stage.depth(QUEUE) != EMPTY:  # noqa: ASYNC110 - see `until`
            await asyncio.sleep(_LOOK_S)


async def settle_accounts(findings: Findings, account: Account, stage: Stage) -> None:
    """Report on all jobs, once nothing is under way."""
    dead = await parked(stage)
    lost = account.missing - dead.keys()
    findings.figures |= {
        "jobs submitted": len(account.submitted),
        "run to their end": len(account.submitted & account.done.keys()),
        "parked": len(dead),
        "lost": len(lost),
        "ended twice or more": len(account.twice),
        "of these with once=True": len(account.twice & account.once),
    }
    findings.expect(not lost, f"{len(lost)} jobs are lost, such as {sorted(lost)[:3]}")
    findings.expect(not dead, f"{len(dead)} jobs were parked that do no harm")
