"""Metrics and expressions as CDK takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict, Unpack

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from headgate.infra.monitoring.metrics import Series


class MetricOptions(TypedDict, total=False):
    """CDK's options of a metric, which replace its own; `aws_cdk.aws_cloudwatch.MetricOptions`."""

    account: str
    color: str
    dimensions_map: Mapping[str, str]
    id: str
    label: str
    period: Duration
    region: str
    statistic: str
    unit: cloudwatch.Unit
    visible: bool


MINUTE = Duration.minutes(1)
"""The period of the dashboard's graphs, and the shortest that CloudWatch has for these metrics."""


def as_metric(series: Series, **options: Unpack[MetricOptions]) -> cloudwatch.Metric:
    """Return a metric; its period is a minute unless the options say otherwise.

    One that is another account's is asked for there, whatever they say.
    """
    own: MetricOptions = {
        "statistic": series.statistic,
        "dimensions_map": dict(series.dimensions),
        "period": MINUTE,
    }
    owner: MetricOptions = {"account": series.account} if series.account is not None else {}
    return cloudwatch.Metric(
        namespace=series.namespace, metric_name=series.name, **(own | options | owner)
    )


def as_expression(
    expression: str,
    metrics: Mapping[str, Series],
    *,
    label: str,
    period: Duration = MINUTE,
    place: MetricOptions | None = None,
) -> cloudwatch.MathExpression:
    """Return an expression over metrics of one period; ``place`` is their account and region."""
    common: MetricOptions = {"period": period, **(place or {})}
    return cloudwatch.MathExpression(
        expression=expression,
        using_metrics={name: as_metric(series, **common) for name, series in metrics.items()},
        label=label,
        period=period,
    )
