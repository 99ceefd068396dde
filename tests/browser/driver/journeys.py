"""Walks through the console as people on call do, and looks at each page as axe does."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path

from pages import DESKTOP, PHONE, Scheme, Stage, browser_of, new_page
from playwright.sync_api import Browser, Error, Page, expect

_AXE = Path(__file__).parent / "node_modules" / "axe-core" / "axe.min.js"
_GRAVE = ("serious", "critical")
_SCHEMES: tuple[Scheme, ...] = ("light", "dark")
_SCREENS = {"desktop": DESKTOP, "phone": PHONE}
_MOST_ACTIONS = 6
_REPLAYED = 20
_LONG_AGO = "0196a2b4-0000-7000-8000-000000000001"
"""The id of a job that nobody has heard of."""


_SEND_FORM = """url => {
    const form = document.createElement("form");
    form.method = "post";
    form.action = url;
    form.innerHTML = '<input name="reason" value="forged">';
    document.body.append(form);
    form.submit();
}"""

# The console's answers may not be loaded elsewhere, so the browser shows no answer at all.
_LOAD = """url => fetch(url, {mode: "no-cors"}).then(
    () => "loaded", () => "kept from this site")"""

_FOLLOW_LINK = """url => {
    const link = document.createElement("a");
    link.href = url;
    document.body.append(link);
    link.click();
}"""


class Hands:
    """Somebody at the keyboard, whose actions are counted.

    Args:
        page: the page in front of them.
    """

    def __init__(self, page: Page) -> None:
        self._page = page
        self.actions = 0

    def open(self, path: str) -> None:
        """Follow a link."""
        self.actions += 1
        self._page.goto(path)

    def press(self, key: str) -> None:
        """Press a key."""
        self.actions += 1
        self._page.keyboard.press(key)


def replay_from_an_alert(browser: Browser, stage: Stage) -> None:
    """From an alert's link to its cause, and to twenty jobs that succeed."""
    page = new_page(browser, stage)
    hands = Hands(page)
    hands.open("/dead?type=capture-payment&error=ConnectionError&since=1h")
    hands.press("j")
    hands.press("Enter")
    expect(page.locator("main .notice.bad")).to_contain_text("refused the connection")
    hands.press("a")
    expect(page.get_by_role("heading", name=f"Replay {_REPLAYED} dead letters?")).to_be_visible()
    hands.press("Enter")
    expect(page.locator(".progress")).to_contain_text(
        f"{_REPLAYED} of {_REPLAYED}", timeout=120_000
    )
    hands.press("o")
    completed = page.locator("tr[data-row]", has_text="completed")
    expect(completed).to_have_count(_REPLAYED, timeout=120_000)
    assert hands.actions <= _MOST_ACTIONS, hands.actions


def pause_and_resume_a_queue(browser: Browser, stage: Stage) -> None:
    """Pause with a reason, and resume, by keyboard."""
    page = new_page(browser, stage)
    hands = Hands(page)
    hands.open("/queues/payments")
    hands.press("d")
    page.keyboard.type("the bank works on its lines")
    hands.press("Enter")
    expect(page.locator(".pauses")).to_contain_text("the bank works on its lines")
    expect(page.locator(".pauses")).to_contain_text("by ada@laptop")
    hands.press("r")
    expect(page.locator(".pauses")).to_have_count(0)


def cancel_a_running_job(browser: Browser, stage: Stage) -> None:
    """Watch a job's progress, and end it."""
    page = new_page(browser, stage)
    hands = Hands(page)
    hands.open(f"/jobs/{stage.shown['doomed_job']}")
    expect(page.get_by_role("progressbar")).to_be_visible()
    hands.press("d")
    expect(page.get_by_role("button", name="Cancel this job")).to_be_focused()
    expect(page.get_by_role("progressbar")).to_be_visible()
    hands.press("Enter")
    expect(page.locator("h1 .badge")).to_have_text("cancelled", timeout=60_000)


def walk_by_keys(browser: Browser, stage: Stage) -> None:
    """Go through the pages and their rows without a mouse."""
    page = new_page(browser, stage)
    page.goto("/")
    for key, path in (("j", "/jobs"), ("d", "/dead"), ("q", "/queues"), ("s", "/schedules")):
        page.keyboard.press("g")
        page.keyboard.press(key)
        expect(page).to_have_url(re.compile(f"{path}$"))
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_hidden()
    page.goto("/jobs?type=capture-payment")
    walked = list[str | None]()
    for key in ("j", "j", "k"):
        page.keyboard.press(key)
        walked.append(page.locator("tr.cursor").get_attribute("data-row"))
    first, second, last = walked
    assert first == last != second, walked
    page.keyboard.press("x")
    expect(page.locator("input[data-one]:checked")).to_have_count(1)
    page.keyboard.press("/")
    expect(page.locator("[data-search]")).to_be_focused()


def an_unknown_job_is_no_silence_of_the_console(browser: Browser, stage: Stage) -> None:
    """A page that says 404 is looked at again as any other, and says nothing else."""
    page = new_page(browser, stage)
    opened = page.goto(f"/jobs/{_LONG_AGO}")
    assert opened is not None
    assert opened.status == 404, opened.status
    for _ in range(2):
        with page.expect_response(lambda answer: answer.request.resource_type == "fetch"):
            pass
    expect(page.locator("#offline")).to_be_hidden()


def run_a_schedule_now(browser: Browser, stage: Stage) -> None:
    """Have a schedule's job run at once, and see how it ends."""
    page = new_page(browser, stage)
    hands = Hands(page)
    hands.open("/schedules/daily-report")
    hands.press("r")
    expect(page).to_have_url(re.compile("/jobs/"))
    expect(page.locator("h1 .badge")).to_have_text("completed", timeout=60_000)


def what_another_site_sends_is_refused(browser: Browser, stage: Stage) -> None:
    """A form on another site changes nothing, and no other site loads a page; a link leads here."""
    page, target = new_page(browser, stage), stage.shown["console"]
    pause = f"{target}/queues/payments/pause"
    page.goto(stage.shown["elsewhere"])
    with page.expect_navigation(url=pause), page.expect_response(pause) as refused:
        page.evaluate(_SEND_FORM, pause)
    assert refused.value.status == 403, refused.value.status
    expect(page.locator("main")).to_contain_text("this came from elsewhere")
    page.goto(stage.shown["elsewhere"])
    for path in ("/", "/jobs"):
        assert page.evaluate(_LOAD, f"{target}{path}") == "kept from this site"
    with page.expect_navigation():
        page.evaluate(_FOLLOW_LINK, f"{target}/queues/payments")
    expect(page.locator("h1")).to_contain_text("payments")
    expect(page.locator(".pauses")).to_have_count(0)


def a_forged_request_is_refused(browser: Browser, stage: Stage) -> None:
    """Whatever a request says of its origin, its site and its host: only a page's own passes."""
    page, target = new_page(browser, stage), stage.shown["console"]
    own = {"origin": target, "sec-fetch-site": "same-origin"}
    elsewhere = {"origin": stage.shown["elsewhere"], "sec-fetch-site": "cross-site"}
    for headers in (
        {},
        elsewhere,
        {**elsewhere, "origin": target},
        {**own, "origin": stage.shown["elsewhere"]},
        {**own, "origin": "null"},
        {**own, "host": "rebound.example"},
    ):
        answer = page.request.post(
            f"{target}/queues/payments/pause", form={"reason": "forged"}, headers=headers
        )
        assert answer.status in (403, 421), (headers, answer.status)
    for site in ("cross-site", "same-site"):
        image = {"sec-fetch-site": site, "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"}
        loaded = page.request.get(f"{target}/jobs", headers=image)
        assert loaded.status == 403, (site, loaded.status)
    page.goto(f"{target}/queues/payments")
    expect(page.locator(".pauses")).to_have_count(0)


def a_read_only_console_changes_nothing(browser: Browser, stage: Stage) -> None:
    """No form is offered, and one that is sent all the same is refused."""
    page, target = new_page(browser, stage), stage.shown["read_only"]
    for path in stage.paths.values():
        page.goto(f"{target}{path}")
        expect(page.locator('form[method="post"]')).to_have_count(0)
    own = {"origin": target, "sec-fetch-site": "same-origin"}
    answer = page.request.post(
        f"{target}/queues/payments/pause", form={"reason": "forged"}, headers=own
    )
    assert answer.status == 403, answer.status


def _shows(stage: Stage) -> dict[str, Callable[[Page], object]]:
    """Return what leads to each page: its path, or what is done on another page."""
    guarded = stage.shown["guarded"]
    paths = {**stage.paths, "sign-in": f"{guarded}/"}
    shows: dict[str, Callable[[Page], object]] = {
        name: partial(Page.goto, url=path) for name, path in paths.items()
    }
    return {**shows, "confirm": _confirm, "outcome": _outcome}


def _confirm(page: Page) -> None:
    """Choose what has ended, and be asked whether it is to be cancelled."""
    page.goto("/jobs?type=send-email&state=dead")
    page.keyboard.press("j")
    page.keyboard.press("x")
    page.keyboard.press("j")
    page.keyboard.press("x")
    page.keyboard.press("d")
    expect(page.get_by_role("heading", name="Cancel 2 jobs?")).to_be_visible()


def _outcome(page: Page) -> None:
    """See what became of that."""
    _confirm(page)
    page.get_by_role("button", name="Cancel 2 jobs").click()
    expect(page.get_by_role("heading", name="Cancellation")).to_be_visible()


def axe_finds_nothing_grave(browser: Browser, stage: Stage) -> None:
    """Each page is accessible and silent: in the light and the dark, on a desktop and a phone."""
    axe, found = _AXE.read_text(), []
    for scheme, (screen, size) in product(_SCHEMES, _SCREENS.items()):
        page = new_page(browser, stage, size=size, scheme=scheme)
        page.on("pageerror", lambda error: found.append(f"error: {error}"))
        page.on("console", lambda line: found.append(line.text) if line.type == "error" else 0)
        for name, show in _shows(stage).items():
            show(page)
            page.evaluate(axe)
            violations = page.evaluate("axe.run().then(result => result.violations)")
            where = f"{name}, {scheme}, {screen}"
            print(f"  {where}: {len(violations)} violations")
            for each in violations:
                line = f"{where}: {each['impact']}: {each['id']}: {each['nodes'][0]['html']}"
                print(f"  {line}")
                if each["impact"] in _GRAVE:
                    found.append(line)
        page.context.close()
    assert not found, "\n".join(found)


JOURNEYS: tuple[Callable[[Browser, Stage], None], ...] = (
    axe_finds_nothing_grave,  # first: a replay takes the letter of which there is a page
    replay_from_an_alert,
    pause_and_resume_a_queue,
    cancel_a_running_job,
    walk_by_keys,
    an_unknown_job_is_no_silence_of_the_console,
    run_a_schedule_now,
    what_another_site_sends_is_refused,
    a_forged_request_is_refused,
    a_read_only_console_changes_nothing,
)


def main() -> int:
    """Make all journeys; return 1 if one did not end well."""
    stage, failed = Stage.of_arguments(), 0
    with browser_of(stage) as browser:
        for journey in JOURNEYS:
            name = journey.__name__.replace("_", " ")
            try:
                journey(browser, stage)
            except (AssertionError, Error) as error:
                failed += 1
                print(f"FAILED  {name}: {error}")
            else:
                print(f"ok      {name}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
