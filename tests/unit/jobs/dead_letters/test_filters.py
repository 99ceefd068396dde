"""A filter selects the letters that all of its fields describe, and refuses what it can't mean."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headgate import DeadLetter, DeadLetterFilter
from headgate.errors import ConfigurationError

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
LETTER = DeadLetter(
    message_id="m-1",
    job_id="j-1",
    job_type="send-email",
    reason="attempts-exhausted",
    error_type="ReadTimeout",
    error_message="smtp.example: no answer within 5 s",
    failed_at=NOW - HOUR,
    sent_at=NOW,
    queue="shop-jobs-high-dlq",
    origin="shop-jobs-high",
    group="jobs",
    tenant="acme",
)
EMPTY = replace(
    LETTER,
    job_id=None,
    job_type=None,
    error_type="",
    error_message="",
    failed_at=None,
    origin=None,
    group=None,
    tenant=None,
)


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"ids": ("j-1",)},
        {"ids": ("m-1", "m-2")},
        {"types": ["send-email"]},
        {"reasons": ("quarantined", "attempts-exhausted")},
        {"errors": ("readtimeout",)},
        {"errors": ("SMTP.example",)},
        {"queues": ("jobs",)},
        {"queues": ("shop-jobs-high",)},
        {"queues": ("shop-jobs-high-dlq",)},
        {"tenants": ("acme",)},
        {"since": HOUR},
        {"since": NOW - HOUR},
        {"since": 3600},
        {"until": timedelta(minutes=59)},
        {"until": NOW},
        {"since": timedelta.max},
        {"types": ("send-email",), "errors": ("no answer",), "since": 2 * HOUR, "until": NOW},
    ],
    ids=str,
)
def test_a_letter_is_selected_by_any_value_of_each_field(wanted: dict[str, Any]) -> None:
    assert DeadLetterFilter(**wanted).matches(LETTER, now=NOW)


@pytest.mark.parametrize(
    "wanted",
    [
        {"ids": ("j-2",)},
        {"types": ("send",)},
        {"reasons": ("quarantined",)},
        {"errors": ("Timeout",)},  # a part of the class's name
        {"queues": ("shop",)},
        {"tenants": ("acm",)},
        {"since": timedelta(minutes=59)},
        {"until": HOUR},
        {"until": NOW - HOUR},
        {"types": ("send-email",), "tenants": ("umbrella",)},
    ],
    ids=str,
)
def test_a_letter_that_one_field_does_not_describe_is_not_selected(wanted: dict[str, Any]) -> None:
    assert not DeadLetterFilter(**wanted).matches(LETTER, now=NOW)


@pytest.mark.parametrize("name", ["ids", "types", "errors", "queues", "tenants"])
def test_what_is_not_known_of_a_letter_is_selected_by_no_name(name: str) -> None:
    assert DeadLetterFilter().matches(EMPTY)
    assert not DeadLetterFilter(**{name: ("None",)}).matches(EMPTY)  # type: ignore[arg-type]


def test_a_letter_without_the_time_of_its_failure_is_as_old_as_its_message() -> None:
    assert EMPTY.died_at == NOW
    assert DeadLetterFilter(since=NOW).matches(EMPTY)


def test_ages_count_from_now() -> None:
    fresh = replace(LETTER, failed_at=datetime.now(UTC))
    assert DeadLetterFilter(since=HOUR).matches(fresh)
    assert not DeadLetterFilter(until=HOUR).matches(fresh)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"types": "send-email"}, r"types takes a tuple of texts, got 'send-email': write \('"),
        ({"ids": (7,)}, "ids must be a tuple, of each a str|ids must be a tuple, of each a text"),
        ({"errors": ("",)}, "errors has an empty text"),
        ({"since": "2h"}, "since must be"),
        ({"since": -HOUR}, "since must not be negative"),
        ({"until": datetime(2026, 1, 1)}, "until has no time zone"),  # noqa: DTZ001 - the point
        ({"since": NOW, "until": NOW}, "nothing is both since"),
        ({"since": HOUR, "until": 2 * HOUR}, "nothing is both since"),
    ],
    ids=str,
)
def test_a_bad_value_is_refused_by_its_name(wanted: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        DeadLetterFilter(**wanted)
