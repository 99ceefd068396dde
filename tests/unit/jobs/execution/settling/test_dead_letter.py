from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.jobs.core.ports.transport import OutgoingMessage, ReceivedMessage
from headgate.jobs.core.topology import MAX_MESSAGE_BYTES
from headgate.jobs.execution.outcome import Attempt, Reason
from headgate.jobs.execution.settling.actions import DeadLetter, Quarantine
from headgate.jobs.execution.settling.dead_letter import bare, dead_letter
from headgate.jobs.testing.memory import sqs_limits

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
ATTEMPT = Attempt(job_id="the-id", number=3, max_attempts=3, receives=4)


def received(body: str = "{}", *, group: str | None = None, **attributes: str) -> ReceivedMessage:
    return ReceivedMessage(
        message_id="m-1",
        receipt="r-1",
        body=body,
        receive_count=4,
        sent_at=NOW,
        attributes=attributes,
        group=group,
    )


def letter(
    message: ReceivedMessage, error: str = "card declined", *, fifo: bool = False
) -> OutgoingMessage:
    action = DeadLetter(
        reason=Reason.ATTEMPTS_EXHAUSTED, error_type="PaymentError", error_message=error
    )
    return dead_letter(message, action, ATTEMPT, "capture", NOW, fifo=fifo)


def test_a_dead_letter_is_the_original_body_with_why_it_is_there() -> None:
    sent = letter(received('{"v": 1}', group="org-1", Source="sdk"))
    assert sent.body == '{"v": 1}'
    assert sent.group == "org-1"
    assert sent.delay_s == 0
    assert sent.attributes == {
        "JobId": "the-id",
        "JobType": "capture",
        "Attempts": "3",
        "FailedAt": "2026-01-02T03:04:05.678+00:00",
        "Reason": "attempts-exhausted",
        "ErrorType": "PaymentError",
        "ErrorMessage": "card declined",
        "Source": "sdk",
    }


def test_a_quarantined_message_says_so() -> None:
    sent = dead_letter(received(), Quarantine(detail="killed 3 workers"), ATTEMPT, "capture", NOW)
    assert sent.attributes["Reason"] == "quarantined"
    assert sent.attributes["ErrorMessage"] == "killed 3 workers"
    assert "ErrorType" not in sent.attributes


def test_original_attributes_fill_the_free_places_and_overwrite_none() -> None:
    foreign = {f"Own{number}": "x" for number in range(10)}
    sent = letter(received(JobType="forged", **foreign))
    assert len(sent.attributes) == 10
    assert sent.attributes["JobType"] == "capture"


def test_nothing_is_said_where_there_is_nothing_to_say() -> None:
    assert "ErrorMessage" not in letter(received(), error="").attributes


@pytest.mark.parametrize("fifo", [True, False])
def test_a_fifo_dead_letter_is_never_taken_for_a_duplicate(fifo: bool) -> None:
    ids = {letter(received(group="g"), fifo=fifo).deduplication_id for _ in range(2)}
    assert len(ids) == (2 if fifo else 1)
    assert (None in ids) is not fifo


def test_a_large_body_cuts_the_error_but_never_the_reason() -> None:
    roomy = letter(received("x" * (MAX_MESSAGE_BYTES - 300)), error="e" * 500).attributes
    assert roomy["Reason"] == "attempts-exhausted"
    assert 0 < len(roomy["ErrorMessage"]) < 500
    tight = letter(received("x" * (MAX_MESSAGE_BYTES - 40)), error="e" * 500).attributes
    assert tight == {"Reason": "attempts-exhausted"}
    full = letter(received("x" * MAX_MESSAGE_BYTES), error="e" * 500).attributes
    assert full == {}


@given(error=st.text(st.characters()), body=st.integers(1, MAX_MESSAGE_BYTES))
def test_sqs_takes_every_dead_letter_whatever_the_error_says(error: str, body: int) -> None:
    sent = letter(received("x" * body), error=error)
    sqs_limits.check_message(sent, fifo=False)
    assert sent.size <= MAX_MESSAGE_BYTES
    assert len(sent.attributes.get("ErrorMessage", "")) <= 1024


def test_every_attribute_of_a_letter_is_text_that_sqs_takes() -> None:
    action = DeadLetter(
        reason=Reason.UNKNOWN_TYPE, error_type="Odd\x00Error\ud800", error_message="\x1b[31mno"
    )
    sent = dead_letter(received(), action, ATTEMPT, "cap\x07ture", NOW)
    assert sent.attributes["JobType"] == "cap\\x07ture"
    assert sent.attributes["ErrorType"] == "Odd\\x00Error\\ud800"
    assert sent.attributes["ErrorMessage"] == "\\x1b[31mno"


@pytest.mark.parametrize("backwards", [False, True])
def test_a_letter_says_how_often_it_was_replayed_beside_any_others(backwards: bool) -> None:
    own = {"Replays": "2", **{f"{name}Own": "x" for name in "AZaz"}}
    original = replace(received(), attributes=dict(sorted(own.items(), reverse=backwards)))
    assert letter(original).attributes["Replays"] == "2"
    assert letter(original) == letter(replace(original, attributes=own))


def test_an_error_leaves_room_for_the_number_of_replays() -> None:
    body = "x" * (MAX_MESSAGE_BYTES - 300)
    assert letter(received(body, Replays="2"), error="e" * 500).attributes["Replays"] == "2"


def test_a_number_of_replays_that_is_none_takes_nobody_s_place() -> None:
    forged = letter(received("x" * (MAX_MESSAGE_BYTES - 300), Replays="9" * 200))
    assert "Replays" not in forged.attributes
    assert forged.attributes["ErrorMessage"] == "card declined"


def test_a_bare_letter_keeps_body_group_reason_replays_and_job() -> None:
    action = DeadLetter(reason=Reason.DO_NOT_RETRY, error_type="E", error_message="no")
    sent = dead_letter(received(Replays="1"), action, ATTEMPT, "capture", NOW, fifo=True)
    assert bare(sent) == replace(
        sent, attributes={"Reason": "do-not-retry", "Replays": "1", "JobId": ATTEMPT.job_id}
    )
