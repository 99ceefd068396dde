"""The pages of replays."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from datetime import timedelta

import pytest
from starlette.types import Message

from headgate import DeadLetterFilter, acting_as
from headgate.jobs.dead_letters.replaying.report import ReplayReport, ReplayState
from headgate.jobs.errors import ServiceUnavailable
from tests.support.console import MARKUP, Browser
from tests.unit.ops.console.conftest import Email, Shop, ended


@pytest.fixture
def stopped(shop: Shop) -> ReplayReport:
    """A replay that stopped when it had begun."""
    shop.client.submit_many(shop.send_email, [Email(to=f"bad{n}") for n in range(3)])
    shop.harness.drain()
    shop.later()
    letters = shop.client.dead_letters
    chosen = DeadLetterFilter(errors=("no such", MARKUP))
    with acting_as(MARKUP):
        report = letters.replay(chosen, rate=0.01, on_step=lambda _step: letters.stop())
    assert (report.state, report.sent) == (ReplayState.STOPPED, 1)
    return report


def test_a_replay_is_listed_and_shown_with_its_progress(
    browser: Browser, stopped: ReplayReport
) -> None:
    text = browser.get("/replays").text
    assert f'href="/replays/{stopped.id}"' in text
    page = browser.get(f"/replays/{stopped.id}").text
    for said in ("stopped", "Died again", "no such", "data-live", "Resume", "Abort"):
        assert said in page
    for each in (text, page):
        assert "<script>alert" not in each
        assert not {"\x1b", "\u202e"} & set(each)


def test_a_replay_says_all_that_its_resumption_will_do(shop: Shop, browser: Browser) -> None:
    shop.client.submit(shop.send_email, Email(to="bad"))
    shop.harness.drain()
    shop.later(3 * 3600)
    letters = shop.client.dead_letters
    report = letters.replay(
        DeadLetterFilter(until=timedelta(hours=1)),
        stop_above=None,
        as_type="capture",
        set={"to": "ada"},
    )
    page = browser.get(f"/replays/{report.id}").text
    for said in ("never by itself", "<dd>capture</dd>", "<dd>to</dd>", "Until", "of that time"):
        assert said in page
    assert "ada<" not in page.replace("ada@laptop<", "")


def test_a_stopped_replay_is_resumed_to_its_end(
    shop: Shop, browser: Browser, stopped: ReplayReport, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "headgate.audit")
    page = f"/replays/{stopped.id}"
    assert browser.post(f"{page}/resume").headers["location"] == page
    ended()
    assert shop.client.dead_letters.get_replay(stopped.id).state is ReplayState.DONE
    assert shop.harness.dead_letters() == []
    shop.later()
    assert 'method="post"' not in browser.get(page).text
    assert browser.post(f"{page}/resume").status == 400
    assert caplog.records[0].message == f"ada@laptop: resume-replay replay {stopped.id}: done"


def test_the_end_of_the_console_stops_the_replay_that_it_carries_out(
    shop: Shop, browser: Browser, stopped: ReplayReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    letters, ending, over = shop.client.dead_letters, threading.Event(), threading.Event()

    def carry_out(_id: str, *, on_step: Callable[[ReplayReport], None]) -> ReplayReport:
        on_step(stopped)
        assert ending.wait(60)
        over.set()
        return stopped

    monkeypatch.setattr(letters, "resume", carry_out)
    monkeypatch.setattr(letters, "stop", ending.set)
    assert browser.post(f"/replays/{stopped.id}/resume").status == 303
    assert not over.is_set()
    asyncio.run(lived(browser))
    assert over.is_set()


async def lived(browser: Browser) -> None:
    """Start and end the console's app, as a server does."""
    asked = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])

    async def receive() -> Message:
        return next(asked)

    async def send(message: Message) -> None:
        assert message["type"].endswith(".complete"), message

    await browser.app({"type": "lifespan", "asgi": {"version": "3.0"}}, receive, send)


def test_an_aborted_replay_says_who_ended_it(
    shop: Shop, browser: Browser, stopped: ReplayReport
) -> None:
    page = f"/replays/{stopped.id}"
    assert browser.post(f"{page}/abort").headers["location"] == page
    report = shop.client.dead_letters.get_replay(stopped.id)
    assert report.state is ReplayState.ABORTED
    assert "ada@laptop" in report.reason
    assert "ada@laptop" in browser.get(page).text


def test_a_replay_that_is_not_there_is_not_found(browser: Browser) -> None:
    for path in ("/replays/none", f"/replays/{'x' * 65}", "/replays/%3Cscript%3E"):
        answer = browser.get(path)
        assert answer.status == 404
        assert "<script>'" not in answer.text
    for action in ("abort", "resume"):
        assert browser.post(f"/replays/none/{action}").status == 404


def test_without_aws_a_replay_can_not_be_read(
    shop: Shop, browser: Browser, stopped: ReplayReport
) -> None:
    down = ServiceUnavailable(f"AWS is down {MARKUP}")
    shop.harness.table.faults.raise_on(None, down, times=100)
    answer = browser.get(f"/replays/{stopped.id}")
    assert answer.status == 200
    assert "AWS is down &lt;script&gt;" in answer.text
    assert browser.post(f"/replays/{stopped.id}/resume").status == 502


def test_nobody_acts_on_replays_of_a_console_that_is_read_only(
    shop: Shop, stopped: ReplayReport
) -> None:
    browser = shop.browser(read_only=True)
    assert 'method="post"' not in browser.get(f"/replays/{stopped.id}").text
    for action in ("abort", "resume"):
        assert browser.post(f"/replays/{stopped.id}/{action}").status == 403
    assert shop.client.dead_letters.get_replay(stopped.id).state is ReplayState.STOPPED
