"""An app's queues are described once, as SQS takes them."""

from __future__ import annotations

import json
from datetime import timedelta

from headgate import App, Priority
from headgate.jobs.aws.queue_descriptions import (
    QueueDescription,
    create_attributes,
    failed_firings,
    failed_sweeps,
    pairs,
    quarantine,
)
from headgate.jobs.core.topology import Topology

ARN = "arn:aws:sqs:eu-central-1:111122223333:shop-ledger-low-dlq.fifo"


def ledger(*, fifo: bool) -> Topology:
    app = App("shop")
    app.queue("ledger", priorities=[Priority.LOW], fifo=fifo)
    return app.topology


def of_ledger(*, fifo: bool) -> tuple[QueueDescription, QueueDescription]:
    [found] = (pair for pair in pairs(ledger(fifo=fifo)) if pair[0].label == "ledger-low")
    return found


def test_a_queue_redrives_to_a_queue_that_takes_from_it_alone() -> None:
    queue, dead_letters = of_ledger(fifo=False)
    assert queue.redrive is not None
    assert queue.redrive.to == dead_letters.name == "shop-ledger-low-dlq"
    assert dead_letters.takes_from == queue.name == "shop-ledger-low"
    assert dead_letters.redrive is None
    assert dead_letters.retention > queue.retention


def test_a_queue_s_attributes_are_texts_of_whole_seconds() -> None:
    queue, _ = of_ledger(fifo=False)
    attributes = create_attributes(queue, ARN)
    redrive = json.loads(attributes.pop("RedrivePolicy"))
    assert redrive == {"deadLetterTargetArn": ARN, "maxReceiveCount": 1_000}
    assert attributes == {
        "VisibilityTimeout": "600",
        "MessageRetentionPeriod": "345600",
        "ReceiveMessageWaitTimeSeconds": "20",
        "SqsManagedSseEnabled": "true",
    }


def test_a_fifo_queue_and_its_dead_letters_are_both_fifo_by_message_group() -> None:
    for described in of_ledger(fifo=True):
        attributes = create_attributes(described, ARN)
        assert described.name.endswith(".fifo")
        assert attributes["FifoQueue"] == "true"
        assert attributes["DeduplicationScope"] == "messageGroup"
        assert attributes["FifoThroughputLimit"] == "perMessageGroupId"


def test_what_is_set_aside_is_kept_for_two_weeks_and_redriven_nowhere() -> None:
    for describe in (quarantine, failed_firings):
        described = describe(ledger(fifo=True))
        assert described.retention == timedelta(days=14)
        assert create_attributes(described) == {
            "MessageRetentionPeriod": "1209600",
            "SqsManagedSseEnabled": "true",
        }


def test_a_failed_sweep_is_kept_for_an_hour_and_so_its_alarm_ends_by_itself() -> None:
    described = failed_sweeps(ledger(fifo=True))
    assert described.retention == timedelta(hours=1)
    assert create_attributes(described)["MessageRetentionPeriod"] == "3600"
