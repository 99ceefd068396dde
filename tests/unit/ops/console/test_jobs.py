"""The list of jobs, its filters, and what is done with many of them."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from datetime import timedelta
from uuid import uuid4

import pytest

from headgate import JobFilter, JobState
from headgate.jobs.core.ports.table import MAX_PUT
from headgate.jobs.errors import ServiceUnavailable
from headgate.ops.console.pages.jobs import listing
from headgate.testing import DrainUnfinished
from tests.support.console import MARKUP, Browser
from tests.support.story import Story
from tests.unit.ops.console.conftest import Email, Looks, Shop


@pytest.fixture
def dead(shop: Shop) -> Sequence[str]:
    """The ids of three dead jobs, beside two that completed."""
    handles = shop.client.submit_many(
        shop.send_email, [Email(to=f"bad{n}") for n in range(3)], tenant="org-1"
    )
    shop.client.submit_many(shop.send_email, [Email(to=f"good{n}") for n in range(2)])
    shop.harness.drain()
    return [each.id for each in handles]


def listed(browser: Browser, query: str) -> set[str]:
    text = browser.get(f"/jobs{query}").text
    return {part.split('"')[0] for part in text.split('data-row="')[1:]}


def test_every_filter_stands_in_the_address(browser: Browser, dead: Sequence[str]) -> None:
    assert len(listed(browser, "")) == 5
    assert listed(browser, "?state=dead") == set(dead)
    assert listed(browser, "?tenant=org-1&type=send-email&queue=jobs&since=1h") == set(dead)
    assert listed(browser, "?state=dead&state=completed&since=2020-01-01") > set(dead)
    assert listed(browser, "?queue=payments") == set()
    assert listed(browser, "?until=1h") == set()
    text = browser.get("/jobs?state=dead&tenant=org-1").text
    assert 'href="/jobs?state=completed&amp;tenant=org-1"' not in text  # none of that tenant's
    assert 'href="/jobs?tenant=org-1"' in text


@pytest.mark.usefixtures("dead")
def test_where_nothing_is_listed_there_is_nothing_to_cancel(browser: Browser) -> None:
    assert "Cancel all listed" in browser.get("/jobs").text
    assert "Cancel all that match" in browser.get("/jobs?state=dead").text
    assert "Cancel all" not in browser.get("/jobs?queue=payments").text


def test_running_jobs_are_a_state_of_their_own_without_a_count(
    shop: Shop, browser: Browser
) -> None:
    text = browser.get("/jobs").text
    assert '<a href="/jobs?state=running">running</a>' in text
    running = Story(job_type="capture", start=shop.harness.clock.now()).run(0, "started")
    shop.harness.table.sync.put(running.items)
    assert listed(browser, "?state=running") == {running.job_id}
    assert listed(browser, "") == set()


def test_a_job_that_waits_for_the_end_of_a_pause_is_shown_with_it(
    shop: Shop, browser: Browser
) -> None:
    paused = Story(job_type="capture", start=shop.harness.clock.now()).run(0, "failed")
    paused.run(1, "released", 2, reason="the tenant <acme> is paused", paused=True)
    shop.harness.table.sync.put(paused.items)
    for page in ("/jobs", f"/jobs/{paused.job_id}"):
        assert "Z, since the tenant &lt;acme&gt; is paused" in browser.get(page).text


def test_a_page_leads_to_the_next_with_the_same_filter(shop: Shop, browser: Browser) -> None:
    shop.client.submit_many(shop.send_email, [Email(to=f"good{n}") for n in range(60)])
    shop.harness.drain()
    text = browser.get("/jobs?state=completed").text
    [after] = [part.split('"')[0] for part in text.split('rel="next" href="/jobs')[1:]]
    assert after.startswith("?state=completed&amp;after=")
    first = listed(browser, "?state=completed")
    second = listed(browser, after.replace("&amp;", "&"))
    assert (len(first), len(second)) == (50, 10)
    assert not first & second


@pytest.mark.parametrize(
    "query",
    [
        *("?state=waiting", "?state=none", "?since=soon", "?since=-1h", "?since=1h&until=2h"),
        *("?after=zz", "?since=1h&since=2h", f"?type={'x' * 129}", "?type=%ff", "?q=nonsense"),
        *("?since=1e9d", "?until=99999-01-01", "?" + "&".join(f"a{n}=" for n in range(5_001))),
    ],
)
def test_a_filter_that_can_not_be_is_told_so(browser: Browser, query: str) -> None:
    assert browser.get(f"/jobs{query}").status == 400


@pytest.mark.parametrize("path", ["/jobs", "/dead", "/audit"])
def test_a_time_at_the_end_of_the_calendar_is_one_wherever_its_offset_leads(
    browser: Browser, path: str
) -> None:
    for query in ("since=0001-01-01T00:00:00%2B23:59", "until=9999-12-31T23:59:59-23:59"):
        assert browser.get(f"{path}?{query}").status == 200


def test_a_search_leads_to_a_job_or_a_list(browser: Browser, dead: Sequence[str]) -> None:
    for words, path in (
        (dead[0].upper(), f"/jobs/{dead[0]}"),
        ("send-email dead", "/jobs?type=send-email&state=dead"),
        ("payments since:2h tenant:org-1", "/jobs?queue=payments&since=2h&tenant=org-1"),
    ):
        answer = browser.get(f"/jobs?q={words.replace(' ', '+')}")
        assert (answer.status, answer.headers["location"]) == (303, path)


def of_tenant(shop: Shop, org: str, jobs: int) -> Sequence[Story]:
    """Return jobs of a tenant that died one after the other, the last one now, and are recorded."""
    now = shop.harness.clock.now()
    stories = [
        Story(str(uuid4()), job_type="send-email", start=now - timedelta(seconds=number)).run(
            0, "dead", attempt=1, tenant={"org": org}
        )
        for number in range(jobs)
    ]
    items = [item for each in stories for item in each.items]
    for first in range(0, len(items), MAX_PUT):
        assert not shop.harness.table.sync.put(items[first : first + MAX_PUT])
    return stories


def test_one_job_among_many_of_others_takes_few_requests(
    shop: Shop, browser: Browser, looks: Looks
) -> None:
    looks.wait = True  # so that nothing is counted
    [wanted] = of_tenant(shop, "org-1", 1)
    shop.later()
    of_tenant(shop, "org-2", 1_200)
    shop.harness.table.calls.clear()
    assert listed(browser, "?state=dead&type=send-email&tenant=org-1") == {wanted.job_id}
    assert shop.harness.table.calls.count("lines") <= 4 * 6


def test_an_empty_page_that_is_not_the_last_leads_on(
    shop: Shop, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "_MOST_ENTRIES", 5)
    [wanted] = of_tenant(shop, "org-1", 1)
    shop.later()
    of_tenant(shop, "org-2", 8)
    text = browser.get("/jobs?tenant=org-1").text
    assert "None so far" in text
    [after] = [part.split('"')[0] for part in text.split('rel="next" href="/jobs')[1:]]
    assert listed(browser, after.replace("&amp;", "&")) == {wanted.job_id}


def test_no_text_of_a_filter_becomes_markup(browser: Browser) -> None:
    for name in ("type", "tenant", "queue", "since", "state", "q", "after"):
        answer = browser.get(f"/jobs?{name}=%3Cscript%3Ealert(1)%3C/script%3E%22")
        assert "<script>alert" not in answer.text


def test_the_page_says_that_the_table_can_not_be_read(shop: Shop, browser: Browser) -> None:
    shop.harness.table.faults.raise_on(None, ServiceUnavailable(MARKUP), times=50)
    answer = browser.get("/jobs")
    assert answer.status == 200
    assert "can't be read" in answer.text
    assert "<script>alert" not in answer.text


@pytest.mark.usefixtures("dead")
def test_the_list_does_not_wait_for_the_counts_whose_age_is_told(
    shop: Shop, browser: Browser, looks: Looks
) -> None:
    looks.wait = True
    text = browser.get("/jobs").text
    assert "The jobs are being counted." in text
    assert 'data-every="1"' in text
    assert text.count("data-row") == 5
    assert 'href="/jobs?state=dead">dead</a>' in text
    looks.make()
    text = browser.get("/jobs").text
    assert 'dead <b title="3">3</b>' in text
    assert 'data-every="5"' in text
    shop.later(90)
    text = browser.get("/jobs").text
    assert 'dead <b title="3">3</b>' in text
    assert re.search(r"Counted\s+<span[^>]*>1m 30s</span>\s+ago\.", text)
    assert len(looks.waiting) == 1


def test_counts_that_can_not_be_read_are_told(shop: Shop, browser: Browser, looks: Looks) -> None:
    looks.wait = True
    browser.get("/jobs")
    shop.harness.table.faults.raise_on(None, ServiceUnavailable("it is down"), times=500)
    looks.make()
    assert "The counts can't be read: it is down" in browser.get("/jobs").text


@pytest.mark.usefixtures("dead")
def test_pages_of_many_filters_are_read_the_less_often(shop: Shop, browser: Browser) -> None:
    filters = [f"?state=dead&tenant=org-{number}" for number in range(30)]
    for each in filters:
        browser.get(f"/jobs{each}")
    asked = len(shop.harness.table.calls)
    shop.later(20)  # alone, each would be read again by now
    for each in filters:
        browser.get(f"/jobs{each}")
    assert len(shop.harness.table.calls) == asked


# --- many at once --------------------------------------------------------------------------------


def test_jobs_run_again_once_their_number_is_confirmed(
    shop: Shop, browser: Browser, dead: Sequence[str]
) -> None:
    asked = browser.post("/jobs/rerun", {"id": dead, "state": "dead"})
    assert asked.status == 200
    assert "Run again 3 jobs?" in asked.text
    assert 'name="state" value="dead"' in asked.text
    assert shop.harness.submitted(shop.send_email) == []
    done = browser.post("/jobs/rerun", {"id": dead, "state": "dead", "confirmed": "1"})
    assert done.status == 303
    assert len(shop.harness.submitted(shop.send_email)) == 3
    page = browser.get(done.headers["location"]).text
    assert page.count("runs again as") == 3
    assert 'href="/jobs?state=dead"' in page


def test_a_job_that_can_not_run_again_keeps_no_other_from_it(
    shop: Shop, browser: Browser, dead: Sequence[str]
) -> None:
    waiting = shop.client.submit(shop.capture, Email(to="a@b.example")).id
    done = browser.post("/jobs/rerun", {"id": [waiting, dead[0]], "confirmed": "1"})
    page = browser.get(done.headers["location"]).text
    assert (page.count("not done"), page.count("runs again as")) == (1, 1)


def test_a_job_that_has_ended_is_not_cancelled_and_its_replay_runs(
    shop: Shop, browser: Browser, dead: Sequence[str]
) -> None:
    ended = dead[0]
    waiting = shop.client.submit(shop.send_email, Email(to="ada"), delay=60)
    form = {"id": [ended, waiting.id], "confirmed": "1"}
    said = browser.get(browser.post("/jobs/cancel", form).headers["location"]).text
    assert said.count("cancellation requested") == 1
    assert "it is dead already, and there is nothing to cancel" in said
    alone = browser.post("/jobs/cancel", {"id": ended, "confirmed": "1"})
    assert "nothing to cancel" in browser.get(alone.headers["location"]).text
    assert shop.client.handle(ended).history().cancel_requested_at is None
    shop.client.dead_letters.replay([ended], set={"to": "ada"})
    shop.later()
    shop.harness.drain()
    assert shop.client.handle(ended).state() is JobState.COMPLETED
    assert waiting.state() is JobState.CANCELLED


def test_jobs_are_cancelled_with_their_reason_and_each_is_logged(
    shop: Shop, browser: Browser, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "headgate.audit")
    ids = [each.id for each in shop.client.submit_many(shop.capture, [Email(to="a")] * 2)]
    assert "Cancel 2 jobs?" in browser.post("/jobs/cancel", {"id": ids}).text
    form = {"id": ids, "confirmed": "1", "reason": "wrong batch"}
    done = browser.post("/jobs/cancel", form)
    assert browser.get(done.headers["location"]).text.count("cancellation requested") == 2
    for each in ids:
        assert shop.client.handle(each).history().cancel_reason == "wrong batch"
    assert [each.message for each in caplog.records] == [
        f"ada@laptop: cancel job {each}: done" for each in ids
    ]
    shop.harness.drain()
    assert shop.client.handle(ids[0]).state() is JobState.CANCELLED


def test_all_that_match_are_counted_first(shop: Shop, browser: Browser) -> None:
    def fail(email: Email) -> str:
        raise ConnectionError(email.to)

    flaky = shop.app.define("flaky", Email, returns=str)
    flaky.handler(fail)
    shop.client.submit_many(flaky, [Email(to="a")] * 2)
    with pytest.raises(DrainUnfinished):
        shop.harness.drain(max_runs=2)
    asked = browser.post("/jobs/cancel", {"all": "1", "type": "flaky"})
    assert "Cancel 2 jobs?" in asked.text
    ids = [each.split('"')[0] for each in asked.text.split('name="id" value="')[1:]]
    later = shop.client.submit(flaky, Email(to="later"))
    while later.state() is not JobState.RETRYING:
        with pytest.raises(DrainUnfinished):
            shop.harness.drain(max_runs=1)
    gone = "0196a2b4-0000-7000-8000-000000000001"
    form = {"all": "1", "type": "flaky", "id": [*ids, gone], "confirmed": "1"}
    done = browser.post("/jobs/cancel", form)
    said = browser.get(done.headers["location"]).text
    assert said.count("cancellation requested") == 2
    assert said.count("the filter selects it no more") == 1
    assert [each for each in ids if shop.client.handle(each).history().cancel_requested_at] == ids
    assert len(shop.client.jobs.cancel(JobFilter(types=("flaky",)), dry_run=True).jobs) == 3
    assert "Cancel 3 jobs?" in browser.post("/jobs/cancel", {"all": "1", "confirmed": "1"}).text
    nothing = browser.post("/jobs/cancel", {"all": "1", "type": "none"})
    assert "There is none" in nothing.text


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"id": "none"},
        {"id": ["0196a2b4-0000-7000-8000-000000000001"], "reason": "x" * 301},
        {"all": "1", "state": "waiting"},
        {"id": [f"0196a2b4-0000-7000-8000-{n:012}" for n in range(1_001)]},
    ],
)
def test_a_form_with_a_mistake_does_nothing(browser: Browser, form: dict[str, object]) -> None:
    assert browser.post("/jobs/cancel", form).status == 400


def test_a_payload_and_a_group_are_for_one_job(browser: Browser, dead: Sequence[str]) -> None:
    for form in (
        {"id": dead, "payload": "{}", "confirmed": "1"},
        {"id": dead[:1], "payload": "{", "confirmed": "1"},
        {"id": dead[:1], "payload": "null", "confirmed": "1"},
        {"id": dead, "group": "a", "confirmed": "1"},
        {"id": [f"0196a2b4-0000-7000-8000-{n:012}" for n in range(101)]},
    ):
        assert browser.post("/jobs/rerun", form).status == 400


def test_an_outcome_that_is_not_kept_is_not_found(browser: Browser) -> None:
    assert browser.get("/outcomes/none").status == 404
