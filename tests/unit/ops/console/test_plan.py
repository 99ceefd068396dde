"""The pages of retries."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headgate import App, Backoff, Retry
from headgate.jobs.deployment.retry_timeline import timeline
from headgate.ops.console.figures.charts import LINE_WIDTH, bands, ticks
from tests.support.console import Browser
from tests.unit.ops.console.conftest import Email, Shop


def test_types_are_listed_with_their_attempts(browser: Browser) -> None:
    text = browser.get("/plan").text
    assert 'href="/plan/capture"' in text
    assert "Backoff.exponential" in text


def test_a_type_shows_when_its_attempts_come_and_what_lies_beyond_them(
    shop: Shop, browser: Browser
) -> None:
    shop.app.define(
        "slow", Email, retry=Retry(max_attempts=4, backoff=Backoff.steps(10, 3600, 86_400))
    )
    text = browser.get("/plan/slow").text
    assert text.count("<rect") == 4
    assert '<text class="number" x="20" y="53">4</text>' in text
    assert "3 crashes of its process" in text
    assert f'title="{timedelta(seconds=10)}"' in text
    assert browser.get("/plan/none").status == 404


@pytest.mark.parametrize("jobs", ["0", "10001", "many", "-1"])
def test_a_number_of_jobs_that_cannot_be_is_refused(browser: Browser, jobs: str) -> None:
    assert browser.get(f"/plan/capture?jobs={jobs}").status == 400


def test_with_jitter_fewer_jobs_meet_in_the_busiest_second() -> None:
    def busiest(backoff: Backoff) -> list[int]:
        app = App("shop")
        job = app.define("send", Email, retry=Retry(max_attempts=3, backoff=backoff))
        return [each.busiest for each in bands(job, timeline(job), 1_000)]

    assert busiest(Backoff.fixed(10, jitter=None)) == [1_000, 1_000, 1_000]
    first, second, third = busiest(Backoff.exponential(base=10, jitter="full"))
    assert first == 1_000
    assert 100 < second < 200, "a thousand over ten seconds"
    assert third < second


def test_bands_and_marks_stay_within_the_drawing() -> None:
    app = App("shop")
    job = app.define("send", Email, retry=Retry(max_attempts=100))
    planned = timeline(job)
    drawn = bands(job, planned, 10)
    assert len(drawn) == 50
    assert all(each.x >= 0 and each.x + each.width <= LINE_WIDTH + 3 for each in drawn)
    assert [each.x for each in ticks(planned)] == sorted(each.x for each in ticks(planned))
    assert ticks(planned)[-1].x <= LINE_WIDTH
    single = app.define("once", Email, retry=Retry(max_attempts=1))
    [band] = bands(single, timeline(single), 10)
    assert (band.x, band.busiest) == (0.0, 10)
