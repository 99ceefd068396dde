"""Forms that are sent twice, as by a double click, are carried out once."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from typing import Any

import pytest

from headgate import Schedule
from headgate.errors import ServiceUnavailable
from headgate.ops.console.sent_forms import FIELD, SentForms
from tests.support.console import Browser
from tests.unit.ops.console.conftest import Email, Shop, ended


def _dead(shop: Shop, count: int) -> list[str]:
    handles = shop.client.submit_many(shop.send_email, [Email(to="bad")] * count)
    shop.harness.drain()
    shop.later()
    return [each.id for each in handles]


def _form(page: str, action: str) -> dict[str, list[str]]:
    """Return the hidden fields of the form on a page that leads to an address."""
    [form] = re.findall(rf'<form [^>]*action="{action}">(.*?)</form>', page, re.DOTALL)
    fields: dict[str, list[str]] = {}
    for name, value in re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', form):
        fields.setdefault(name, []).append(unescape(value))
    assert FIELD in fields
    return fields


def _run_again(shop: Shop, browser: Browser) -> tuple[str, dict[str, list[str]]]:
    [job] = _dead(shop, 1)
    return "/jobs/rerun", _form(browser.get(f"/jobs/{job}").text, "/jobs/rerun")


def _run_chosen_again(shop: Shop, browser: Browser) -> tuple[str, dict[str, list[str]]]:
    page = browser.post("/jobs/rerun", {"id": _dead(shop, 2)}).text
    return "/jobs/rerun", _form(page, "/jobs/rerun")


def _replay(shop: Shop, browser: Browser) -> tuple[str, dict[str, list[str]]]:
    _dead(shop, 4)
    page = browser.post("/dead/replay", {"all": "1", "limit": "2"}).text
    return "/dead/replay", _form(page, "/dead/replay")


def _purge(shop: Shop, browser: Browser) -> tuple[str, dict[str, list[str]]]:
    _dead(shop, 2)
    return "/dead/purge", _form(browser.post("/dead/purge", {"all": "1"}).text, "/dead/purge")


def _run_now(shop: Shop, browser: Browser) -> tuple[str, dict[str, list[str]]]:
    when = Schedule.cron("0 9 ? * MON-FRI *")
    shop.client.schedules.create("daily", shop.send_email, Email(to="ada"), schedule=when)
    path = "/schedules/daily/run"
    return path, _form(browser.get("/schedules/daily").text, path)


@pytest.mark.parametrize("form_of", [_run_again, _run_chosen_again, _replay, _purge, _run_now])
def test_a_form_that_is_sent_twice_is_carried_out_once(
    shop: Shop, browser: Browser, form_of: Callable[[Shop, Browser], Any]
) -> None:
    path, form = form_of(shop, browser)
    first = browser.post(path, form)
    ended()
    actions = len(shop.client.audit.list().entries)
    second = browser.post(path, form)
    assert first.status == second.status == 303
    assert first.headers["location"] == second.headers["location"]
    assert len(shop.client.audit.list().entries) == actions


def test_a_page_that_is_made_again_has_a_form_of_its_own(shop: Shop, browser: Browser) -> None:
    [job] = _dead(shop, 1)
    led = [
        browser.post("/jobs/rerun", _form(browser.get(f"/jobs/{job}").text, "/jobs/rerun"))
        for _ in range(2)
    ]
    assert len({each.headers["location"] for each in led}) == 2


def test_who_sends_a_form_meanwhile_waits_for_what_it_leads_to() -> None:
    sent, goes_on, under_way = SentForms(), threading.Event(), threading.Event()

    def carry_out() -> str:
        under_way.set()
        assert goes_on.wait(60)
        return "/jobs/1"

    def never() -> str:
        raise AssertionError

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(sent.once, "a", carry_out)
        assert under_way.wait(60)
        second = threads.submit(sent.once, "a", never)
        goes_on.set()
        assert first.result(60) == second.result(60) == "/jobs/1"


def test_a_form_that_failed_may_be_sent_again() -> None:
    sent = SentForms()

    def fail() -> str:
        raise ServiceUnavailable("SQS is away")

    with pytest.raises(ServiceUnavailable):
        sent.once("a", fail)
    assert sent.once("a", lambda: "/jobs/1") == "/jobs/1"


def test_only_the_latest_forms_are_remembered() -> None:
    sent = SentForms()
    for number in range(2_000):
        sent.once(str(number), lambda: "/")
    assert sent.once("1999", lambda: "/anew") == "/"
    assert sent.once("0", lambda: "/anew") == "/anew"
