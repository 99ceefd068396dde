"""What becomes of jobs when their worker is killed or stopped, or when they take very long.

A job's start and its end are both written down, so that every job can be accounted for. These are
no measurements of speed: several trials may go on side by side.
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
from headgate.jobs.core.ports import OutgoingMessage
from headgate.jobs.core.topology import MAX_BATCH

JOB_S = 0.05
"""On average. Jobs of one length would all end at once, and a moment later all begin at once."""

_START_BOUND_S = 120.0
_EMPTY_BOUND_S = 90.0
_STOP_BOUND_S = 30.0
"""ECS's own bound: what has not ended by then is killed."""
_LOOK_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """When a drain is cut: at no particular point of what a worker does."""

    ends: int
    """So many jobs have ended."""
    pause_s: float
    """And so long has passed since, up to as long as a job takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """What one ``kill -9`` in the midst of a drain led to, after another worker did the rest."""

    lost: int
    """Jobs that never ended, and whose message is gone."""
    running: int
    """Jobs that had begun and not ended at the kill: these have to begin again."""
    again: int
    """Other jobs that began twice: most had ended, but their messages were not deleted yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """What one SIGTERM in the midst of a drain led to, after another worker did the rest."""

    lost: int
    twice: int
    """Jobs that began twice."""
    hidden: int
    """Messages in flight right after the process had ended, so that nobody could have them."""
    seconds: float
    """From the signal to the end of the process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LongJob:
    """What became of one job that takes longer than its visibility timeout."""

    starts: int
    ends: int
    left: int
    """Messages left in the queue when the watch was over; 0 is right."""


class Trial:
    """A queue with jobs, and a sheet on which they write down what they do.

    Args:
        stage: the contestant's, used by no other trial meanwhile.
        sqs: looks at the queue, past the contestant.
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
        """Run the first job, which takes so long, and watch for so long from its start on."""
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
        if self._left():  # by a contestant that does not delete what has run
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
        """Let another worker do the rest; returns how many jobs are lost."""
        with self._stage.followed(runs, job_s=JOB_S, spread=1) as worker:
            deadline = time.monotonic() + _EMPTY_BOUND_S
            while (left := self._left()) and time.monotonic() < deadline:
                worker.check()
                time.sleep(_LOOK_S)
        return max(0, len(self._bodies) - len(runs.ended()) - left)

    def _left(self) -> int:
        depth = self._sqs.depth(self._queue)
        return depth.visible + depth.in_flight + depth.delayed
