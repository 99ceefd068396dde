"""The parts of the benchmark in which workers are killed, stopped, kept busy, or soaked."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from benchmarks.contestants import (
    BARE_POLLERS,
    CELERY_GEVENT,
    DRAMATIQ,
    HEADGATE,
    TASKIQ,
    Contestant,
)
from benchmarks.results import Collector
from benchmarks.scale import Scale
from benchmarks.soak import Soaked, soak
from benchmarks.stage import REGION, Stage
from benchmarks.trials import JOB_S, LongJob, Moment, Trial
from headgate.jobs.aws.sqs.transport import SqsTransport
from headgate.jobs.core.ports.transport import OutgoingMessage

T = TypeVar("T")
U = TypeVar("U")

_OTHERS = (CELERY_GEVENT, DRAMATIQ, TASKIQ, BARE_POLLERS)
_EVERYONE = (HEADGATE, *_OTHERS)

_KILL_VISIBILITY_S = 3
_STOP_VISIBILITY_S = 30
"""Longer than a stop may take, so that hidden messages are still hidden when they are counted."""

_SAMPLE_S = 0.1
_PEERS_SAMPLE_S = 0.5
_SOAK_BODIES = 1_000


class Hardship:
    """These parts, on one server.

    Args:
        server: the server's URL.
        folder: the folder of the workers' tallies.
        scale: number and length of the trials.
        results: collects the figures.
        say: receives progress messages.
    """

    def __init__(
        self,
        server: str,
        folder: Path,
        scale: Scale,
        results: Collector,
        say: Callable[[str, str], None],
    ) -> None:
        self._server = server
        self._folder = folder
        self._scale = scale
        self._results = results
        self._say = say

    def kill(self) -> None:
        """Measure ``kill -9`` in the midst of a drain."""
        scale = self._scale
        for contestant in _EVERYONE:
            self._say("kill", contestant.name)
            count = scale.kills if contestant is HEADGATE else scale.peer_kills
            found = self._side_by_side(contestant, "kill", _KILL_VISIBILITY_S, count, Trial.kill)
            for each in found:
                self._results.add("kill-lost", contestant.name, each.lost)
                self._results.add("kill-running", contestant.name, each.running)
                self._results.add("kill-again", contestant.name, each.again)

    def stop(self) -> None:
        """Measure SIGTERM in the midst of a drain."""
        for contestant in _EVERYONE:
            self._say("stop", contestant.name)
            stops = self._scale.stops
            found = self._side_by_side(contestant, "stop", _STOP_VISIBILITY_S, stops, Trial.stop)
            for each in found:
                self._results.add("stop-lost", contestant.name, each.lost)
                self._results.add("stop-twice", contestant.name, each.twice)
                self._results.add("stop-hidden", contestant.name, each.hidden)
                self._results.add("stop-seconds", contestant.name, each.seconds)

    def long(self) -> None:
        """Measure one job longer than its visibility timeout; all contestants side by side."""
        scale = self._scale
        self._say("long", "all side by side")

        def last(contestant: Contestant) -> LongJob:
            with self._trial(contestant, "-long", scale.long_visibility_s, 1) as trial:
                return trial.last(self._folder, scale.long_job_s, scale.long_watch_s)

        for contestant, found in zip(_EVERYONE, _in_threads(last, _EVERYONE), strict=True):
            self._results.add("long-starts", contestant.name, found.starts)
            self._results.add("long-ends", contestant.name, found.ends)
            self._results.add("long-left", contestant.name, found.left)

    def soak(self) -> None:
        """Measure memory over very many jobs: Headgate's alone, then the others' side by side."""
        self._say("soak", HEADGATE.name)
        self._add_soaked(HEADGATE, self._soak(HEADGATE))
        self._say("soak", "the others side by side")
        for contestant, found in zip(_OTHERS, _in_threads(self._soak, _OTHERS), strict=True):
            self._add_soaked(contestant, found)

    def _soak(self, contestant: Contestant) -> Soaked:
        scale, ours = self._scale, contestant is HEADGATE
        jobs = scale.soak_jobs if ours else scale.peer_soak_jobs
        stage = Stage(contestant, self._server, self._folder, lane="-soak")
        bodies = self._recorded(stage, min(jobs, _SOAK_BODIES))
        return soak(
            stage,
            self._server,
            bodies,
            jobs,
            every_s=_SAMPLE_S if ours else _PEERS_SAMPLE_S,
            ask=ours,
        )

    def _add_soaked(self, contestant: Contestant, found: Soaked) -> None:
        name = contestant.name
        self._results.add("soak-memory", name, found.last_mb)
        self._results.add("soak-growth", name, found.growth)
        self._results.add_curve("soak", name, found.curve)
        if found.left is not None:
            self._results.add("soak-left", name, found.left)

    def _side_by_side(
        self,
        contestant: Contestant,
        kind: str,
        visibility_s: int,
        count: int,
        run: Callable[[Trial, Path, Moment], T],
    ) -> list[T]:
        """Run that many trials, several at once on separate queues, each cut at another moment."""
        lanes = min(count, self._scale.at_once)
        jobs = self._scale.trial_jobs
        rng = random.Random(count)  # noqa: S311 - spreads the moments
        moments = [
            Moment(ends=rng.randint(jobs // 10, jobs * 4 // 10), pause_s=rng.uniform(0, JOB_S))
            for _ in range(count)
        ]

        def lane(number: int) -> list[T]:
            with self._trial(contestant, f"-{kind}{number}", visibility_s, jobs) as trial:
                return [run(trial, self._folder, moment) for moment in moments[number::lanes]]

        return [found for each in _in_threads(lane, range(lanes)) for found in each]

    @contextmanager
    def _trial(
        self, contestant: Contestant, lane: str, visibility_s: int, jobs: int
    ) -> Iterator[Trial]:
        stage = Stage(contestant, self._server, self._folder, lane=lane, visibility_s=visibility_s)
        bodies = self._recorded(stage, jobs)
        with SqsTransport(endpoint_url=self._server, region=REGION) as sqs:
            yield Trial(stage, sqs, bodies)

    def _recorded(self, stage: Stage, count: int) -> list[OutgoingMessage]:
        """Return that many messages submitted by the contestant itself."""
        stage.clear("drain")
        stage.submit("drain", 0, count, self._server)
        return stage.record(stage.queues("drain")[0], count)


def _in_threads(call: Callable[[U], T], arguments: Sequence[U]) -> list[T]:
    with ThreadPoolExecutor(len(arguments)) as threads:
        return list(threads.map(call, arguments))
