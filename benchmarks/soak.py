"""Memory over very many jobs, and what a worker has left open when it ends."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.stage import Stage
from headgate.jobs.core.ports.transport import OutgoingMessage

_START_BOUND_S = 120.0
_RUN_BOUND_S = 600.0
_STOP_BOUND_S = 40.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Soaked:
    """A worker's memory while it processed that many jobs."""

    curve: tuple[tuple[int, float], ...]
    """Pairs of the jobs run so far and the worker's memory in MB (RSS)."""
    first_mb: float
    """The mean over the first tenth of the jobs."""
    last_mb: float
    """The mean over the last tenth of the jobs."""
    left: int | None
    """Tasks and sockets still open after the worker's end; None if it can't be asked."""

    @property
    def growth(self) -> float:
        """The last tenth's memory as a multiple of the first tenth's."""
        return self.last_mb / self.first_mb


def soak(
    stage: Stage,
    server: str,
    bodies: Sequence[OutgoingMessage],
    jobs: int,
    *,
    every_s: float,
    ask: bool,
) -> Soaked:
    """Watch one worker over that many no-op jobs; ``ask`` Headgate's what it left open."""
    stage.clear("drain")
    (queue,) = stage.queues("drain")
    stage.load(queue, bodies, jobs)
    curve: list[tuple[int, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "left"
        with stage.working("drain", endpoint_url=server, left=told if ask else None) as running:
            worker, tally = running
            if not tally.wait(1, within_s=_START_BOUND_S, check=worker.check):
                raise TimeoutError(f"{stage.contestant.name} ran no job")
            deadline = time.monotonic() + _RUN_BOUND_S
            while not curve or curve[-1][0] < jobs:
                worker.check()
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{stage.contestant.name} ran {tally.count()} of {jobs}")
                curve.append((tally.count(), worker.resident_mb()))
                time.sleep(every_s)
            if ask:
                worker.stop(_STOP_BOUND_S)
        left = _left(told) if ask else None
    return Soaked(
        curve=tuple(curve),
        first_mb=_mean([mb for count, mb in curve if count <= jobs / 10] or [curve[0][1]]),
        last_mb=_mean([mb for count, mb in curve if count >= jobs * 0.9]),
        left=left,
    )


def _left(told: Path) -> int:
    found = json.loads(told.read_text())
    return len(found["tasks"]) + int(found["sockets"])


def _mean(values: Sequence[float]) -> float:
    return statistics.fmean(values)
