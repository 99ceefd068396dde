"""The page of the audit."""

from __future__ import annotations

from headgate import acting_as
from headgate.jobs.core.ports.table import Item
from headgate.jobs.errors import Throttled
from headgate.jobs.records.audit.entry import AUDIT
from tests.support.console import MARKUP, Browser
from tests.unit.ops.console.conftest import Email, Shop


def test_the_page_tells_who_did_what_and_why(shop: Shop, browser: Browser) -> None:
    browser.post("/queues/payments/pause", {"reason": "the bank is down", "priority": "low"})
    text = browser.get("/audit").text
    for said in ("ada@laptop", "pause", "payments/low", "the bank is down", "done", "until"):
        assert said in text
    assert 'href="/queues/payments"' in text
    [entry] = shop.client.audit.list().entries
    assert entry.actor == "ada@laptop"


def test_each_thing_leads_to_its_page(shop: Shop, browser: Browser) -> None:
    job = shop.client.submit(shop.send_email, Email(to="bad"))
    shop.harness.drain()
    done = browser.post("/jobs/rerun", {"id": job.id, "confirmed": "1"})
    text = browser.get("/audit").text
    assert f'href="/jobs/{job.id}"' in text
    assert done.headers["location"].removeprefix("/jobs/") in text  # the new job


def test_the_address_has_the_filter(shop: Shop, browser: Browser) -> None:
    for name in ("ada", "bob"):
        with acting_as(name):
            shop.client.pauses.create(tenant=f"of-{name}")
    text = browser.get("/audit?actor=BOB&action=pause&since=1h").text
    assert "of-bob" in text
    assert "of-ada" not in text
    assert 'value="BOB"' in text
    assert "<option selected>pause</option>" in text
    assert "Nothing of the kind was done" in browser.get("/audit?target=none").text


def test_older_entries_are_on_the_next_page(shop: Shop, browser: Browser) -> None:
    for number in range(51):
        shop.client.pauses.create(tenant=f"org-{number:02}")
        shop.harness.clock.advance(1)
    first = browser.get("/audit").text
    assert first.count("data-row") == 50
    assert "org-00" not in first
    [link] = [each.split('"')[0] for each in first.split('rel="next" href="')[1:]]
    second = browser.get(link.replace("&amp;", "&")).text
    assert second.count("data-row") == 1
    assert "org-00" in second


def test_nobody_s_text_becomes_markup(shop: Shop, browser: Browser) -> None:
    with acting_as(MARKUP):
        shop.client.pauses.create(tenant="<b>org", reason=MARKUP)
    text = browser.get("/audit").text
    assert "&lt;script&gt;" in text
    assert "<script>alert" not in text
    assert not {"\x1b", "\u202e"} & set(text)


def test_items_that_nobody_s_client_wrote_are_counted(shop: Shop, browser: Browser) -> None:
    shop.harness.table.sync.put([Item(pk=AUDIT, sk="strange", data={"actor": MARKUP})])
    text = browser.get("/audit").text
    assert "1 item of the audit can't be read, and is left out." in text
    assert "<script>alert" not in text


def test_what_can_not_be_entered_is_not_done(shop: Shop, browser: Browser) -> None:
    shop.harness.table.faults.raise_on("replace", Throttled("the table is busy"))
    answer = browser.post("/queues/payments/pause", {})
    assert answer.status == 502
    assert "nothing was done, since the audit could not be written" in answer.text
    assert shop.client.pauses.list() == []


def test_an_action_that_failed_names_its_error(shop: Shop, browser: Browser) -> None:
    job = shop.client.submit(shop.capture, Email(to="a"))
    browser.post("/jobs/rerun", {"id": job.id, "confirmed": "1"})
    text = browser.get("/audit").text
    assert "failed" in text
    assert "JobNotEnded" in text


def test_a_filter_with_a_mistake_is_told_so(browser: Browser) -> None:
    for query in ("since=soon", "after=x!", "actor=a&actor=b", "since=1h&until=2h"):
        assert browser.get(f"/audit?{query}").status == 400
