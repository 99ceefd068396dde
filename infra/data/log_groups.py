"""Where functions and workers write to."""

from __future__ import annotations

from aws_cdk import RemovalPolicy
from aws_cdk import aws_logs as logs
from constructs import Construct


def add_log_group(scope: Construct) -> logs.LogGroup:
    """The log group of a function or of a group's workers, which keeps lines for a month and goes
    with its stack: what happened to jobs is in their records."""
    return logs.LogGroup(
        scope,
        "Logs",
        retention=logs.RetentionDays.ONE_MONTH,
        removal_policy=RemovalPolicy.DESTROY,
    )
