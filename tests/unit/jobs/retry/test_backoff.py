from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from datetime import timedelta
from itertools import islice, pairwise
from typing import Any

import pytest
import scipy  # type: ignore[import-untyped]  # it has no types; scipy.stats loads on first use
from hypothesis import given
from hypothesis import strategies as st

from headgate.jobs.errors import SettingsInvalid
from headgate.jobs.retry.backoff import Backoff, job_rng
from headgate.jobs.retry.backoff_context import BackoffContext
from headgate.jobs.retry.classification import LONGEST_WAIT_S
from headgate.jobs.retry.strategies import Jitter

SAMPLES = 4000
SIGNIFICANCE = 0.01
"""Significance level. Every sample is seeded, so a test that passes once always passes."""


def job_ids(count: int = SAMPLES) -> list[str]:
    """Return UUIDv7s of one millisecond, which differ in their random bits alone."""
    bits = random.Random("job ids")  # noqa: S311  a sample, no secret
    prefix = (0x019A_0000_0000 << 80) | (7 << 76) | (2 << 62)
    tails = ((bits.getrandbits(12) << 64) | bits.getrandbits(62) for _ in range(count))
    return [str(uuid.UUID(int=prefix | tail)) for tail in tails]


IDS = job_ids()


def by_attempt(failed: BackoffContext) -> float:
    return float(failed.attempt)


async def too_late(failed: BackoffContext) -> float:
    return float(failed.attempt)


def delays_of_all(backoff: Backoff, attempt: int, backlog: int = 0) -> list[float]:
    return [backoff.delay_s(attempt, job_rng(job_id), backlog) for job_id in IDS]


def first(backoff: Backoff, count: int, *, job_id: str = IDS[0], backlog: int = 0) -> list[float]:
    return list(islice(backoff.delays(job_rng(job_id), backlog), count))


def assert_uniform(sample: list[float], low: float, high: float) -> None:
    assert low <= min(sample)
    assert max(sample) <= high
    assert (
        scipy.stats.kstest(sample, scipy.stats.uniform(low, high - low).cdf).pvalue > SIGNIFICANCE
    )


# --- the delays, before they are spread ----------------------------------------------------------


@pytest.mark.parametrize(
    ("backoff", "expected"),
    [
        (Backoff.exponential(jitter=None), [1, 2, 4, 8, 16, 32, 60, 60]),
        (Backoff.exponential(base=5, cap=20, jitter=None), [5, 10, 20, 20]),
        (Backoff.exponential(base=1, factor=3, cap=100, jitter=None), [1, 3, 9, 27, 81, 100]),
        (Backoff.exponential(base=7, factor=1, jitter=None), [7, 7, 7]),
        (Backoff.fixed(30), [30, 30, 30]),
        (Backoff.fixed(0), [0, 0]),
        (Backoff.steps(60, 300, 900), [60, 300, 900, 900, 900]),
        (Backoff.adaptive(jitter=None), [1, 2, 4, 8]),
        (Backoff.custom(lambda failed: failed.attempt**2), [1, 4, 9, 16]),
    ],
    ids=repr,
)
def test_without_jitter_the_delays_are_the_documented_ones(
    backoff: Backoff, expected: list[float]
) -> None:
    assert first(backoff, len(expected)) == expected


def test_a_delay_may_exceed_the_twelve_hours_that_sqs_can_hide_a_message() -> None:
    day_s = 86_400.0
    assert first(Backoff.steps(day_s, 7 * day_s), 2) == [day_s, 7 * day_s]


@pytest.mark.parametrize("jitter", ["full", "equal", "decorrelated", 0.1, None])
def test_a_huge_attempt_number_neither_overflows_nor_passes_the_cap(jitter: Jitter) -> None:
    backoff = Backoff.exponential(base=1, factor=1000, cap=60, jitter=jitter)
    assert 0 <= backoff.delay_s(20_000, job_rng("any")) <= 60


def test_the_attempt_counts_from_one() -> None:
    with pytest.raises(ValueError, match="attempts count from 1, got 0"):
        Backoff.fixed(1).delay_s(0, job_rng("any"))


# --- the spread of each jitter -------------------------------------------------------------------


@pytest.mark.parametrize(("attempt", "ceiling"), [(1, 1), (4, 8), (9, 60)])
def test_full_jitter_spreads_uniformly_between_zero_and_the_exponential(
    attempt: int, ceiling: float
) -> None:
    assert_uniform(delays_of_all(Backoff.exponential(), attempt), 0, ceiling)


@pytest.mark.parametrize(("attempt", "ceiling"), [(1, 1), (4, 8), (9, 60)])
def test_equal_jitter_spreads_uniformly_over_the_upper_half(attempt: int, ceiling: float) -> None:
    backoff = Backoff.exponential(jitter="equal")
    assert_uniform(delays_of_all(backoff, attempt), ceiling / 2, ceiling)


def test_proportional_jitter_spreads_uniformly_around_the_delay() -> None:
    assert_uniform(delays_of_all(Backoff.exponential(jitter=0.1), 4), 7.2, 8.8)
    assert_uniform(delays_of_all(Backoff.fixed(30, jitter=0.5), 2), 15, 45)
    assert_uniform(delays_of_all(Backoff.steps(10, 300, jitter=1.0), 9), 0, 600)


def test_proportional_jitter_spreads_below_the_cap() -> None:
    assert_uniform(delays_of_all(Backoff.exponential(jitter=0.1), 10), 54, 60)


def test_the_first_decorrelated_delay_is_uniform_from_base_to_triple() -> None:
    backoff = Backoff.exponential(base=2, jitter="decorrelated")
    assert_uniform(delays_of_all(backoff, 1), 2, 6)


@pytest.mark.parametrize("attempt", [1, 2, 3, 5, 8, 13])
def test_decorrelated_delays_are_distributed_like_the_chain_of_the_paper(attempt: int) -> None:
    paper = random.Random("the paper")  # noqa: S311  a sample, no secret

    def sleep_of_paper() -> float:
        sleep = 1.0
        for _ in range(attempt):
            sleep = min(60.0, 1.0 + (sleep * 3 - 1.0) * paper.random())
        return sleep

    simulated = [sleep_of_paper() for _ in range(SAMPLES)]
    ours = delays_of_all(Backoff.exponential(jitter="decorrelated"), attempt)
    assert scipy.stats.ks_2samp(ours, simulated).pvalue > SIGNIFICANCE


def test_jobs_that_fail_together_come_back_evenly_over_the_whole_window() -> None:
    slots = [0] * 40
    for delay in delays_of_all(Backoff.exponential(), 7):
        slots[int(delay / 60 * len(slots))] += 1
    assert scipy.stats.chisquare(slots).pvalue > SIGNIFICANCE


def test_ids_that_differ_only_in_a_counter_are_spread_as_well() -> None:
    backoff = Backoff.exponential(base=1, jitter="full")
    counted = [f"019a0000-0000-7000-8000-{n:012x}" for n in range(SAMPLES)]
    assert_uniform([backoff.delay_s(1, job_rng(job_id)) for job_id in counted], 0, 1)


def test_a_job_that_waited_long_once_is_no_likelier_to_wait_long_again() -> None:
    backoff = Backoff.exponential()
    result = scipy.stats.spearmanr(delays_of_all(backoff, 1), delays_of_all(backoff, 2))
    assert result.pvalue > SIGNIFICANCE


# --- adaptive ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("depth", "expected"),
    [
        (-1, [1, 2, 4]),
        (0, [1, 2, 4]),
        (500, [1.5, 3, 6]),
        (1000, [2, 4, 8]),
        (3000, [4, 8, 16]),
        (10**9, [300, 300, 300]),
    ],
)
def test_adaptive_delays_stretch_with_the_depth_of_the_queue_up_to_the_cap(
    depth: int, expected: list[float]
) -> None:
    assert first(Backoff.adaptive(jitter=None), 3, backlog=depth) == expected


def test_adaptive_jitter_spreads_over_the_stretched_delay() -> None:
    assert_uniform(delays_of_all(Backoff.adaptive(), 3, backlog=1000), 0, 8)


def test_only_an_adaptive_backoff_needs_the_depth_of_the_queue() -> None:
    assert Backoff.adaptive().needs_backlog
    custom = Backoff.custom(lambda _failed: 1)
    others = [Backoff.exponential(), Backoff.fixed(1), Backoff.steps(1, 2), custom]
    assert not any(backoff.needs_backlog for backoff in others)


def test_the_others_ignore_the_depth() -> None:
    assert first(Backoff.exponential(), 5, backlog=10**6) == first(Backoff.exponential(), 5)


# --- properties of every backoff -----------------------------------------------------------------

jitters = st.one_of(st.sampled_from(["full", "equal", "decorrelated", None]), st.floats(0.001, 1.0))
flat_jitters = jitters.filter(lambda jitter: jitter != "decorrelated")


@st.composite
def growing(draw: st.DrawFn, jitter: st.SearchStrategy[Any] = jitters) -> tuple[Backoff, float]:
    base = round(draw(st.floats(0.001, 1000)), 6)  # a microsecond is the finest step
    cap = round(draw(st.floats(base, 100_000)), 6)
    make = Backoff.adaptive if draw(st.booleans()) else Backoff.exponential
    return make(base=base, factor=draw(st.floats(1, 10)), cap=cap, jitter=draw(jitter)), cap


@st.composite
def stepped(draw: st.DrawFn) -> Backoff:
    delays = draw(st.lists(st.floats(0, LONGEST_WAIT_S), min_size=1, max_size=5))
    jitter: Any = draw(flat_jitters)
    return Backoff.steps(*delays, jitter=jitter)


backoffs = st.one_of(growing().map(lambda pair: pair[0]), stepped())
depths = st.integers(0, 10**7)


@given(growing(), st.text(), depths)
def test_no_delay_is_negative_or_above_the_cap(
    pair: tuple[Backoff, float], job_id: str, depth: int
) -> None:
    backoff, cap = pair
    assert all(0 <= delay <= cap for delay in first(backoff, 20, job_id=job_id, backlog=depth))


@given(growing(jitter=st.none()), depths)
def test_without_jitter_no_delay_is_shorter_than_the_one_before(
    pair: tuple[Backoff, float], depth: int
) -> None:
    delays = first(pair[0], 30, backlog=depth)
    assert all(earlier <= later for earlier, later in pairwise(delays))


@given(growing(jitter=st.none()), depths, depths)
def test_a_deeper_queue_never_shortens_a_delay(
    pair: tuple[Backoff, float], one: int, other: int
) -> None:
    shallow, deep = sorted((one, other))
    delays = zip(first(pair[0], 8, backlog=shallow), first(pair[0], 8, backlog=deep), strict=True)
    assert all(under_shallow <= under_deep for under_shallow, under_deep in delays)


@given(backoffs, st.text(), st.integers(1, 30), depths)
def test_any_element_of_a_jobs_chain_can_be_computed_again_from_its_id(
    backoff: Backoff, job_id: str, attempt: int, depth: int
) -> None:
    chain = first(backoff, attempt, job_id=job_id, backlog=depth)
    assert backoff.delay_s(attempt, job_rng(job_id), depth) == chain[-1]


@given(backoffs, st.text(), depths)
def test_every_delay_lies_within_its_bounds(backoff: Backoff, job_id: str, depth: int) -> None:
    delays = first(backoff, 20, job_id=job_id, backlog=depth)
    for delay, (least, most) in zip(delays, backoff.bounds(), strict=False):
        assert least - 1e-9 <= delay <= most * (1 + 1e-9)


@given(backoffs)
def test_bounds_are_no_wider_than_the_delays_of_many_jobs(backoff: Backoff) -> None:
    if backoff.needs_backlog or "decorrelated" in repr(backoff):
        return  # their extremes depend on a deep queue, or on a run of luck
    delays = [backoff.delay_s(3, job_rng(job_id)) for job_id in IDS[:500]]
    least, most = next(islice(backoff.bounds(), 2, None))
    assert min(delays) - least <= (most - least) / 20 + 1e-9
    assert most - max(delays) <= (most - least) / 20 + 1e-9


@given(backoffs, st.integers(1, 20))
def test_every_delay_draws_one_random_number_or_none_without_jitter(
    backoff: Backoff, attempt: int
) -> None:
    drawn_from, plain = job_rng("any"), job_rng("any")
    backoff.delay_s(attempt, drawn_from)
    if "jitter=None" not in repr(backoff):
        for _ in range(attempt):
            plain.random()
    assert drawn_from.getstate() == plain.getstate()


@given(backoffs)
def test_a_backoff_reads_like_the_call_that_made_it(backoff: Backoff) -> None:
    assert eval(repr(backoff), {"Backoff": Backoff}) == backoff  # noqa: S307  our own repr


def test_a_job_has_the_same_delays_on_every_worker_and_no_others() -> None:
    # Pinned: changing these numbers would move the retries of jobs already under way.
    delays = pytest.approx([0.5104280416670686, 1.225745281514669, 3.0238108564497654])
    assert first(Backoff.exponential(), 3, job_id="job-1") == delays
    assert first(Backoff.exponential(), 3, job_id="job-2") != delays


# --- a backoff is a value ------------------------------------------------------------------------


def test_backoffs_that_describe_the_same_delays_are_equal() -> None:
    assert Backoff.exponential() == Backoff.exponential(1, 2, 60, "full")
    assert hash(Backoff.exponential()) == hash(Backoff.exponential(1, 2, 60, "full"))
    assert Backoff.fixed(30) == Backoff.steps(30)
    assert Backoff.exponential() != Backoff.exponential(jitter=None)
    assert Backoff.exponential(cap=300) != Backoff.adaptive()


def test_its_repr_is_short_enough_for_a_log_line() -> None:
    assert repr(Backoff.exponential()) == (
        "Backoff.exponential(base=1.0, factor=2.0, cap=60.0, jitter='full')"
    )
    assert repr(Backoff.steps(60, 300, 900)) == "Backoff.steps(60.0, 300.0, 900.0, jitter=None)"
    assert repr(Backoff.custom(by_attempt)) == "Backoff.custom(by_attempt)"


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Backoff.exponential(base=0), "base must lie between 0.001 and 31,536,000"),
        (lambda: Backoff.exponential(base="2 s"), "base must be a timedelta or .* got '2 s'"),  # type: ignore[arg-type]  # the point
        (lambda: Backoff.exponential(base=True), "base must be a timedelta or .* got True"),
        (lambda: Backoff.exponential(base=float("nan")), "base must be a timedelta or .* got nan"),
        (lambda: Backoff.exponential(factor=0.5), "factor must be a number between 1 and 1,000"),
        (lambda: Backoff.exponential(base=10, cap=5), "cap must lie between 10 and"),
        (lambda: Backoff.exponential(cap=float("inf")), "cap is out of range"),
        (lambda: Backoff.exponential(jitter="ful"), "no jitter 'ful': did you mean 'full'"),  # type: ignore[arg-type]  # the point
        (lambda: Backoff.exponential(jitter=0), "jitter must be a share above 0"),
        (lambda: Backoff.exponential(jitter=1.5), "jitter must be a share .* got 1.5"),
        (lambda: Backoff.exponential(jitter=True), "jitter must be a share .* got True"),
        (lambda: Backoff.fixed(-1), "delay must not be negative, got -1 s"),
        (lambda: Backoff.fixed(10, jitter="decorrelated"), "decorrelated jitter makes its own"),
        (lambda: Backoff.fixed(timedelta(days=366)), "delay must lie between 0 and 31,536,000 sec"),
        (Backoff.steps, r"needs a delay: write Backoff.steps\(60, 300, 900\)"),
        (lambda: Backoff.steps(60, -1), "delay must not be negative, got -1 s"),
        (lambda: Backoff.steps([60]), r"delay must be a timedelta or .* got \[60\]"),  # type: ignore[arg-type]  # the point
        (lambda: Backoff.adaptive(backlog=0), "backlog must be a whole number between 1 and"),
        (lambda: Backoff.custom(5), "write Backoff.fixed"),  # type: ignore[arg-type]  # the point
        (lambda: Backoff.custom(too_late), "needs a synchronous function, and too_late is async"),  # type: ignore[arg-type]  # the point
        (lambda: Backoff.steps(*[1] * 1_001), "takes at most 1,000 delays, .* got 1,001"),
    ],
)
def test_a_wrong_argument_is_named_with_what_it_may_be(
    make: Callable[[], Backoff], says: str
) -> None:
    with pytest.raises(SettingsInvalid, match=says):
        make()


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (-1, "a number out of range"),
        (float("nan"), "NaN"),
        (float("inf"), "a number out of range"),
        (10**400, "a number out of range"),
        (timedelta(days=-1), "a timedelta out of range"),
        (None, "a NoneType"),
        ("5 of the card 4111", "a str"),
        (True, "a bool"),
    ],
    ids=repr,
)
def test_a_custom_backoffs_invalid_delay_is_described_but_not_quoted(
    returned: Any, said: str
) -> None:
    def by_card(_failed: BackoffContext) -> Any:
        return returned

    what = rf"Backoff.custom\(.*by_card\) for attempt 2 returned {said}: it has to return seconds"
    with pytest.raises(SettingsInvalid, match=what) as caught:
        Backoff.custom(by_card).delay_s(2, job_rng("any"))
    assert "4111" not in str(caught.value)


@pytest.mark.parametrize("error", [KeyError("4111"), SystemExit(4111)])
def test_a_custom_function_that_raises_is_reported_by_its_errors_class_alone(
    error: BaseException,
) -> None:
    def by_card(failed: BackoffContext) -> float:
        if failed.attempt < 3:
            return failed.attempt * 10
        raise error

    backoff = Backoff.custom(by_card)
    assert backoff.delay_s(2, job_rng("any")) == 20
    with pytest.raises(SettingsInvalid, match="for attempt 3 raised ") as caught:
        backoff.delay_s(3, job_rng("any"))
    assert type(error).__name__ in str(caught.value)
    assert "4111" not in str(caught.value)
    assert caught.value.__cause__ is error


def test_a_custom_function_is_called_once_with_the_failure_that_is_given() -> None:
    seen: list[BackoffContext] = []

    def remembering(failed: BackoffContext) -> float:
        seen.append(failed)
        return 1

    failed = BackoffContext(attempt=7, error=ValueError("no"), id="a", type="send", payload={})
    Backoff.custom(remembering).delay_s(7, job_rng("any"), failed=failed)
    assert seen == [failed]


def test_the_failures_of_a_sequence_differ_by_their_attempts_only() -> None:
    backoff = Backoff.custom(lambda failed: len(failed.type) * failed.attempt)
    like = BackoffContext(attempt=1, type="send")
    assert list(islice(backoff.delays(job_rng("any"), like=like), 3)) == [4, 8, 12]
    assert list(islice(backoff.bounds(like), 2)) == [(4, 4), (8, 8)]


def test_a_failure_shows_neither_its_error_nor_its_payload_in_a_log_line() -> None:
    shown = repr(BackoffContext(attempt=1, error=ValueError("4111"), payload={"card": "4111"}))
    assert "4111" not in shown
