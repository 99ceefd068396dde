"""Who may do what, and nothing more: the actions that `jobs.aws.sqs` calls, on an app's own queues.

No role may create, list or purge queues.
"""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_iam as iam
from aws_cdk import aws_sqs as sqs

SUBMIT = ("sqs:SendMessage", "sqs:GetQueueUrl")
"""What submitting to a queue takes."""

WORK = (
    "sqs:ReceiveMessage",
    "sqs:DeleteMessage",
    "sqs:ChangeMessageVisibility",
    "sqs:GetQueueAttributes",
    "sqs:GetQueueUrl",
)
"""What running a queue's jobs takes."""


def grant_submit(grantee: iam.IGrantable, queues: Sequence[sqs.IQueue]) -> iam.Grant:
    """Let ``grantee`` submit jobs to these queues."""
    return _grant(grantee, SUBMIT, queues)


def grant_work(
    grantee: iam.IGrantable, queues: Sequence[sqs.IQueue], parking: Sequence[sqs.IQueue]
) -> iam.Grant:
    """Let ``grantee`` run the jobs of these queues.

    ``parking`` is where it may move what it gives up: the dead-letter queues and the quarantine.
    """
    return _grant(grantee, WORK, queues).combine(_grant(grantee, SUBMIT, parking))


def statement(actions: Sequence[str], *resources: str) -> iam.PolicyStatement:
    """Allow these actions on the resources of these ARNs."""
    return iam.PolicyStatement(actions=list(actions), resources=list(resources))


def _grant(
    grantee: iam.IGrantable, actions: Sequence[str], queues: Sequence[sqs.IQueue]
) -> iam.Grant:
    return iam.Grant.add_to_principal(
        grantee=grantee,
        actions=list(actions),
        resource_arns=[queue.queue_arn for queue in queues],
    )
