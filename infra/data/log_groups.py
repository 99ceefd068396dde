"""The log groups of functions and workers."""

from __future__ import annotations

from aws_cdk import RemovalPolicy
from aws_cdk import aws_logs as logs
from constructs import Construct, IConstruct


def add_log_group(
    scope: Construct, days: int, removal_policy: RemovalPolicy = RemovalPolicy.DESTROY
) -> logs.LogGroup:
    """Add the log group of a function or of a group's workers; it keeps lines for so many days.

    The jobs' history is in their records, so it may be deleted with its stack.
    """
    made = logs.LogGroup(scope, "Logs", removal_policy=removal_policy)
    resource = made.node.default_child
    assert isinstance(resource, logs.CfnLogGroup)  # noqa: S101 - CDK's own structure
    resource.retention_in_days = days
    return made


def encrypt_logs(scope: IConstruct, key_arn: str | None) -> None:
    """Have a key encrypt all log groups within a construct; None leaves that to CloudWatch."""
    if key_arn is None:
        return
    for made in scope.node.find_all():
        if isinstance(made, logs.CfnLogGroup):
            made.kms_key_id = key_arn
