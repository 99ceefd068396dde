"""Queues on AWS that are not as an app needs them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from headgate import App, Existing, ExistingQueue
from headgate.jobs.aws.queue_descriptions import QueueDescription, create_attributes, pairs
from headgate.jobs.aws.queue_differences import lacks

KEY = "arn:aws:kms:eu-central-1:111122223333:key/1234"


def needed(**fields: Any) -> QueueDescription:
    found = ExistingQueue(queue="orders", dead_letters="orders-dead", **fields)
    app = App("shop", existing=Existing(queues={"orders": {"normal": found}}))
    app.queue("orders", priorities=["normal"]).define("place-order", dict)
    [(queue, _)] = pairs(app.topology)
    return queue


def attributes(**others: str) -> Mapping[str, str]:
    """Return those of a queue that is just as it is needed, but for some."""
    arn = "arn:aws:sqs:eu-central-1:111122223333:orders-dead"
    return create_attributes(needed(), arn) | others


def redrive(target: str = "orders-dead", receives: int = 1000) -> str:
    arn = f"arn:aws:sqs:eu-central-1:111122223333:{target}"
    return json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": receives})


def test_a_queue_that_is_as_it_is_needed_lacks_nothing() -> None:
    assert list(lacks(needed(), attributes())) == []
    assert list(lacks(needed(key=KEY), attributes(KmsMasterKeyId=KEY))) == []
    assert list(lacks(needed(), attributes(KmsMasterKeyId="alias/aws/sqs"))) == []


def test_a_queue_without_a_redrive_policy_moves_nothing_away() -> None:
    found = {name: value for name, value in attributes().items() if name != "RedrivePolicy"}
    assert list(lacks(needed(), found)) == []


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("MessageRetentionPeriod", "345599", "keeps messages for 345599 s"),
        ("VisibilityTimeout", "299", "hides a received message for 299 s"),
        ("RedrivePolicy", redrive(receives=999), "after 999 receives, and the app counts on 1000"),
        ("RedrivePolicy", redrive("elsewhere"), "moves messages to elsewhere"),
        ("KmsMasterKeyId", KEY, "encrypted with the key"),
    ],
)
def test_each_attribute_that_is_otherwise_is_told(name: str, value: str, said: str) -> None:
    [(what, why)] = lacks(needed(), attributes(**{name: value}))
    assert said in what
    assert why
