"""Differences between queues as they are on AWS, and as an app needs them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from headgate.jobs.aws.queue_descriptions import QueueDescription
from headgate.jobs.core.existing.arns import bare_name

_AWS_KEY = "alias/aws/sqs"
"""The key that AWS manages for SQS, which takes no permission."""


def lacks(needed: QueueDescription, found: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield what a queue has otherwise than an app needs, with the consequence.

    Args:
        needed: the queue as the app has it.
        found: its attributes.
    """
    yield from _retention(needed, found)
    yield from _redrive(needed, found)
    visibility = int(found.get("VisibilityTimeout", 0))
    if needed.visibility is not None and visibility < needed.visibility.total_seconds():
        what = (
            f"it hides a received message for {visibility} s, and its lane says "
            f"{needed.visibility.total_seconds():g} s"
        )
        yield what, "Messages are delivered a second time while they run"
    key = found.get("KmsMasterKeyId")
    if needed.existing and needed.key is None and key and not key.endswith(_AWS_KEY):
        yield (
            f"it is encrypted with the key {key}, and the app names none",
            "No role is permitted to use the key, so that nothing can be sent or received",
        )


def _retention(needed: QueueDescription, found: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    kept = int(found.get("MessageRetentionPeriod", 0))
    if kept < needed.retention.total_seconds():
        what = (
            f"it keeps messages for {kept} s, and the app counts on "
            f"{needed.retention.total_seconds():g} s"
        )
        yield what, "SQS deletes messages before the app retries or copies them"


def _redrive(needed: QueueDescription, found: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    policy = json.loads(found.get("RedrivePolicy", "{}"))
    if needed.redrive is None or not policy:
        return
    receives = int(policy.get("maxReceiveCount", 0))
    if receives < needed.redrive.max_receive_count:
        what = (
            f"its redrive policy moves a message away after {receives} receives, and the app "
            f"counts on {needed.redrive.max_receive_count}"
        )
        yield what, "Jobs that only wait end among the dead letters"
    target = bare_name(str(policy.get("deadLetterTargetArn", "")))
    if target != bare_name(needed.redrive.to):
        what = (
            f"its redrive policy moves messages to {target}, and the app looks into "
            f"{bare_name(needed.redrive.to)}"
        )
        yield what, "Dead letters there are neither counted nor copied, and nobody is told of them"
