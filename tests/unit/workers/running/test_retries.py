"""Retries: a message becomes visible again when the policy says."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta
from email.utils import format_datetime
from itertools import pairwise
from typing import Any

import pytest

from headgate import Backoff, JobContext, Retry, RetryLater
from headgate.jobs.core.events import (
    JobCompleted,
    JobDeadLettered,
    JobDeferred,
    JobDiscarded,
    JobRetryScheduled,
    JobStarted,
)
from headgate.jobs.retry.backoff import job_rng
from headgate.jobs.retry.signals import Discard, DoNotRetry
from tests.unit.workers.rig import DEAD_MAIL, MAIL, Note, Rig, one_lane

pytestmark = pytest.mark.looptime

_GROWING: list[Any] = ["full", "equal", "decorrelated", 0.1, None]
_FLAT: list[Any] = ["full", "equal", 0.3, None]
BACKOFFS = [
    *(Backoff.exponential(base=3, factor=2, cap=40, jitter=jitter) for jitter in _GROWING),
    *(Backoff.adaptive(base=3, cap=40, backlog=2, jitter=jitter) for jitter in _GROWING),
    *(Backoff.steps(5, 60, 20, jitter=jitter) for jitter in _FLAT),
    *(Backoff.fixed(7, jitter=jitter) for jitter in _FLAT),
    Backoff.custom(lambda failed: failed.attempt * 11.4),
]


def _delays_on_the_server(rig: Rig) -> list[int]:
    """Return the timeouts that were set, except by the heartbeat and the last release."""
    return [
        timeout
        for call in rig.sqs.calls
        if call.action == "change_visibility"
        for timeout in call.timeouts_s
    ]


@pytest.mark.parametrize("backoff", BACKOFFS, ids=repr)
async def test_the_delays_that_sqs_sees_are_the_policys(backoff: Backoff) -> None:
    app, mail = one_lane(Retry(max_attempts=5, backoff=backoff), visibility_s=300)

    @mail.job("charge")
    async def charge(_note: Note) -> None:
        raise ConnectionError("refused")

    rig = Rig(app)
    [job_id] = await rig.submit(charge)
    async with rig.working():
        await rig.happens(JobDeadLettered)
    expected = [
        round(delay)
        for delay, _ in zip(backoff.delays(job_rng(job_id), backlog=0), range(4), strict=False)
    ]
    assert _delays_on_the_server(rig) == expected
    assert [event.delay_s for event in rig.heard(JobRetryScheduled)] == expected
    starts = [event.at for event in rig.heard(JobStarted)]
    gaps = [(later - one).total_seconds() for one, later in pairwise(starts)]
    assert gaps == pytest.approx(expected, abs=0.5)


async def test_an_adaptive_backoff_stretches_with_what_waits_in_the_queue() -> None:
    backoff = Backoff.adaptive(base=3, cap=400, backlog=2, jitter=None)
    app, mail = one_lane(Retry(max_attempts=2, backoff=backoff), visibility_s=300)

    @mail.job("charge")
    async def charge(note: Note) -> None:
        if note.text == "bad":
            await rig.submit(charge, *["good"] * 4)
            raise ConnectionError("refused")

    rig = Rig(app)
    await rig.submit(charge, "bad")
    async with rig.working(concurrency=1):
        [scheduled] = await rig.happens(JobRetryScheduled)
    assert scheduled.delay_s == 9  # 3 * (1 + 4 / 2)


class _Busy(Exception):
    def __init__(self, retry_after: object) -> None:
        self.retry_after = retry_after
        super().__init__("429")


@pytest.mark.parametrize(
    "asked",
    [
        lambda _now: 30,
        lambda _now: "30",
        lambda _now: 29.3,
        lambda _now: timedelta(seconds=30),
        lambda now: format_datetime(now + timedelta(seconds=30), usegmt=True),
    ],
    ids=["seconds", "header", "fraction", "timedelta", "date"],
)
async def test_a_retry_after_wins_over_the_backoff_and_is_rounded_up(
    asked: Callable[[object], object],
) -> None:
    app, mail = one_lane(Retry(max_attempts=2, backoff=Backoff.fixed(1)), visibility_s=300)

    @mail.job("charge")
    async def charge(_note: Note) -> None:
        raise _Busy(asked(rig.clock.now()))

    rig = Rig(app)
    [job_id] = await rig.submit(charge)
    async with rig.working():
        [scheduled] = await rig.happens(JobRetryScheduled)
    jitter = 1 + 0.2 * job_rng(job_id).random()
    assert math.floor(29 * jitter) <= scheduled.delay_s <= math.ceil(30 * jitter)
    assert scheduled.delay_s >= 29.3
    assert _delays_on_the_server(rig)[0] == scheduled.delay_s


async def test_attempts_are_counted_by_receives_and_told_to_the_handler() -> None:
    app, mail = one_lane(Retry(max_attempts=4, backoff=Backoff.fixed(1)))
    seen: list[tuple[int, int]] = []

    @mail.job("charge")
    async def charge(_note: Note, ctx: JobContext) -> None:
        seen.append((ctx.attempt, ctx.max_attempts))
        if ctx.attempt < 3:
            raise ConnectionError("refused")

    rig = Rig(app)
    await rig.submit(charge)
    async with rig.working():
        await rig.happens(JobCompleted)
    assert seen == [(1, 4), (2, 4), (3, 4)]


async def test_a_submission_may_override_the_attempts_of_its_type() -> None:
    app, mail = one_lane(Retry(max_attempts=2, backoff=Backoff.fixed(1)))

    @mail.job("charge")
    async def charge(_note: Note) -> None:
        raise ConnectionError("refused")

    rig = Rig(app)
    await rig.submit(charge, max_attempts=5)
    async with rig.working():
        [dead] = await rig.happens(JobDeadLettered)
    assert dead.attempt == 5
    assert dead.reason == "attempts-exhausted"


async def test_retry_later_gives_the_message_back_for_as_long_as_asked() -> None:
    app, mail = one_lane(visibility_s=300)

    @mail.job("charge")
    async def charge(_note: Note) -> None:
        if not rig.heard(JobDeferred):
            raise RetryLater(after=timedelta(seconds=90.2), reason="the bank sleeps")

    rig = Rig(app)
    await rig.submit(charge)
    async with rig.working():
        [deferred] = await rig.happens(JobDeferred)
        await rig.happens(JobCompleted)
    assert (deferred.delay_s, deferred.reason) == (91, "the bank sleeps")
    assert not rig.heard(JobRetryScheduled)


async def test_do_not_retry_dead_letters_at_once_and_discard_deletes() -> None:
    app, mail = one_lane()

    @mail.job("charge")
    async def charge(note: Note) -> None:
        if note.text == "never":
            raise DoNotRetry("the account is closed")
        raise Discard("charged already")

    rig = Rig(app)
    await rig.submit(charge, "never", "done")
    async with rig.working():
        [dead] = await rig.happens(JobDeadLettered)
        await rig.happens(JobDiscarded)
    assert (dead.reason, dead.attempt) == ("do-not-retry", 1)
    assert len(rig.sqs.messages(DEAD_MAIL)) == 1
    assert rig.sqs.messages(MAIL) == []
