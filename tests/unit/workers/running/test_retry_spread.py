"""A thousand jobs that fail at once come back as the theory of their jitter says."""

from __future__ import annotations

from collections import Counter

import pytest
import scipy  # type: ignore[import-untyped]  # it has no types; scipy.stats loads on first use

from headgate import App, Backoff, Priority, Retry
from headgate.jobs.core.events import JobFailed, JobRetryScheduled
from headgate.jobs.retry.strategies import Jitter
from tests.unit.workers.rig import Note, Rig, without_threads

pytestmark = without_threads

JOBS = 1000
BASE_S = 60

SIGNIFICANCE = 1e-6
"""Significance level. Ids are random, so a sound spread fails once in a million runs."""

SPREADS: dict[Jitter, tuple[float, float]] = {
    "full": (0, BASE_S),
    "equal": (BASE_S / 2, BASE_S),
    "decorrelated": (BASE_S, 3 * BASE_S),
    0.1: (0.9 * BASE_S, 1.1 * BASE_S),
}
"""Range of seconds over which first retries are evenly distributed.
https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/"""


async def first_delays(jitter: Jitter) -> Counter[int]:
    """Return the delays, in whole seconds as in SQS, of jobs that all fail at one moment."""
    app = App("shop")
    queue = app.queue(
        "mail",
        priorities=[Priority.NORMAL],
        retry=Retry(
            max_attempts=2, backoff=Backoff.exponential(base=BASE_S, cap=600, jitter=jitter)
        ),
    )

    @queue.job("send")
    async def send(_note: Note) -> None:
        raise ConnectionError("the one service that all of them need is down")

    rig = Rig(app)
    await rig.submit(send, *("a mail" for _ in range(JOBS)))
    async with rig.working(concurrency=JOBS):
        scheduled = await rig.happens(JobRetryScheduled, JOBS)
        failed = rig.heard(JobFailed)[:JOBS]
    assert len({event.job_id for event in failed}) == JOBS
    assert len({event.at for event in failed}) == 1
    return Counter(event.delay_s for event in scheduled[:JOBS])


@pytest.mark.parametrize(("jitter", "span"), SPREADS.items(), ids=map(str, SPREADS))
async def test_a_thousand_simultaneous_failures_spread_evenly_over_the_jitter(
    jitter: Jitter, span: tuple[float, float]
) -> None:
    delays = await first_delays(jitter)
    low, high = span
    even = scipy.stats.uniform(low, high - low)
    seconds = range(int(low), int(high) + 1)
    assert set(delays) <= set(seconds)
    expected = [JOBS * (even.cdf(second + 0.5) - even.cdf(second - 0.5)) for second in seconds]
    observed = [delays[second] for second in seconds]
    assert scipy.stats.chisquare(observed, expected).pvalue > SIGNIFICANCE


async def test_without_jitter_all_of_them_come_back_in_one_second() -> None:
    assert await first_delays(None) == {BASE_S: JOBS}
