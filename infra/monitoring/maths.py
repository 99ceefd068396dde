"""Metric maths: expressions over CloudWatch's metrics, for alarms, the dashboard and scaling.

Every metric of an expression is FILLed where a missing value means 0, since SQS and Headgate
publish nothing while idle. No CDK in here.
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/using-metric-math.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from headgate.infra.monitoring.metrics import Series


def numbered(
    variable: str, queues: Iterable[str], metric: Callable[[str], Series]
) -> dict[str, Series]:
    """Return one metric of each queue, by a variable with the queue's number."""
    return {f"{variable}{number}": metric(queue) for number, queue in enumerate(queues)}


def filled(metric: str) -> str:
    """Return an expression for the metric, or 0 where it has no value."""
    return f"FILL({metric}, 0)"


def total(metrics: Iterable[str]) -> str:
    """Return an expression for the sum of metrics."""
    return f"SUM([{', '.join(map(filled, metrics))}])"


def highest(metrics: Iterable[str]) -> str:
    """Return an expression for the highest of metrics."""
    return f"MAX([{', '.join(map(filled, metrics))}])"


def added(terms: Iterable[str]) -> str:
    """Return an expression for the sum of expressions."""
    return " + ".join(terms)


def failed_percent(failed: str, completed: str) -> str:
    """Return an expression for the percentage of failed runs; without any run it has no value."""
    return f"100 * {filled(failed)} / ({filled(failed)} + {filled(completed)})"


def rate(part: str, whole: str, *, at_least: int) -> str:
    """Return an expression for the percentage of ``part`` in ``whole``, which are expressions too.

    It is 0 while ``part`` is less than ``at_least``: one failure of two says little.
    """
    return f"IF({part} >= {at_least}, 100 * ({part}) / ({whole}), 0)"
