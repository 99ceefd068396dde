"""Metrics and expressions as CDK takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from headgate.infra.monitoring.metrics import Series

MINUTE = Duration.minutes(1)
"""The period of the dashboard's graphs, and the shortest that CloudWatch has for these metrics."""


def as_metric(series: Series, *, period: Duration = MINUTE, **options: Any) -> cloudwatch.Metric:
    """Return a metric; ``options`` are those of CDK's `Metric`, which replace the series' own."""
    own: dict[str, Any] = {
        "statistic": series.statistic,
        "dimensions_map": dict(series.dimensions),
        "period": period,
    }
    return cloudwatch.Metric(namespace=series.namespace, metric_name=series.name, **(own | options))


def as_expression(
    expression: str,
    metrics: Mapping[str, Series],
    *,
    label: str,
    period: Duration = MINUTE,
    **options: Any,
) -> cloudwatch.MathExpression:
    """Return an expression over metrics; ``options`` are those of CDK's `Metric`, for each."""
    return cloudwatch.MathExpression(
        expression=expression,
        using_metrics={
            name: as_metric(series, period=period, **options) for name, series in metrics.items()
        },
        label=label,
        period=period,
    )
