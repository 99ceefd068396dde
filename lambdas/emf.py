"""Metrics for CloudWatch, as lines of the embedded metric format on standard output.

Their names are those of `jobs.deployment.metric_names`, which workers use, too: one dashboard shows
jobs wherever they run. A line has at most 99 durations or waits, spread over the invocation.
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from aws_lambda_powertools.metrics.provider.cloudwatch_emf.cloudwatch import (
    AmazonCloudWatchEMFProvider,
)

from headgate.jobs.core.events import Event
from headgate.jobs.definitions.app import App
from headgate.jobs.deployment.metric_names import (
    MOST_VALUES,
    NAMESPACE,
    Dimensions,
    measured,
    service_name,
)


@dataclass(slots=True)
class _Told:
    """The measurements of one type's jobs, or one lane's, in an invocation."""

    counts: Counter[str] = field(default_factory=Counter)
    values: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Durations in seconds, by metric."""


class Emf:
    """A subscriber that counts, and writes lines at the end of an invocation.

    Args:
        app: the app, whose name and stage are the metrics' service.
        write: writes one line.
    """

    def __init__(self, app: App, *, write: Callable[[str], Any] = print) -> None:
        self._service = service_name(app.name, app.stage)
        self._write = write
        self._told: defaultdict[Dimensions, _Told] = defaultdict(_Told)

    def __call__(self, event: Event) -> None:
        """Measure an event."""
        for dimensions, name, seconds in measured(event):
            told = self._told[dimensions]
            if seconds is None:
                told.counts[name] += 1
            else:
                told.values[name].append(seconds)

    def flush(self) -> None:
        """Write everything counted since the last call."""
        told, self._told = self._told, defaultdict(_Told)
        for dimensions, each in told.items():
            # A new provider for each line, since it keeps its metrics and dimensions.
            emf = AmazonCloudWatchEMFProvider(namespace=NAMESPACE, service=self._service)
            for name, value in dimensions:
                emf.add_dimension(name, value)
            for name, count in each.counts.items():
                emf.add_metric(name, "Count", count)
            for name, values in each.values.items():
                for seconds in _spread(values):
                    emf.add_metric(name, "Seconds", seconds)
            self._write(json.dumps(emf.serialize_metric_set()))


def _spread(values: Sequence[float]) -> Sequence[float]:
    """Return at most as many values as a line takes, spread from the first to the last."""
    return values[:: -(-len(values) // MOST_VALUES)]
