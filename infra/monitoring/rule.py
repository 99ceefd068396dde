"""What an alarm is: a condition on metrics, and what it tells the person on call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headgate.infra.monitoring.metrics import Series

MOST_METRICS = 10
"""Of one alarm's expression, and so of one scaling policy's, which is made of alarms.
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarm-limits.html"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One alarm. It goes off when the last ``points`` of ``periods`` values are beyond the
    threshold.

    Every metric of an expression is FILLed, since SQS and Headgate write nothing of what is idle.
    CloudWatch's latest minute may not be there yet and is FILLed too: so an expression of minutes
    needs three of the last five.
    https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/using-metric-math.html
    """

    name: str
    """Without app and stage."""
    means: str
    """What has happened, to what."""
    causes: str
    """What is most likely behind it."""
    first: str
    """What to do first."""
    metrics: Mapping[str, Series]
    """By the names that the expression calls them; `MOST_METRICS` at most."""
    expression: str | None = None
    """None: the value of the only metric."""
    threshold: float
    at: bool = False
    """Whether the threshold itself is too much; else what is above it."""
    period_s: int
    periods: int = 1
    points: int = 1
    silence_alarms: bool = False
    """Whether it goes off when there is nothing to read; else that is well."""

    @property
    def description(self) -> str:
        """What whoever is woken by it reads."""
        return f"{self.means} Likely: {self.causes} First: {self.first}"


def rate(part: str, whole: str, *, at_least: int) -> str:
    """An expression: what percentage ``part`` is of ``whole``, or 0 while it is less than
    ``at_least``: one failure of two says little.

    Both are expressions themselves.
    """
    return f"IF({part} >= {at_least}, 100 * ({part}) / ({whole}), 0)"


def filled(metric: str) -> str:
    """An expression: the metric, or 0 where it has no value."""
    return f"FILL({metric}, 0)"
