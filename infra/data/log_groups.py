"""The log groups of functions and workers."""

from __future__ import annotations

from aws_cdk import RemovalPolicy
from aws_cdk import aws_logs as logs
from constructs import Construct


def add_log_group(scope: Construct) -> logs.LogGroup:
    """Add the log group of a function or of a group's workers.

    It keeps lines for a month and is deleted with its stack: the jobs' history is in their records.
    """
    return logs.LogGroup(
        scope,
        "Logs",
        retention=logs.RetentionDays.ONE_MONTH,
        removal_policy=RemovalPolicy.DESTROY,
    )
