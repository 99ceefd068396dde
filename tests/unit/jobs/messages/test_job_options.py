"""A job's own backoff and retention, as its message carries them."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate import Backoff, Keep
from headgate.errors import MessageUnreadable, OptionInvalid
from headgate.jobs.messages.envelope import Envelope, Options, parse
from headgate.jobs.messages.job_options import JobKeep, job_backoff

_JITTERS = st.sampled_from([None, "full", "equal", 0.1, 1])
_SECONDS = st.integers(1, 10_000).map(lambda ms: ms / 1000)

_VALUES = st.one_of(
    st.builds(Backoff.exponential, base=_SECONDS, cap=st.just(600), jitter=_JITTERS),
    st.builds(Backoff.exponential, factor=st.just(3.5), jitter=st.just("decorrelated")),
    st.builds(Backoff.adaptive, base=_SECONDS, backlog=st.integers(1, 10**6), jitter=_JITTERS),
    st.builds(Backoff.fixed, _SECONDS, jitter=_JITTERS),
    st.lists(_SECONDS, min_size=1, max_size=5).map(lambda delays: Backoff.steps(*delays)),
)

_BODY: dict[str, Any] = {
    "v": 1,
    "id": "019b7ca4-7a2e-7000-8000-000000000001",
    "type": "send-email",
    "payload": {},
    "queue": "jobs",
    "priority": "normal",
    "submitted_at": "2026-01-02T03:04:05Z",
}


def read(options: Any) -> Envelope:
    return parse(json.dumps({**_BODY, "options": options}))


@settings(max_examples=30)
@given(_VALUES)
def test_a_backoff_that_is_a_value_arrives_as_it_was_sent(backoff: Backoff) -> None:
    sent = parse(json.dumps(_BODY)).model_copy(
        update={"options": Options(backoff=job_backoff(backoff))}
    )
    options = parse(sent.to_body()).options
    assert options is not None
    assert options.backoff is not None
    assert options.backoff.backoff() == backoff


def test_a_backoff_that_is_a_function_can_not_be_sent() -> None:
    with pytest.raises(OptionInvalid, match=r"no message can carry: write Backoff\.steps"):
        job_backoff(Backoff.custom(lambda _: 1))


@pytest.mark.parametrize(
    ("backoff", "fault"),
    [
        ({"kind": "random"}, "options.backoff"),
        ({"kind": "steps", "delays_s": []}, "options.backoff.steps.delays_s"),
        ({"kind": "steps", "delays_s": [-1]}, "options.backoff.steps.delays_s.0"),
        ({"kind": "steps", "delays_s": [31_536_001]}, "options.backoff.steps.delays_s.0"),
        ({"kind": "steps", "delays_s": [1] * 1_001}, "options.backoff.steps.delays_s"),
        ({"kind": "steps", "delays_s": [1], "jitter": "decorrelated"}, "jitter"),
        ({"kind": "exponential", "base_s": 0, "cap_s": 1}, "options.backoff.exponential.base_s"),
        ({"kind": "exponential", "base_s": 2, "cap_s": 1}, "cap_s is below base_s"),
        ({"kind": "exponential", "base_s": 1, "cap_s": 1e9}, "options.backoff.exponential.cap_s"),
        ({"kind": "exponential", "base_s": 1, "cap_s": 9, "jitter": 0}, "jitter"),
        ({"kind": "exponential", "base_s": 1, "cap_s": 9, "factor": 0.5}, "factor"),
        ({"kind": "exponential", "base_s": 1, "cap_s": 9, "backlog": 0}, "backlog"),
    ],
    ids=str,
)
def test_a_backoff_that_can_not_be_makes_the_message_unreadable_and_is_named(
    backoff: Any, fault: str
) -> None:
    with pytest.raises(MessageUnreadable, match=fault):
        read({"backoff": backoff})


@pytest.mark.parametrize(
    "keep", [{"completed_s": -1}, {"failed_s": 0}, {"completed_s": 1e300}, {"failed_s": "long"}]
)
def test_a_retention_that_can_not_be_makes_the_message_unreadable(keep: Any) -> None:
    with pytest.raises(MessageUnreadable, match=r"options\.keep"):
        read({"keep": keep})


def test_what_a_writer_may_leave_out_is_documented_by_what_it_means() -> None:
    plain = read({"backoff": {"kind": "exponential", "base_s": 1, "cap_s": 8}}).options
    assert plain is not None
    assert plain.backoff is not None
    assert plain.backoff.backoff() == Backoff.exponential(base=1, factor=2, cap=8, jitter=None)


def test_a_retention_counts_in_place_of_the_types_where_it_is_set() -> None:
    keep = Keep(completed=60, failed=timedelta(days=9), last=5)
    assert JobKeep(completed_s=1).over(keep) == Keep(completed=1, failed=keep.failed, last=5)
    assert JobKeep(failed_s=1).over(keep) == Keep(completed=60, failed=1, last=5)
    assert JobKeep().over(keep) == keep
