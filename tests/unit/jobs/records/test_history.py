"""A job's state and history, read from items in any order, duplicated, or missing."""

from __future__ import annotations

import random
import re
from datetime import timedelta
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headgate.jobs.records.state
from headgate import JobState, Tenant
from headgate.jobs.core.ports.table import Item
from headgate.jobs.records.history import JobRecord, read_job
from headgate.jobs.records.items import Mark, partition
from tests.support.story import JOB, START, Story

NOW = START + timedelta(minutes=30)


def read(story: Story) -> JobRecord:
    return read_job(story.job_id, story.items, now=NOW)


# --- the state -----------------------------------------------------------------------------------

STATES: list[tuple[str, Story, JobState]] = [
    ("nothing", Story(), JobState.UNKNOWN),
    ("only that it shall be cancelled", Story().cancel(1), JobState.UNKNOWN),
    ("submitted", Story().submitted(), JobState.WAITING),
    (
        "submitted for later",
        Story().submitted(not_before="2026-01-01T01:00:00+00:00"),
        JobState.DELAYED,
    ),
    (
        "submitted for a time that has come",
        Story().submitted(not_before="2026-01-01T00:20:00+00:00"),
        JobState.WAITING,
    ),
    (
        "received before it was due",
        Story().run(1, "deferred", not_before="2026-01-01T01:00:00+00:00"),
        JobState.DELAYED,
    ),
    (
        "received before it was due, which it is by now",
        Story().run(1, "released", not_before="2026-01-01T00:20:00+00:00"),
        JobState.WAITING,
    ),
    ("started", Story().submitted().run(1, "started"), JobState.RUNNING),
    ("tells how far it is, its start not kept", Story().progress(1, 40), JobState.RUNNING),
    ("failed", Story().run(1, "failed", retry_in_s=5), JobState.RETRYING),
    ("crashed", Story().run(1, "crashed", detail="killed"), JobState.RETRYING),
    ("deferred", Story().run(1, "deferred", reason="later"), JobState.RETRYING),
    ("given back", Story().run(1, "released"), JobState.WAITING),
    ("given back twice", Story().run(1, "released").run(9, "released", 2), JobState.WAITING),
    ("failed, given back", Story().run(1, "failed").run(9, "released", 2), JobState.RETRYING),
    ("begun, given back", Story().run(1, "started").run(2, "released"), JobState.RETRYING),
    ("put off, given back", Story().run(1, "deferred").run(9, "released", 2), JobState.RETRYING),
    (
        "dead, replayed, given back",
        Story().run(1, "dead").replayed(9).run(12, "released", message="m-2"),
        JobState.WAITING,
    ),
    ("failed, started again", Story().run(1, "failed").run(9, "started", 2), JobState.RUNNING),
    ("failed, then tells how far", Story().run(1, "failed").progress(9, 5), JobState.RUNNING),
    ("told how far, then failed", Story().progress(1, 90).run(2, "failed"), JobState.RETRYING),
    ("completed", Story().run(1, "completed", result=1), JobState.COMPLETED),
    ("failed, then completed", Story().run(1, "failed").run(9, "completed", 2), JobState.COMPLETED),
    ("discarded", Story().run(1, "discarded", reason="stale"), JobState.DISCARDED),
    ("dropped", Story().run(1, "dropped", kind="replaced"), JobState.DROPPED),
    ("failed, then dropped", Story().run(1, "failed").run(9, "dropped", 2), JobState.DROPPED),
    ("interrupted", Story().run(1, "started").run(2, "interrupted"), JobState.RETRYING),
    ("cancelled", Story().cancel(1).run(2, "cancelled"), JobState.CANCELLED),
    ("cancelled too late", Story().run(1, "completed").cancel(2), JobState.COMPLETED),
    ("dead", Story().run(1, "failed").run(2, "dead"), JobState.DEAD),
    ("quarantined", Story().run(1, "crashed").run(9, "quarantined", 2), JobState.QUARANTINED),
    ("dead, then replayed", Story().run(1, "dead").replayed(9), JobState.WAITING),
    (
        "replayed, and dead again",
        Story().run(1, "dead").replayed(9).run(10, "dead", message="m-2"),
        JobState.DEAD,
    ),
    (
        "replayed, and running",
        Story().run(1, "dead").replayed(9).run(10, "started", message="m-2"),
        JobState.RUNNING,
    ),
    ("completed, then replayed", Story().run(1, "completed").replayed(9), JobState.COMPLETED),
]


@pytest.mark.parametrize("again", ["discarded", "dropped", "cancelled"])
@pytest.mark.parametrize("message", ["m-1", "m-2"])
def test_a_job_that_has_completed_never_turns_into_anything_less(again: str, message: str) -> None:
    story = Story().run(1, "completed", result=7).run(9, again, 2, message=message, reason="late")
    record = read(story)
    assert (record.state, record.result, record.reason) == (JobState.COMPLETED, 7, "")
    assert record.finished_at == story.at(1)


def test_a_dropped_job_tells_the_kind_and_the_reason() -> None:
    record = read(Story().run(1, "dropped", kind="replaced", reason="replaced by the job x"))
    assert (record.drop_kind, record.reason) == ("replaced", "replaced by the job x")
    assert record.attempts == ()
    assert read(Story().run(1, "discarded", kind="replaced")).drop_kind == ""


def test_a_replaced_job_as_older_versions_wrote_it_stays_readable() -> None:
    record = read(Story().run(1, "discarded", ran_s=0.0, reason="replaced by the job x"))
    assert (record.state, record.reason) == (JobState.DISCARDED, "replaced by the job x")


@pytest.mark.parametrize(
    ("story", "state"), [pytest.param(story, state, id=name) for name, story, state in STATES]
)
def test_the_state_is_that_of_the_facts(story: Story, state: JobState) -> None:
    assert read(story).state is state


def test_every_state_comes_about() -> None:
    assert {state for _, _, state in STATES} == set(JobState)


@pytest.mark.parametrize("kind", ["started", "failed", "crashed", "released", "deferred"])
@pytest.mark.parametrize("final", ["completed", "discarded", "cancelled"])
def test_nothing_reopens_a_job_that_has_ended_though_sqs_delivers_it_again(
    final: str, kind: str
) -> None:
    again = Story().run(1, final).run(99, kind, 2)
    assert read(again).state == final
    in_a_second_message = Story().run(1, final).run(99, kind, message="m-2")
    assert read(in_a_second_message).state == final


@pytest.mark.parametrize(("crash", "death"), [("crashed", "quarantined"), ("failed", "dead")])
def test_a_delivery_that_only_gives_a_job_up_is_no_further_attempt(crash: str, death: str) -> None:
    story = Story().run(1, crash, 1, attempt=1).run(2, crash, 2, attempt=2)
    found = read(story.run(3, death, 3, attempt=2))
    assert [each.number for each in found.attempts] == [1, 2]
    assert found.finished_at == found.timeline[-1].at


def test_an_attempt_that_bears_an_earlier_one_s_number_is_told_if_it_was_run() -> None:
    story = Story().run(1, "failed", 1, attempt=1).run(2, "failed", 2, attempt=1, ran_s=0.5)
    story.run(3, "started", 3, attempt=1)
    assert [each.outcome for each in read(story).attempts] == ["failed", "failed", None]


@pytest.mark.parametrize("kind", ["started", "failed"])
def test_a_death_is_final_for_its_own_message(kind: str) -> None:
    story = Story().run(1, "failed").run(2, "dead").run(99, kind, 2)
    assert read(story).state is JobState.DEAD


@pytest.mark.parametrize("death", ["dead", "quarantined"])
@pytest.mark.parametrize(
    ("kind", "state"),
    [
        ("started", JobState.RUNNING),
        ("failed", JobState.RETRYING),
        ("completed", JobState.COMPLETED),
        ("dead", JobState.DEAD),
    ],
)
def test_a_replay_after_a_death_shows_the_newer_life(
    death: str, kind: str, state: JobState
) -> None:
    story = Story().run(1, "failed").run(2, death).run(600, kind, message="m-2")
    assert read(story).state is state


def test_a_replay_that_is_only_submitted_is_newer_too() -> None:
    story = Story().run(2, "dead").submitted(600, source="replay:1")
    assert read(story).state is JobState.WAITING


def test_a_submitter_whose_clock_is_ahead_reopens_no_death() -> None:
    story = Story().run(2, "failed").run(3, "dead").submitted(9, source="sdk")
    assert read(story).state is JobState.DEAD


def test_what_an_older_message_had_does_not_reopen_a_newer_death() -> None:
    story = Story().run(1, "failed").run(2, "dead").run(600, "failed", message="m-2")
    story.run(601, "dead", message="m-2")
    assert read(story).state is JobState.DEAD


def test_a_cancellation_asked_for_after_a_death_is_no_newer_life() -> None:
    assert read(Story().run(2, "dead").cancel(600)).state is JobState.DEAD


# --- any order, duplicates, or gaps --------------------------------------------------------------

_KINDS = st.sampled_from([*Mark])
_SECONDS = st.integers(0, 20)


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """Draw up to three messages with up to four deliveries, and the items written about them."""
    story = Story()
    for _ in range(draw(st.integers(0, 8))):
        story.run(
            draw(_SECONDS),
            draw(_KINDS),
            draw(st.integers(1, 4)),
            message=draw(st.sampled_from(["m-1", "m-2", "m-3"])),
            attempt=draw(st.integers(1, 9)),
        )
    if draw(st.booleans()):
        story.submitted(draw(_SECONDS))
    if draw(st.booleans()):
        story.progress(draw(_SECONDS), 50)
    if draw(st.booleans()):
        story.cancel(draw(_SECONDS))
    return story


@given(stories(), st.randoms(use_true_random=False))
def test_reading_depends_on_no_order_and_on_no_duplicates(story: Story, rng: random.Random) -> None:
    expected = read(story)
    again = [*story.items, *rng.choices(story.items, k=5)] if story.items else []
    rng.shuffle(again)
    assert read_job(JOB, again, now=NOW) == expected


@given(stories(), st.data())
def test_a_loss_never_makes_up_an_end_and_never_hides_the_last_one(
    story: Story, data: st.DataObject
) -> None:
    kept = [item for item in story.items if data.draw(st.booleans())]
    found = read_job(JOB, kept, now=NOW)
    ends = [each for each in found.timeline if _state_of(each.what).is_final]
    if found.state.is_final:
        *_, last = [each for each in ends if _state_of(each.what) is found.state]
        assert found.finished_at == last.at
        assert last is ends[-1] or found.state is JobState.COMPLETED
    elif ends:  # a life after a death
        assert ends[-1].what in (Mark.DEAD, Mark.QUARANTINED)
        assert any(
            each.at > ends[-1].at and each.message_id != ends[-1].message_id
            for each in found.timeline
        )


@given(stories())
def test_a_later_end_is_what_shows(story: Story) -> None:
    has_completed = any(item.sk.endswith("#completed") for item in story.items)
    for end in ("completed", "discarded", "dropped", "cancelled", "dead", "quarantined"):
        later = Story()
        later.items = [*story.items]
        later.run(1000, end, 9, message="m-9")
        is_less = has_completed and end in ("discarded", "dropped", "cancelled")
        assert read(later).state == ("completed" if is_less else end)


def _state_of(what: str) -> JobState:
    return JobState(what) if what in [*JobState] else JobState.RETRYING


def test_of_two_items_of_one_place_the_later_one_counts() -> None:
    story = Story().progress(1, 10).progress(9, 90)
    for items in permutations(story.items):
        progress = read_job(JOB, items, now=NOW).progress
        assert progress is not None
        assert progress.percent == 90


def test_items_of_other_kinds_are_left_out() -> None:
    story = Story().run(1, "failed")
    others = [
        Item(pk=partition(JOB), sk="claim", data={"owner": "w-1"}),
        Item(pk=partition(JOB), sk="claim#2", data={"at": story.at(5).isoformat()}),
        Item(pk=partition(JOB), sk="run#m-1#00002#paused", data={"at": story.at(5).isoformat()}),
    ]
    assert read_job(JOB, [*story.items, *others], now=NOW) == read(story)


# --- the parts -----------------------------------------------------------------------------------


def test_all_that_is_known_of_a_job_that_was_retried() -> None:
    story = Story().submitted(
        tenant={"org": "org-1"}, parent="p", not_before="2026-01-01T00:00:01+00:00"
    )
    story.run(1, "started", attempt=1)
    story.run(
        3,
        "failed",
        attempt=1,
        ran_s=2.0,
        error_type="ValueError",
        error_message="boom",
        traceback="Traceback: ...",
        retry_in_s=4,
    )
    story.run(7, "started", 2, attempt=2, worker="w-2").progress(8, 40, "packing", boxes=2)
    story.run(9, "completed", 2, attempt=2, ran_s=2.0, result={"n": 1}, worker="w-2")

    found = read(story)

    assert (found.type, found.queue, found.priority) == ("send", "mail", "normal")
    assert (found.tenant, found.parent, found.source) == (Tenant(org="org-1"), "p", "sdk")
    assert (found.submitted_at, found.not_before) == (story.at(0), story.at(1))
    assert (found.finished_at, found.has_result, found.result) == (story.at(9), True, {"n": 1})
    first, second = found.attempts
    assert (first.number, first.outcome, first.worker) == (1, Mark.FAILED, "w-1")
    assert (first.started_at, first.ended_at, first.ran_s) == (story.at(1), story.at(3), 2.0)
    assert (first.error_type, first.error_message) == ("ValueError", "boom")
    assert (first.traceback, first.retry_in_s) == ("Traceback: ...", 4)
    assert (second.number, second.outcome, second.worker) == (2, Mark.COMPLETED, "w-2")
    assert found.progress is not None
    assert (found.progress.percent, found.progress.note) == (40, "packing")
    assert found.progress.data == {"boxes": 2}
    whats = [each.what for each in found.timeline]
    assert whats == ["submitted", "started", "failed", "started", "progress", "completed"]


def test_a_dead_job_says_why_it_died_and_of_what() -> None:
    story = Story().run(1, "failed", attempt=1, error_type="ValueError", error_message="boom")
    story.run(
        2,
        "dead",
        attempt=1,
        reason="attempts-exhausted",
        error_type="ValueError",
        error_message="boom",
    )
    found = read(story)
    assert (found.reason, found.error_type) == ("attempts-exhausted", "ValueError")
    assert found.error_message == "boom"
    [attempt] = found.attempts
    assert (attempt.outcome, attempt.ended_at) == (Mark.FAILED, story.at(1))


def test_a_start_that_is_not_kept_follows_from_how_long_it_ran() -> None:
    [attempt] = read(Story().run(10, "completed", attempt=1, ran_s=2.5)).attempts
    assert attempt.started_at == attempt.ended_at - timedelta(seconds=2.5)  # type: ignore[operator]  # None would fail, too


def test_deferrals_and_releases_are_no_attempts_but_are_in_the_timeline() -> None:
    story = Story().run(1, "deferred").run(2, "started", 2).run(3, "released", 2)
    found = read(story)
    assert found.attempts == ()
    assert len(found.timeline) == 3


def test_attempts_of_one_moment_come_in_the_order_of_their_deliveries() -> None:
    story = Story().run(5, "failed").run(5, "started", 2).run(5, "failed", 2).run(4, "completed", 3)
    outcomes = [attempt.outcome for attempt in read(story).attempts]
    assert outcomes == [Mark.FAILED, Mark.FAILED, Mark.COMPLETED]


def test_attempts_of_which_nobody_wrote_a_number_are_counted() -> None:
    story = Story().run(1, "crashed", detail="killed").run(9, "crashed", 2, detail="killed")
    assert [each.number for each in read(story).attempts] == [1, 2]
    assert read(story).attempts[0].error_message == "killed"


def test_a_history_has_the_time_and_reason_of_a_cancellation_request() -> None:
    found = read(Story().run(1, "started").cancel(2, "a mistake"))
    assert (found.state, found.cancel_reason) == (JobState.RUNNING, "a mistake")
    assert found.cancel_requested_at == Story().at(2)


def test_a_result_is_kept_though_it_is_none() -> None:
    assert read(Story().run(1, "completed", result=None)).has_result
    assert not read(Story().run(1, "completed")).has_result


# --- the page about it ---------------------------------------------------------------------------


def test_the_states_are_drawn_and_listed_once_and_the_page_shows_the_same() -> None:
    page = (Path(__file__).parents[4] / "docs/results.md").read_text()
    drawing = re.search(
        r"\n(    waiting ─.*?)\n\n", headgate.jobs.records.state.__doc__ or "", re.DOTALL
    )
    assert drawing is not None
    assert drawing[1] in page
    for text, row in (
        (page, r"^\| `(\w+)` \| "),
        (headgate.jobs.records.state.__doc__ or "", r"^    (\w+) +\w.*"),
    ):
        listed = [name for name in re.findall(row, text, re.MULTILINE) if name in [*JobState]]
        assert listed[-len(JobState) :] == [*JobState]
