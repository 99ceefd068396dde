"""Patterns are trained only on enough examples, and kept only if they are good."""

from __future__ import annotations

from datetime import timedelta

import pytest

from examples.assistant.learning import (
    Feedback,
    Training,
    evaluate_patterns,
    score_feedback,
    train_patterns,
)
from examples.assistant.store import TenantData
from headgate.events import JobDiscarded
from headgate.testing import Harness

EXAMPLES = [
    *((f"play song {number} by somebody", "music") for number in range(10)),
    *((f"will it rain on day {number}", "weather") for number in range(10)),
]


def train(jobs: Harness, **wanted: float) -> str | None:
    """Train; return why nothing came of it, or None."""
    training = Training.model_validate(wanted)
    jobs.client.submit(train_patterns, training, tenant="org-1")
    jobs.drain()
    discarded = [event.reason for event in jobs.events if isinstance(event, JobDiscarded)]
    return discarded[-1] if discarded else None


def test_patterns_are_learned_from_what_users_said(jobs: Harness, data: TenantData) -> None:
    data.examples += EXAMPLES
    assert train(jobs) is None
    assert data.patterns is not None
    assert data.patterns.label("play a song") == "music"
    handle = jobs.client.submit(evaluate_patterns, tenant="org-1")
    jobs.drain()
    assert handle.result() == 1


def test_too_few_examples_train_nothing(jobs: Harness, data: TenantData) -> None:
    data.examples += EXAMPLES[:5]
    assert train(jobs) == "5 examples are too few"
    assert data.patterns is None


def test_patterns_that_prove_bad_do_not_replace_the_present_ones(
    jobs: Harness, data: TenantData
) -> None:
    data.examples += [("the same words", label) for label in "ab" * 10]
    assert train(jobs, least_accuracy=0.9) == "an accuracy of 50% is too low"
    assert data.patterns is None


def test_a_prompt_with_many_good_votes_leads_one_with_a_single_one(
    jobs: Harness, data: TenantData
) -> None:
    votes = [("brief", True)] * 20 + [("brief", False), ("funny", True)]
    jobs.client.submit_many(
        score_feedback,
        [Feedback(prompt=prompt, helpful=helpful) for prompt, helpful in votes],
        tenant="org-1",
    )
    jobs.drain()
    assert data.ranking == ["brief", "funny"]


def test_the_schedule_has_parameters_of_its_own(jobs: Harness) -> None:
    jobs.clock.advance(timedelta(hours=3))
    [nightly] = jobs.submitted(train_patterns)
    assert nightly.payload == Training(least_examples=10, least_accuracy=0.7)


@pytest.mark.usefixtures("data")
def test_without_patterns_there_is_nothing_to_evaluate(jobs: Harness) -> None:
    handle = jobs.client.submit(evaluate_patterns, tenant="org-1")
    jobs.drain()
    assert handle.state() == "discarded"
