"""The log groups of functions and workers."""

from __future__ import annotations

from aws_cdk import RemovalPolicy
from aws_cdk import aws_logs as logs
from constructs import Construct


def add_log_group(
    scope: Construct, removal_policy: RemovalPolicy = RemovalPolicy.DESTROY
) -> logs.LogGroup:
    """Add the log group of a function or of a group's workers; it keeps lines for a month.

    The jobs' history is in their records, so it may be deleted with its stack.
    """
    return logs.LogGroup(
        scope,
        "Logs",
        retention=logs.RetentionDays.ONE_MONTH,
        removal_policy=removal_policy,
    )
