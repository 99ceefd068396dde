"""The fate of jobs whose worker is killed or stopped, or which take very long.

A job's start and its end are both recorded, so that every job can be accounted for. Speed is not
measured: several trials may run side by side.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.processes import WorkerProcess
from benchmarks.stage import Stage
from benchmarks.tally import Runs
from headgate.jobs.aws.sqs.transport import SqsTransport
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.core.topology import MAX_BATCH

JOB_S = 0.05
"""Mean duration of a job. Jobs of equal length would all end, and then begin, at once."""

_START_BOUND_S = 120.0
_EMPTY_BOUND_S = 90.0
_STOP_BOUND_S = 30.0
"""ECS's own bound in seconds, after which it kills the process."""
_LOOK_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The moment at which a drain is cut, at no particular point of a worker's activity."""

    ends: int
    """Number of jobs that have ended."""
    pause_s: float
    """Seconds that have passed since, at most a job's duration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """The outcome of one ``kill -9`` in the midst of a drain, after another worker did the rest."""

    lost: int
    """Number of jobs that never ended, and whose message is gone."""
    running: int
    """Number of jobs that had begun and not ended at the kill, and have to begin again."""
    again: int
    """Number of other jobs that began twice, mostly ended ones with messages not deleted yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """The outcome of one SIGTERM in the midst of a drain, after another worker did the rest."""

    lost: int
    twice: int
    """Number of jobs that began twice."""
    hidden: int
    """Number of messages in flight right after the process's end, which nobody could receive."""
    seconds: float
    """Seconds from the signal to the end of the process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LongJob:
    """The outcome of one job that takes longer than its visibility timeout."""

    starts: int
    ends: int
    left: int
    """Number of messages left in the queue at the end of the watch; 0 is correct."""


class Trial:
    """A queue with jobs, and the record of their starts and ends.

    Args:
        stage: the contestant's stage, used by no other trial meanwhile.
        sqs: inspects the queue, independently of the contestant.
        bodies: one message for each job, all different.
    """

    def __init__(self, stage: Stage, sqs: SqsTransport, bodies: Sequence[OutgoingMessage]) -> None:
        self._stage = stage
        self._sqs = sqs
        self._bodies = bodies
        (self._queue,) = stage.queues("drain")

    def kill(self, folder: Path, moment: Moment) -> Killed:
        """Kill the first worker at this moment."""
        with tempfile.TemporaryDirectory(dir=folder) as own:
            runs = self._fill(Path(own))
            with self._stage.followed(runs, job_s=JOB_S, spread=1) as worker:
                self._cut(moment, runs, worker)
                worker.kill()
            running = runs.running()
            lost = self._finish(runs)
            again = {number for number, times in runs.started().items() if times > 1} - running
        return Killed(lost=lost, running=len(running), again=len(again))

    def stop(self, folder: Path, moment: Moment) -> Stopped:
        """Send SIGTERM to the first worker at this moment."""
        with tempfile.TemporaryDirectory(dir=folder) as own:
            runs = self._fill(Path(own))
            with self._stage.followed(runs, job_s=JOB_S, spread=1) as worker:
                self._cut(moment, runs, worker)
                seconds = worker.stop(_STOP_BOUND_S)
                hidden = self._sqs.depth(self._queue).in_flight
            lost = self._finish(runs)
            twice = sum(times > 1 for times in runs.started().values())
        return Stopped(lost=lost, twice=twice, hidden=hidden, seconds=seconds)

    def last(self, folder: Path, job_s: float, watch_s: float) -> LongJob:
        """Run the first job, which lasts ``job_s``, and watch it for ``watch_s`` from its start."""
        with tempfile.TemporaryDirectory(dir=folder) as own:
            runs = self._fill(Path(own))
            with self._stage.followed(runs, job_s=job_s) as worker:
                if not runs.starts.wait(1, within_s=_START_BOUND_S, check=worker.check):
                    raise TimeoutError(f"{self._stage.contestant.name} began no job")
                time.sleep(watch_s)
                worker.check()
                return LongJob(
                    starts=runs.starts.count(), ends=runs.ends.count(), left=self._left()
                )

    def _fill(self, folder: Path) -> Runs:
        if self._left():  # by a contestant that does not delete messages of jobs that have run
            self._stage.clear("drain")
        for first in range(0, len(self._bodies), MAX_BATCH):
            if failures := self._sqs.send(self._queue, self._bodies[first : first + MAX_BATCH]):
                raise RuntimeError(f"{self._queue} did not take a message: {failures[0]}")
        return Runs(folder)

    def _cut(self, moment: Moment, runs: Runs, worker: WorkerProcess) -> None:
        ends, total = runs.ends, len(self._bodies)
        if not ends.wait(moment.ends, within_s=_START_BOUND_S, every_s=0.002, check=worker.check):
            raise TimeoutError(f"{ends.count()} of {moment.ends} jobs ended")
        time.sleep(moment.pause_s)
        if ends.count() >= total:
            raise RuntimeError(f"all {total} jobs had ended before the drain was cut")

    def _finish(self, runs: Runs) -> int:
        """Let another worker do the rest; return the number of lost jobs."""
        with self._stage.followed(runs, job_s=JOB_S, spread=1) as worker:
            deadline = time.monotonic() + _EMPTY_BOUND_S
            while (left := self._left()) and time.monotonic() < deadline:
                worker.check()
                time.sleep(_LOOK_S)
        return max(0, len(self._bodies) - len(runs.ended()) - left)

    def _left(self) -> int:
        return self._sqs.depth(self._queue).total
