"""Policies of IAM, as documents."""

from __future__ import annotations

from typing import Any

_SQS = "arn:aws:sqs:eu-central-1:111122223333"


def statement(count: int, action: str = "sqs:SendMessage") -> dict[str, Any]:
    """Return a statement that allows an action on so many queues."""
    resources = [f"{_SQS}:shop-prod-{action[4:].lower()}-{at}" for at in range(count)]
    return {"Effect": "Allow", "Action": action, "Resource": resources}


def allowed(document: Any) -> set[tuple[str, str]]:
    """Return the pairs of an action and a resource that a policy allows."""
    return {
        (each["Action"], resource)
        for each in document["Statement"]
        for resource in each["Resource"]
    }
