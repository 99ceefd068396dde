"""Metrics for CloudWatch, as lines of the embedded metric format on standard output.

Their names are those of `jobs.deployment.metric_names`, in workers and in functions: one dashboard
shows jobs wherever they run. A line holds at most 99 durations or waits, sampled evenly. Each flush
writes one line per job type and one per lane, so that the output does not grow with the number of
jobs.
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headgate.jobs.core.events import Event
from headgate.jobs.deployment.metric_names import MOST_VALUES, NAMESPACE, Dimensions, measured
from headgate.jobs.errors import LibraryMissing


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
class _Measured:
    """The metrics of one job type, or of one lane, since the last line."""

    counts: Counter[str] = field(default_factory=Counter)
    samples: defaultdict[str, _Sample] = field(default_factory=lambda: defaultdict(_Sample))
    """By metric, in seconds."""


class MetricLines:
    """A subscriber that counts events, and writes the metrics when it is flushed.

    Args:
        service: the app's name, with its stage's if any.
        rng: picks the samples.
        write: writes one line.

    Raises:
        LibraryMissing: aws-lambda-powertools is not installed.
    """

    def __init__(
        self, service: str, *, rng: random.Random, write: Callable[[str], Any] = print
    ) -> None:
        try:
            import aws_lambda_powertools.metrics  # noqa: F401 - fails now and not in a minute
        except ImportError as error:
            raise LibraryMissing(
                "writing metrics for CloudWatch", "aws-lambda-powertools", "headgate[emf]"
            ) from error
        self._service = service
        self._rng = rng
        self._write = write
        self._measured: defaultdict[Dimensions, _Measured] = defaultdict(_Measured)

    def __call__(self, event: Event) -> None:
        """Count an event."""
        for dimensions, name, seconds in measured(event):
            each = self._measured[dimensions]
            if seconds is None:
                each.counts[name] += 1
            else:
                each.samples[name].add(seconds, self._rng)

    def flush(self) -> None:
        """Write the metrics counted since the last flush."""
        measured, self._measured = self._measured, defaultdict(_Measured)
        for dimensions, each in measured.items():
            values = {name: sample.values for name, sample in each.samples.items()}
            self._write(metric_line(self._service, dimensions, each.counts, values))


def metric_line(
    service: str,
    dimensions: Dimensions,
    counts: Mapping[str, float],
    seconds: Mapping[str, Iterable[float]] | None = None,
) -> str:
    """Return one line of the embedded metric format.

    Args:
        service: the value of the dimension ``service``.
        dimensions: the other dimensions.
        counts: counters and other numbers, by metric.
        seconds: up to `MOST_VALUES` values of each further metric.
    """
    from aws_lambda_powertools.metrics.provider.cloudwatch_emf.cloudwatch import (
        AmazonCloudWatchEMFProvider,
    )

    # A new one for each line, so that no dimensions or values carry over.
    emf = AmazonCloudWatchEMFProvider(namespace=NAMESPACE, service=service)
    for name, value in dimensions:
        emf.add_dimension(name, value)
    for name, count in counts.items():
        emf.add_metric(name, "Count", count)
    for name, values in (seconds or {}).items():
        for each in values:
            emf.add_metric(name, "Seconds", each)
    return json.dumps(emf.serialize_metric_set())
