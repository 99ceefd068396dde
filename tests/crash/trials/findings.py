"""A trial's figures, and all that should not have been."""

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
    """Figures by name, and promises that were broken."""

    figures: dict[str, object] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)

    def expect(self, holds: bool, otherwise: str) -> None:
        """Write down a promise that was broken."""
        if not holds:
            self.broken.append(otherwise)

    def lines(self) -> Iterable[str]:
        """For people."""
        for name, figure in self.figures.items():
            yield f"{name:<44}{figure}"
        for what in self.broken:
            yield f"BROKEN: {what}"


class Account:
    """The runs of the jobs that were submitted, and the processes of each.

    Args:
        journal: written by the jobs; each line of it is read once.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._offset = 0
        self.submitted: set[str] = set()
        self.once: set[str] = set()
        """Those of them that have ``once=True``."""
        self.done: Counter[str] = Counter()
        self.starters: dict[str, list[int]] = {}
        """The processes in which each job began, in order."""
        self.processes: set[int] = set()
        """All that have begun a job."""

    def read(self) -> None:
        """Take in what has been written since."""
        entries, self._offset = self._journal.entries_from(self._offset)
        for entry in entries:
            if entry.event == "done":
                self.done[entry.job_id] += 1
            elif entry.event == "start":
                self.starters.setdefault(entry.job_id, []).append(entry.pid)
                self.processes.add(entry.pid)

    @property
    def missing(self) -> set[str]:
        """Jobs that were submitted and have not ended so far."""
        self.read()
        return self.submitted - self.done.keys()

    @property
    def twice(self) -> set[str]:
        """Jobs that have ended more than once."""
        return {job_id for job_id, times in self.done.items() if times > 1}


async def parked(stage: Stage) -> dict[str, str]:
    """The jobs in the dead-letter queue and in quarantine, each with its reason; they are taken."""
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
    """Say what became of all jobs, once nothing is under way."""
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
