"""Every page: data or none, AWS down, wrong addresses, a mount."""

from __future__ import annotations

import re
from pathlib import Path
from threading import Event

import pytest

from headgate import acting_as
from headgate.jobs.errors import AccessDenied, ServiceUnavailable, TransportError
from headgate.ops import console as console_package
from headgate.ops.console import reader
from headgate.ops.console.pages import ROUTES
from headgate.ops.console.reader import SharedReader
from headgate.ops.console.rendering import NAVIGATION
from tests.support.console import MARKUP, Browser
from tests.unit.ops.console.conftest import Email, Looks, Shop

HOME = Path(console_package.__file__).parent
MOST_BYTES = 500_000
LONG_AGO = "0196a2b4-0000-7000-8000-000000000001"

PAGES = [
    "/",
    "/queues",
    "/queues/payments",
    "/queues/jobs",
    "/workers",
    "/jobs",
    "/schedules",
    "/dead",
    "/replays",
    "/audit",
]


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_shown_while_there_is_nothing_to_show(browser: Browser, path: str) -> None:
    answer = browser.get(path)
    assert answer.status == 200
    assert "as of" in answer.text


@pytest.mark.parametrize("path", PAGES)
def test_no_text_from_a_job_becomes_markup(shop: Shop, browser: Browser, path: str) -> None:
    shop.client.submit_many(
        shop.send_email, [Email(to=f"bad{n}{MARKUP}") for n in range(3)], tenant="<b>org"
    )
    shop.harness.drain()
    with acting_as(MARKUP):
        shop.client.pauses.create(tenant="<b>org", reason=MARKUP)
        shop.client.pauses.create(queue="payments", reason=MARKUP)
    text = browser.get(path).text
    assert "<script>" not in text
    assert "<b>org" not in text
    assert not {"\x1b", "\u202e"} & set(text)


@pytest.mark.parametrize(
    "path", [*PAGES, "/dead/x", "/schedules/x", "/replays/x", f"/jobs/{LONG_AGO}"]
)
def test_a_page_that_aws_keeps_waiting_is_shown_without_what_it_asks_for(
    browser: Browser, looks: Looks, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    answered = Event()
    looks.wait = True
    monkeypatch.setattr(reader, "PATIENCE_S", 0.0)
    monkeypatch.setattr(SharedReader, "_ask", lambda *_: answered.wait(60))
    answer = browser.get(path)
    answered.set()
    assert answer.status == 200
    assert re.search("(is|are) being read.</strong> AWS has not answered yet", answer.text)
    assert 'data-every="0"' not in answer.text


@pytest.mark.parametrize("path", PAGES)
def test_a_page_says_that_aws_does_not_answer(shop: Shop, browser: Browser, path: str) -> None:
    down = ServiceUnavailable(f"AWS is down {MARKUP}")
    shop.harness.sqs.faults.raise_on("depth", down, times=100)
    shop.harness.table.faults.raise_on(None, down, times=100)
    shop.harness.scheduler.error = down
    answer = browser.get(path)
    assert answer.status == 200
    assert "AWS is down &lt;script&gt;" in answer.text
    assert "<script>alert" not in answer.text


@pytest.mark.parametrize("path", PAGES)
def test_a_page_says_what_the_credentials_may_not_read(
    shop: Shop, browser: Browser, path: str
) -> None:
    denied = AccessDenied(f"the credentials may not do that: {MARKUP}")
    shop.harness.sqs.faults.raise_on("depth", denied, times=100)
    shop.harness.table.faults.raise_on(None, denied, times=500)
    shop.harness.scheduler.error = denied
    answer = browser.get(path)
    assert answer.status == 200
    assert "the credentials may not do that: &lt;script&gt;" in answer.text


@pytest.mark.parametrize(
    ("error", "title"),
    [
        (AccessDenied("no"), "AWS does not allow that"),
        (ServiceUnavailable("no"), "AWS did not answer"),
        (TransportError("no"), "AWS could not do that"),
    ],
)
def test_an_action_that_aws_does_not_carry_out_says_why(
    shop: Shop, browser: Browser, error: TransportError, title: str
) -> None:
    shop.harness.table.faults.raise_on("replace", error, times=100)
    answer = browser.post("/queues/payments/pause", {"reason": "the bank is away"})
    assert answer.status == 502
    assert title in answer.text
    assert "nothing was done, since the audit could not be written: no" in answer.text


def test_a_console_without_the_right_to_read_letters_counts_them(
    shop: Shop, browser: Browser
) -> None:
    shop.client.submit(shop.send_email, Email(to="bad"))
    shop.harness.drain()
    denied = AccessDenied("the credentials may not do sqs:ReceiveMessage")
    shop.harness.sqs.faults.raise_on("receive", denied, times=100)
    answer = browser.get("/dead")
    assert answer.status == 200
    assert "can't be read" in answer.text
    assert "the credentials may not do sqs:ReceiveMessage" in answer.text
    assert '<td class="right trouble" data-label="dead">' in browser.get("/queues").text


@pytest.mark.parametrize("path", PAGES)
def test_ten_who_look_cost_aws_as_much_as_one(
    shop: Shop, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedules: list[str] = []
    names_in = shop.harness.scheduler.names_in

    def counted(group: str, prefix: str) -> list[str]:
        schedules.append(prefix)
        return names_in(group, prefix)

    monkeypatch.setattr(shop.harness.scheduler, "names_in", counted)
    shop.client.submit_many(shop.send_email, [Email(to=f"bad{n}") for n in range(3)])
    shop.harness.drain()

    def asked() -> int:
        return len(shop.harness.sqs.calls) + len(shop.harness.table.calls) + len(schedules)

    def requests(viewers: int) -> int:
        browser, before = shop.browser(), asked()
        for _ in range(viewers):
            assert browser.get(path).status == 200
        return asked() - before

    assert requests(10) == requests(1) > 0


def test_its_files_are_small_in_a_wheel() -> None:
    files = [each for each in HOME.rglob("*") if each.is_file() and each.suffix != ".pyc"]
    assert len(files) > 40
    assert sum(each.stat().st_size for each in files) < MOST_BYTES


def test_addresses_that_lead_nowhere_say_so(browser: Browser) -> None:
    for path in ("/nowhere", "/queues/none", "/static/none.js", "/static/..", "/queues/a/b/c"):
        assert browser.get(path).status == 404
    answer = browser.get("/queues/%3Cscript%3E")
    assert answer.status == 404
    assert "<script>'" not in answer.text


def test_below_a_mount_every_link_stays_below_it(shop: Shop) -> None:
    browser = shop.browser(root="/jobs")
    for path in PAGES:
        text = browser.get(path).text
        assert 'href="/jobs/queues"' in text
        assert not [each for each in text.split('href="')[1:] if each[:5] not in ("/jobs", "#main")]
    moved = browser.post("/queues/payments/pause", {"reason": "x"})
    assert moved.headers["location"] == "/jobs/queues/payments"


def test_the_navigation_leads_to_pages_by_keys_of_their_own(browser: Browser) -> None:
    assert {each.path for each in NAVIGATION} <= {each.path for each in ROUTES}
    assert len({each.key for each in NAVIGATION}) == len(NAVIGATION)
    assert all(browser.get(each.path).status == 200 for each in NAVIGATION)


def test_what_browsers_load_is_kept_until_it_changes(browser: Browser) -> None:
    page = browser.get("/").text
    [script] = [each.split('"')[0] for each in page.split('src="')[1:]]
    assert "immutable" in browser.get(script).headers["cache-control"]
    assert browser.get(script).headers["content-type"].startswith("text/javascript")
    assert browser.get("/static/console.js").headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("path", ["/jobs", "/dead"])
def test_a_filter_with_several_values_keeps_each_in_a_field_of_its_own(
    browser: Browser, path: str
) -> None:
    text = browser.get(f"{path}?type=send-email&type=capture&since=2h&tenant=org-1").text
    for name, value in (("type", "send-email"), ("type", "capture"), ("tenant", "org-1")):
        assert re.search(f'<input name="{name}"[^>]* value="{value}"', text)
    assert re.search('<input name="since"[^>]* value="2h"', text)
    assert browser.get(f"{path}?since=2h&since=3h").status == 400
