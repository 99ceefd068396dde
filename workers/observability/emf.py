"""Metrics for CloudWatch, as lines of the embedded metric format on standard output.

Their names are those of `jobs.deployment.metric_names`. A line holds at most 99 durations or waits,
sampled evenly. Each minute has one line per job type and one per lane, so that the output does not
grow with the number of jobs.
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
    """An even sample of any number of values (Vitter's algorithm R)."""

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
    """The metrics of one job type, or of one lane, since the last line."""

    counts: Counter[str] = field(default_factory=Counter)
    values: defaultdict[str, _Sample] = field(default_factory=lambda: defaultdict(_Sample))
    """By metric, in seconds."""


class Emf:
    """A subscriber that counts events, and writes the metrics once a minute.

    Args:
        service: the app's name, with its stage's if any.
        rng: picks the samples.
        write: writes one line.

    Raises:
        ConfigurationError: aws-lambda-powertools is not installed.
    """

    def __init__(
        self, service: str, *, rng: random.Random, write: Callable[[str], Any] = print
    ) -> None:
        try:
            import aws_lambda_powertools.metrics  # noqa: F401 - fails now and not in a minute
        except ImportError as error:
            raise ConfigurationError(
                "metrics for CloudWatch need aws-lambda-powertools: pip install 'headgate[emf]'"
            ) from error
        self._service = service
        self._rng = rng
        self._write = write
        self._told: defaultdict[Dimensions, _Told] = defaultdict(_Told)

    def __call__(self, event: Event) -> None:
        """Count an event."""
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
        """Write the metrics counted since the last flush."""
        told, self._told = self._told, defaultdict(_Told)
        for dimensions, each in told.items():
            self._write(self._line(dimensions, each))

    def _line(self, dimensions: Dimensions, told: _Told) -> str:
        from aws_lambda_powertools.metrics.provider.cloudwatch_emf.cloudwatch import (
            AmazonCloudWatchEMFProvider,
        )

        # A new one for each line, so that no dimensions or values carry over.
        emf = AmazonCloudWatchEMFProvider(namespace=NAMESPACE, service=self._service)
        for name, value in dimensions:
            emf.add_dimension(name, value)
        for name, count in told.counts.items():
            emf.add_metric(name, "Count", count)
        for name, sample in told.values.items():
            for seconds in sample.values:
                emf.add_metric(name, "Seconds", seconds)
        return json.dumps(emf.serialize_metric_set())
