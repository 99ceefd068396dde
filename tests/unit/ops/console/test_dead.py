"""The pages of dead letters."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from headgate import JobState, Priority
from headgate.jobs.errors import ServiceUnavailable
from headgate.ops.console.pages.dead import listing
from tests.support.console import MARKUP, Browser
from tests.unit.ops.console.conftest import Email, Looks, Shop, ended


@pytest.fixture
def dead(shop: Shop) -> Sequence[str]:
    """The ids of three jobs that died."""
    handles = shop.client.submit_many(
        shop.send_email, [Email(to=f"bad{n} {MARKUP}") for n in range(3)], tenant="<b>org"
    )
    shop.harness.drain()
    shop.later()
    return [each.id for each in handles]


def listed(browser: Browser, query: str) -> list[str]:
    text = browser.get(f"/dead{query}").text
    return [part.split('"')[0] for part in text.split('data-row="')[1:]]


def test_letters_are_grouped_with_a_link_to_those_of_each_group(
    browser: Browser, dead: Sequence[str]
) -> None:
    text = browser.get("/dead").text
    assert "<b>3 dead letters</b>" in text
    [link] = [part.split('"')[0] for part in text.split('<th scope="row"><a href="')[1:]]
    assert link == "/dead?type=send-email&amp;reason=do-not-retry&amp;group=none"
    assert len(listed(browser, link.replace("&amp;", "&").removeprefix("/dead"))) == len(dead)


@pytest.mark.parametrize("by", ["type,error", "queue", "tenant", "hour"])
def test_a_group_of_any_kind_leads_to_its_letters(
    browser: Browser, dead: Sequence[str], by: str
) -> None:
    text = browser.get(f"/dead?group={by}").text
    [link] = [part.split('"')[0] for part in text.split('<th scope="row"><a href="')[1:]]
    assert len(listed(browser, link.replace("&amp;", "&").removeprefix("/dead"))) == len(dead)


def test_the_whole_filter_stands_in_the_address(browser: Browser, dead: Sequence[str]) -> None:
    everything = "?type=send-email&error=no+such&queue=jobs&tenant=%3Cb%3Eorg&since=1h"
    assert len(listed(browser, everything)) == len(dead)
    assert len(listed(browser, f"?id={dead[0]}")) == 1
    for none in ("?type=capture", "?reason=quarantined", "?tenant=org", "?until=1h"):
        assert listed(browser, none) == []


@pytest.mark.usefixtures("dead")
def test_a_count_that_is_cut_says_at_least(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "_MOST", 2)
    assert "<b>At least 2 dead letters</b>" in browser.get("/dead").text


@pytest.mark.usefixtures("dead")
def test_ten_who_look_at_letters_cost_one_look(shop: Shop, browser: Browser) -> None:
    browser.get("/dead")
    asked = len(shop.harness.sqs.calls)
    for group in ("type", "queue", "hour", "none") * 3:
        assert browser.get(f"/dead?group={group}").status == 200
    assert len(shop.harness.sqs.calls) == asked


@pytest.mark.usefixtures("dead")
def test_whoever_looks_again_gets_the_letters_of_before_at_once(
    shop: Shop, browser: Browser, looks: Looks
) -> None:
    assert 'data-every="0"' in browser.get("/dead").text
    shop.client.submit(shop.send_email, Email(to="bad too"))
    shop.harness.drain()
    shop.later(3_600)
    looks.wait = True
    asked = len(shop.harness.sqs.calls)
    text = browser.get("/dead").text
    assert len(shop.harness.sqs.calls) == asked
    assert "<b>3 dead letters</b>" in text
    assert "looking again" in text
    assert re.search(r">1h[^<]*</span>\s+ago", text)
    assert 'data-every="2"' in text
    looks.make()
    text = browser.get("/dead").text
    assert "<b>4 dead letters</b>" in text
    assert 'data-every="0"' in text
    assert looks.waiting == []


@pytest.mark.usefixtures("dead")
def test_letters_of_many_filters_are_looked_at_the_less_often(shop: Shop, browser: Browser) -> None:
    filters = [f"?type=t{number}" for number in range(20)]
    for each in filters:
        browser.get(f"/dead{each}")
    asked = len(shop.harness.sqs.calls)
    shop.later(20)  # alone, each would be looked at again by now
    for each in filters:
        browser.get(f"/dead{each}")
    assert len(shop.harness.sqs.calls) == asked


def test_a_letter_tells_why_and_its_payload_only_when_asked(
    browser: Browser, dead: Sequence[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "headgate.audit")
    answer = browser.get(f"/dead/{dead[0]}")
    for said in ("DoNotRetry", "no such address: &lt;script&gt;", "Traceback of the last attempt"):
        assert said in answer.text
    assert f'href="/jobs/{dead[0]}"' in answer.text
    assert "bad0 " not in answer.text  # the space tells it from a part of an id
    assert "bad0 " in browser.get(f"/dead/{dead[0]}?show=payload").text
    for path in (f"/dead/{dead[0]}", f"/dead/{dead[0]}?show=payload", "/dead?group=none"):
        text = browser.get(path).text
        assert "<script>alert" not in text
        assert "<b>org" not in text
        assert not {"\x1b", "\u202e"} & set(text)
    what = f"ada@laptop: show-payload dead letter {dead[0]}: done"
    assert {each.message for each in caplog.records} == {what}


@pytest.mark.usefixtures("dead")
def test_chosen_letters_are_replayed_once_their_number_is_confirmed(
    shop: Shop, browser: Browser, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "headgate.audit")
    chosen = listed(browser, "?group=none")[:2]
    asked = browser.post("/dead/replay", {"letter": chosen, "type": "send-email"})
    assert "Replay 2 dead letters?" in asked.text
    assert 'name="type" value="send-email"' in asked.text
    assert len(shop.harness.dead_letters()) == 3
    done = browser.post("/dead/replay", {"letter": chosen, "confirmed": "1"})
    assert done.status == 303
    ended()
    assert len(shop.harness.dead_letters()) == 1
    report = shop.client.dead_letters.get_replay(done.headers["location"].rpartition("/")[2])
    assert (report.sent, report.actor) == (2, "ada@laptop")
    [said] = [each.message for each in caplog.records]
    assert said == f"ada@laptop: replay dead letters ids={','.join(chosen)}: done"


@pytest.mark.usefixtures("dead")
def test_all_that_match_are_replayed_at_the_pace_of_the_form(shop: Shop, browser: Browser) -> None:
    form = {"all": "1", "type": "send-email", "limit": "2", "rate": "50"}
    asked = browser.post("/dead/replay", form)
    assert "Replay 2 dead letters?" in asked.text
    assert 'name="rate" value="50"' in asked.text
    done = browser.post("/dead/replay", {**form, "confirmed": "1"})
    ended()
    report = shop.client.dead_letters.get_replay(done.headers["location"].rpartition("/")[2])
    assert (report.sent, report.options.rate, report.filter.types) == (2, 50, ("send-email",))
    assert "There is none" in browser.post("/dead/replay", {"all": "1", "type": "none"}).text


def test_a_letter_leads_to_a_gentle_replay_of_its_like(
    shop: Shop, browser: Browser, dead: Sequence[str]
) -> None:
    shop.client.submit(shop.capture, Email(to="another"))
    text = browser.get(f"/dead/{dead[0]}").text
    form = text.partition("<h2>Replay its like</h2>")[2].partition("</form>")[0]
    fields = dict(re.findall(r'name="(\w+)"[^>]* value="([^"]*)"', form))
    assert fields == {
        "all": "1",
        "type": "send-email",
        "reason": "do-not-retry",
        "error": "DoNotRetry",
        "limit": "20",
        "spread": "1m",
    }
    assert "Replay 3 dead letters?" in browser.post("/dead/replay", fields).text


@pytest.mark.parametrize("action", ["replay", "purge"])
@pytest.mark.usefixtures("dead")
def test_a_number_to_confirm_that_was_not_counted_to_the_end_says_at_least(
    shop: Shop, browser: Browser, action: str
) -> None:
    queue = shop.app.topology.queue("jobs", Priority.NORMAL)
    shop.harness.sqs.receive_now(queue.dlq_name, limit=1, visibility_s=3_600)
    text = browser.post(f"/dead/{action}", {"all": "1"}).text
    assert "at least 2 dead letters?" in text
    assert "not seen" in text
    assert 'name="confirmed"' in text


@pytest.mark.usefixtures("dead")
def test_letters_are_exported_as_a_file_that_can_be_imported(
    shop: Shop, browser: Browser, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "headgate.audit")
    answer = browser.post("/dead/export", {"all": "1", "type": "send-email"})
    assert answer.status == 200
    disposition = answer.headers["content-disposition"]
    assert re.fullmatch(r'attachment; filename="shop-dead-letters-[\d-]+\.jsonl"', disposition)
    assert answer.headers["content-type"].startswith("application/jsonl")
    path = tmp_path / "letters.jsonl"
    path.write_text(answer.text)
    [said] = [each.message for each in caplog.records]
    assert shop.client.dead_letters.import_(path) == 3
    assert said.startswith("ada@laptop: export dead letters")


def test_letters_are_purged_once_their_number_is_confirmed(
    shop: Shop, browser: Browser, dead: Sequence[str]
) -> None:
    asked = browser.post("/dead/purge", {"all": "1", "type": "send-email"}).text
    assert "Purge 3 dead letters?" in asked
    [until] = [each.split('"')[0] for each in asked.split('name="until" value="')[1:]]
    shop.later()
    shop.client.submit(shop.send_email, Email(to="bad later"))
    shop.harness.drain()
    form = {"all": "1", "type": "send-email", "until": until.replace("&#43;", "+")}
    done = browser.post("/dead/purge", {**form, "confirmed": "1"})
    assert "3 copied to the bucket" in browser.get(done.headers["location"]).text
    assert len(shop.harness.dead_letters()) == 1
    assert len(listed(browser, "?group=none")) == 1
    assert shop.client.handle(dead[0]).state() is JobState.DEAD


@pytest.mark.parametrize("until", ["1h", "2099-01-01"])
def test_a_purge_takes_nothing_that_came_to_match_since_it_was_asked_for(
    shop: Shop, browser: Browser, dead: Sequence[str], until: str
) -> None:
    shop.later(2 * 3600)
    shop.client.submit(shop.send_email, Email(to="bad later"))
    shop.harness.drain()
    shop.later()
    old = len(shop.harness.dead_letters()) - 1
    asked = browser.post("/dead/purge", {"all": "1", "until": until}).text
    counted = old if until == "1h" else old + 1
    assert f"Purge {counted} dead letters?" in asked
    [shown] = [each.split('"')[0] for each in asked.split('name="until" value="')[1:]]
    shop.later(2 * 3600)
    shop.client.submit(shop.send_email, Email(to="bad still later"))
    shop.harness.drain()
    form = {"all": "1", "until": shown.replace("&#43;", "+"), "confirmed": "1"}
    done = browser.post("/dead/purge", form)
    assert f"{counted} copied to the bucket" in browser.get(done.headers["location"]).text
    assert len(shop.harness.dead_letters()) == old + 2 - counted
    assert len(dead) == old


@pytest.mark.parametrize(
    "query",
    [
        *("?since=soon", "?since=1h&until=2h", "?group=colour", f"?type={'x' * 301}", "?type=%ff"),
        *("?group=type&group=queue", "?until=99999-01-01", "?group=%3Cscript%3E"),
    ],
)
def test_a_question_that_can_not_be_is_told_so(browser: Browser, query: str) -> None:
    answer = browser.get(f"/dead{query}")
    assert answer.status == 400
    assert "<script>" not in answer.text.replace("<script src", "")


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"letter": "x" * 129},
        {"letter": [str(n) for n in range(1_001)]},
        {"all": "1", "limit": "many"},
        {"all": "1", "limit": "0"},
        {"all": "1", "rate": MARKUP[:12]},
        {"all": "1", "rate": "nan"},
        {"all": "1", "rate": "5", "spread": "1h"},
        {"all": "1", "spread": "soon"},
        {"all": "1", "canary": "5000"},
    ],
)
def test_a_form_with_a_mistake_sends_nothing(
    shop: Shop, browser: Browser, dead: Sequence[str], form: dict[str, object]
) -> None:
    assert browser.post("/dead/replay", {**form, "confirmed": "1"}).status == 400
    assert len(shop.harness.dead_letters()) == len(dead)


def test_a_letter_that_is_not_there_is_not_found(browser: Browser) -> None:
    for path in ("/dead/none", f"/dead/{'x' * 129}", "/dead/%3Cscript%3E"):
        answer = browser.get(path)
        assert answer.status == 404
        assert "<script>'" not in answer.text


def test_without_aws_a_letter_can_not_be_read_and_nothing_is_done(
    shop: Shop, browser: Browser, dead: Sequence[str]
) -> None:
    down = ServiceUnavailable(f"AWS is down {MARKUP}")
    shop.harness.sqs.faults.raise_on("depth", down, times=100)
    answer = browser.get(f"/dead/{dead[0]}")
    assert answer.status == 200
    assert "AWS is down &lt;script&gt;" in answer.text
    assert browser.post("/dead/purge", {"all": "1"}).status == 502
    assert browser.post("/dead/replay", {"all": "1"}).status == 502


def test_nobody_acts_on_letters_of_a_console_that_is_read_only(
    shop: Shop, dead: Sequence[str]
) -> None:
    browser = shop.browser(read_only=True)
    for path in ("/dead", "/dead?group=none", f"/dead/{dead[0]}"):
        assert 'method="post"' not in browser.get(path).text
    for action in ("replay", "purge", "export"):
        assert browser.post(f"/dead/{action}", {"all": "1", "confirmed": "1"}).status == 403
    assert len(shop.harness.dead_letters()) == len(dead)
