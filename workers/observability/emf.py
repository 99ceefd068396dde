"""Metrics for CloudWatch, as lines of the embedded metric format on standard output.

Their names are those of `jobs.deployment.metric_names`. Of durations and waits a line has 99 at
most, sampled evenly. One line a minute and type, and one a lane, so that a busy worker writes no
more than an idle one.
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from headgate.jobs.core.events import Event
from headgate.jobs.deployment.metric_names import MOST_VALUES, NAMESPACE, Dimensions, measured
from headgate.jobs.errors import ConfigurationError

_EVERY_S = 60.0


@dataclass(slots=True)
class _Sample:
    """An even sample of values, however many come (Vitter's algorithm R)."""

    values: list[float] = field(default_factory=list)
    seen: int = 0

    def add(self, value: float, rng: random.Random) -> None:
        self.seen += 1
        if len(self.values) < MOST_VALUES:
            self.values.append(value)
        elif (place := rng.randrange(self.seen)) < MOST_VALUES:
            self.values[place] = value


@dataclass(slots=True)
class _Told:
    """What happened since the last line to the jobs of one type, or of one lane."""

    counts: Counter[str] = field(default_factory=Counter)
    values: defaultdict[str, _Sample] = field(default_factory=lambda: defaultdict(_Sample))
    """By metric, in seconds."""


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
        self._told: defaultdict[Dimensions, _Told] = defaultdict(_Told)

    def __call__(self, event: Event) -> None:
        """Subscriber."""
        for dimensions, name, seconds in measured(event):
            told = self._told[dimensions]
            if seconds is None:
                told.counts[name] += 1
            else:
                told.values[name].add(seconds, self._rng)

    async def run(self) -> None:
        """Write every minute until cancelled."""
        while True:
            await asyncio.sleep(_EVERY_S)
            self.flush()

    def flush(self) -> None:
        """Write what has been counted since the last time."""
        told, self._told = self._told, defaultdict(_Told)
        for dimensions, each in told.items():
            self._write(self._line(dimensions, each))

    def _line(self, dimensions: Dimensions, told: _Told) -> str:
        from aws_lambda_powertools.metrics.provider.cloudwatch_emf.cloudwatch import (
            AmazonCloudWatchEMFProvider,
        )

        # One for each line: what it has counted and named is thus its own.
        emf = AmazonCloudWatchEMFProvider(namespace=NAMESPACE, service=self._service)
        for name, value in dimensions:
            emf.add_dimension(name, value)
        for name, count in told.counts.items():
            emf.add_metric(name, "Count", count)
        for name, sample in told.values.items():
            for seconds in sample.values:
                emf.add_metric(name, "Seconds", seconds)
        return json.dumps(emf.serialize_metric_set())
