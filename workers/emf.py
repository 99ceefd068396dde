"""Metrics for CloudWatch, as lines of the embedded metric format on standard output.

    namespace Headgate, dimensions service, type and queue
    JobsCompleted JobsFailed JobsRetried JobsDeadLettered JobsQuarantined JobsDeferred
    JobsDiscarded JobsCancelled JobsInterrupted JobsCrashed
                                                  counts since the last line
    Duration Wait                                 seconds; at most 99 a line, sampled evenly

One line a minute and type, so that a busy worker writes no more than an idle one.
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jobs.errors import ConfigurationError
from jobs.events import Event, JobCompleted, JobEvent, JobFailed, JobStarted
from workers.metrics import OUTCOMES

if TYPE_CHECKING:
    from aws_lambda_powertools.metrics.provider.cloudwatch_emf.cloudwatch import (
        AmazonCloudWatchEMFProvider,
    )

NAMESPACE = "Headgate"

_EVERY_S = 60.0
_MOST_VALUES = 99
"""Of one metric in a line: CloudWatch takes 100, at which Powertools writes one by itself."""


@dataclass(slots=True)
class _Sample:
    """An even sample of values, however many come (Vitter's algorithm R)."""

    values: list[float] = field(default_factory=list)
    seen: int = 0

    def add(self, value: float, rng: random.Random) -> None:
        self.seen += 1
        if len(self.values) < _MOST_VALUES:
            self.values.append(value)
        elif (place := rng.randrange(self.seen)) < _MOST_VALUES:
            self.values[place] = value


@dataclass(slots=True)
class _Told:
    """What happened to one type's jobs on one queue since the last line."""

    counts: Counter[str] = field(default_factory=Counter)
    durations: _Sample = field(default_factory=_Sample)
    waits: _Sample = field(default_factory=_Sample)


class Emf:
    """A subscriber that counts, and writes what it counted once a minute.

    Args:
        service: the app's name, with its stage's if any.
        rng: samples.
        write: writes one line.

    Raises:
        ConfigurationError: aws-lambda-powertools is not installed.
    """

    def __init__(
        self, service: str, *, rng: random.Random, write: Callable[[str], Any] = print
    ) -> None:
        try:
            import aws_lambda_powertools.metrics  # noqa: F401 - found out now, not in a minute
        except ImportError as error:
            raise ConfigurationError(
                "metrics for CloudWatch need aws-lambda-powertools: pip install 'headgate[emf]'"
            ) from error
        self._service = service
        self._rng = rng
        self._write = write
        self._told: dict[tuple[str, str], _Told] = defaultdict(_Told)

    def __call__(self, event: Event) -> None:
        """Subscriber."""
        if not isinstance(event, JobEvent):
            return
        told = self._told[event.job_type, event.queue]
        if (outcome := OUTCOMES.get(type(event))) is not None:
            told.counts[_metric(outcome)] += 1
        if isinstance(event, JobCompleted | JobFailed):
            told.durations.add(event.ran_s, self._rng)
        elif isinstance(event, JobStarted) and event.attempt == 1:
            told.waits.add(event.waited_s, self._rng)

    async def run(self) -> None:
        """Write every minute until cancelled."""
        while True:
            await asyncio.sleep(_EVERY_S)
            self.flush()

    def flush(self) -> None:
        """Write what has been counted since the last time."""
        told, self._told = self._told, defaultdict(_Told)
        for (job_type, queue), each in told.items():
            if line := self._line(job_type, queue, each):
                self._write(line)

    def _line(self, job_type: str, queue: str, told: _Told) -> str | None:
        from aws_lambda_powertools.metrics.provider.cloudwatch_emf.cloudwatch import (
            AmazonCloudWatchEMFProvider,
        )

        # One for each line: what it has counted and named is thus its own.
        emf = AmazonCloudWatchEMFProvider(namespace=NAMESPACE, service=self._service)
        emf.add_dimension("type", job_type)
        emf.add_dimension("queue", queue)
        for name, count in told.counts.items():
            emf.add_metric(name, "Count", count)
        _add_all(emf, "Duration", told.durations)
        _add_all(emf, "Wait", told.waits)
        return json.dumps(emf.serialize_metric_set()) if emf.metric_set else None


def _add_all(emf: AmazonCloudWatchEMFProvider, name: str, sample: _Sample) -> None:
    for value in sample.values:
        emf.add_metric(name, "Seconds", value)


def _metric(outcome: str) -> str:
    return "Jobs" + "".join(word.capitalize() for word in outcome.split("_"))
