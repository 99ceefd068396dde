"""Ids of jobs: they hold a time, and sort by it."""

from __future__ import annotations

import random
import threading
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from headgate.jobs.messages.job_ids import PUT_BACK_MS, JobIds, derived_job_id, new_job_id

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
WAITED_OUT = timedelta(milliseconds=PUT_BACK_MS)

moments = st.datetimes(
    min_value=datetime(1970, 1, 2),  # noqa: DTZ001 - hypothesis adds the zone
    timezones=st.just(UTC),
)


@given(at=moments)
def test_an_id_is_a_uuidv7_that_carries_its_time(at: datetime) -> None:
    job_id = JobIds()(at)
    assert (job_id.version, job_id.variant) == (7, "specified in RFC 4122")
    milliseconds = (at - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(milliseconds=1)
    assert abs((job_id.int >> 80) - milliseconds) <= 1


@given(at=moments, later=st.integers(min_value=2, max_value=10**12))
def test_ids_sort_by_the_time_they_were_made_as_text_too(at: datetime, later: int) -> None:
    try:
        after = at + timedelta(milliseconds=later)
    except OverflowError:
        return
    assert new_job_id(at) < new_job_id(after)
    assert str(new_job_id(at)) < str(new_job_id(after))


def test_ids_of_one_moment_differ_and_come_in_the_order_of_their_making() -> None:
    made = [new_job_id(NOW) for _ in range(1000)]
    assert made == sorted(set(made))


@given(
    seed=st.integers(0, 2**32),
    steps_ms=st.lists(st.one_of(st.integers(0, 3), st.integers(-PUT_BACK_MS, 5)), max_size=50),
)
def test_ids_keep_their_order_though_the_clock_is_put_back(seed: int, steps_ms: list[int]) -> None:
    ids = JobIds(random.Random(seed).getrandbits)  # noqa: S311 - seeded, to be repeated
    latest = now = NOW
    made = [ids(now)]
    for step_ms in steps_ms:
        now = max(now + timedelta(milliseconds=step_ms), latest - WAITED_OUT)
        latest = max(latest, now)
        made.append(ids(now))
    assert made == sorted(set(made))
    assert [str(each) for each in made] == sorted(str(each) for each in made)


def test_ids_follow_a_clock_that_is_put_back_far() -> None:
    ids = JobIds()
    ids(NOW + timedelta(days=1000))
    assert ids(NOW).int >> 80 == int(NOW.timestamp() * 1000)


def test_a_full_counter_borrows_from_the_next_millisecond() -> None:
    ids = JobIds(lambda bits: (1 << bits) - 1)
    ids._counter = (1 << 26) - 2
    ids._last_ms = int(NOW.timestamp() * 1000)
    last, borrowed, after = ids(NOW), ids(NOW), ids(NOW)
    assert last < borrowed < after
    assert (borrowed.int >> 80) - (last.int >> 80) == 1


def test_threads_that_make_ids_at_once_make_no_two_alike_each_in_its_order() -> None:
    ids, made = JobIds(random.Random(1).getrandbits), [list[UUID]() for _ in range(4)]  # noqa: S311 - nothing but the lock keeps them apart

    def make(mine: list[UUID]) -> None:
        mine.extend(ids(NOW) for _ in range(2000))

    threads = [threading.Thread(target=make, args=[mine]) for mine in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({each for mine in made for each in mine}) == 8000
    assert all(mine == sorted(mine) for mine in made)


def test_two_processes_that_begin_alike_make_different_ids() -> None:
    one, two = JobIds(), JobIds()
    one._last_ms = two._last_ms = int(NOW.timestamp() * 1000)  # as after a fork
    assert one(NOW) != two(NOW)


@given(at=moments, parts=st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_a_derived_id_is_a_uuidv7_that_follows_from_its_time_and_parts(
    at: datetime, parts: list[str]
) -> None:
    job_id = derived_job_id(at, *parts)
    assert job_id == derived_job_id(at, *parts)
    assert job_id != derived_job_id(at, *parts, "another")
    assert job_id.version == 7


def test_a_derived_id_never_changes_over_versions_or_zones() -> None:
    job_id = derived_job_id(NOW, "shop", "daily-report")
    assert str(job_id) == "019b7ca9-8c88-79fb-b20b-49eb28a13f46"
    elsewhere = NOW.astimezone(timezone(timedelta(hours=2)))
    assert derived_job_id(elsewhere, "shop", "daily-report") == job_id
