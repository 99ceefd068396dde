"""Checks that every request to the console passes first."""

from __future__ import annotations

import pytest

from headgate.ops.console.access.rules import TokenAccess, Viewer, everybody
from headgate.ops.console.app import console
from headgate.ops.console.pages import ROUTES
from tests.support.console import HOST, Browser
from tests.unit.ops.console.conftest import Shop

PAUSE = "/queues/payments/pause"
FORM = {"reason": "the bank is down", "lasts": "2h"}


def is_paused(shop: Shop) -> bool:
    return bool(shop.client.pauses.list())


def test_a_name_that_the_console_is_not_known_by_gets_nothing(browser: Browser) -> None:
    for host in ("evil.example", "evil.example:8484", "", "[", "localhost.evil.example"):
        assert browser.get("/queues", host=host).status == 421
    for host in ("localhost", "127.0.0.1:9", "[::1]:8484", "LOCALHOST:8484"):
        assert browser.get("/queues", host=host).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example", "sec_fetch_site": "cross-site"},
        {"origin": "http://evil.example", "sec_fetch_site": ""},
        {"origin": "null", "sec_fetch_site": "same-origin"},
        {"origin": f"http://{HOST}", "sec_fetch_site": "same-site"},
        {"origin": f"http://{HOST}", "sec_fetch_site": "none"},
        {"origin": "", "sec_fetch_site": ""},
        {"origin": "http://[", "sec_fetch_site": ""},
    ],
)
def test_what_another_site_sends_changes_nothing(
    shop: Shop, browser: Browser, headers: dict[str, str]
) -> None:
    assert browser.post(PAUSE, FORM, **headers).status == 403
    assert not is_paused(shop)


def test_a_request_without_a_host_comes_from_no_page_of_the_console(shop: Shop) -> None:
    anywhere = Browser(console(shop.app, access=everybody("ada"), client=shop.client))
    assert anywhere.post(PAUSE, FORM, origin="null", sec_fetch_site="", host="").status == 403
    assert not is_paused(shop)


@pytest.mark.parametrize(
    ("served", "origin", "status"),
    [
        *(("http", "http", 303), ("http", "https", 303), ("https", "https", 303)),
        *(("https", "http", 403), ("http", "ftp", 403), ("http", "chrome-extension", 403)),
    ],
)
def test_a_page_of_this_host_by_another_scheme_changes_nothing(
    shop: Shop, served: str, origin: str, status: int
) -> None:
    browser = shop.browser()
    browser.scheme = served
    sent = browser.post(PAUSE, FORM, origin=f"{origin}://{HOST}", sec_fetch_site="")
    assert sent.status == status


@pytest.mark.parametrize("without", ["origin", "sec_fetch_site"])
def test_one_word_of_the_browser_for_the_page_that_sends_a_form_is_enough(
    shop: Shop, browser: Browser, without: str
) -> None:
    assert browser.post(PAUSE, FORM, **{without: ""}).status == 303
    assert is_paused(shop)


def test_another_site_may_link_to_a_page_and_not_load_it(browser: Browser) -> None:
    link = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}
    assert browser.get("/", **link, sec_fetch_dest="document").status == 200
    assert browser.get("/", **link, sec_fetch_dest="iframe").status == 403
    assert browser.get("/", sec_fetch_site="cross-site", sec_fetch_mode="no-cors").status == 403


def test_every_route_that_changes_something_is_refused_read_only(shop: Shop) -> None:
    browser = shop.browser(read_only=True)
    acting = [each for each in ROUTES if "POST" in (each.methods or ())]
    assert acting
    for route in acting:
        path = route.path.format(**dict.fromkeys(route.param_convertors, "payments"))
        assert browser.post(path, FORM).status == 403
    assert not is_paused(shop)
    assert "read-only" in browser.get("/queues/payments").text
    assert all(
        'method="post"' not in browser.get(each).text for each in ("/jobs", "/queues/payments")
    )


def test_a_viewer_who_may_not_act_can_not(shop: Shop) -> None:
    async def rule(request: object) -> Viewer:
        del request
        return Viewer(name="eve", may_act=False)

    browser = Browser(console(shop.app, access=rule, client=shop.client))
    assert browser.get("/").status == 200
    assert browser.post(PAUSE, FORM).status == 403


def test_whom_the_rule_does_not_know_sees_nothing(shop: Shop) -> None:
    async def rule(request: object) -> None:
        del request

    browser = Browser(console(shop.app, access=rule, client=shop.client))
    answer = browser.get("/queues")
    assert answer.status == 403
    assert "payments" not in answer.text


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"])
def test_only_looks_and_forms_are_answered(browser: Browser, method: str) -> None:
    assert browser.send(method, PAUSE, headers={}).status == 405


def test_every_answer_forbids_foreign_code_frames_and_copies(browser: Browser) -> None:
    for path in ("/", "/nowhere", "/static/console.js", "/static/nothing"):
        headers = browser.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"
    assert browser.get("/").headers["cache-control"] == "no-store"


def test_a_form_that_is_none_too_large_or_not_text_is_refused(shop: Shop, browser: Browser) -> None:
    assert browser.post(PAUSE, FORM, content_type="application/json").status == 415
    assert browser.post(PAUSE, {"reason": "x" * 300_000}).status == 413
    assert browser.post(PAUSE, {str(n): "" for n in range(6_000)}).status == 400
    own = {
        "content-type": "application/x-www-form-urlencoded",
        "origin": f"http://{HOST}",
    }
    assert browser.send("POST", PAUSE, b"reason=%ff", headers=own).status == 400
    assert not is_paused(shop)


# --- by token ------------------------------------------------------------------------------------

TOKEN = "correct-horse-battery-staple"  # noqa: S105 - of a test


@pytest.fixture
def elsewhere(shop: Shop) -> Browser:
    """A browser on another machine."""
    access = TokenAccess(TOKEN, shop.harness.clock)
    return Browser(console(shop.app, access=access, client=shop.client, clock=shop.harness.clock))


def test_without_the_token_nothing_is_shown(elsewhere: Browser) -> None:
    for path, query in (
        ("/", ""),
        ("/queues", "?next=%2Fqueues"),
        ("/nowhere", "?next=%2Fnowhere"),
    ):
        answer = elsewhere.get(path)
        assert (answer.status, answer.headers["location"]) == (303, f"/sign-in{query}")
    assert elsewhere.post(PAUSE, FORM).status == 303
    assert elsewhere.get("/sign-in").status == 200
    assert elsewhere.get("/static/console.css").status == 200


def test_the_token_lets_in_for_twelve_hours(shop: Shop, elsewhere: Browser) -> None:
    assert elsewhere.post("/sign-in", {"token": "wrong", "name": "eve"}).status == 403
    assert elsewhere.get("/").status == 303
    entered = elsewhere.post("/sign-in", {"token": TOKEN, "name": "ada"})
    assert entered.status == 303
    assert {"HttpOnly", "SameSite=lax"} <= set(entered.headers["set-cookie"].split("; "))
    assert TOKEN not in entered.headers["set-cookie"]
    assert ">ada<" in elsewhere.get("/").text
    shop.later(12 * 3600)
    assert elsewhere.get("/").status == 303


def test_a_link_to_a_name_with_a_question_mark_keeps_it(elsewhere: Browser) -> None:
    sign_in = elsewhere.get("/schedules/why%3F?since=2h").headers["location"]
    assert 'value="/schedules/why%3F?since=2h"' in elsewhere.get(sign_in).text
    form = {"token": TOKEN, "name": "ada", "next": "/schedules/why%3F?since=2h"}
    entered = elsewhere.post("/sign-in", form)
    assert entered.headers["location"] == "/schedules/why%3F?since=2h"


def test_a_link_leads_to_its_page_once_somebody_has_signed_in(elsewhere: Browser) -> None:
    link = "/dead?type=send-email&since=2h"
    sign_in = elsewhere.get(link).headers["location"]
    form = elsewhere.get(sign_in).text
    assert '<input type="hidden" name="next" value="/dead?type=send-email&amp;since=2h">' in form
    wrong = elsewhere.post("/sign-in", {"token": "wrong", "name": "ada", "next": link})
    assert 'value="/dead?type=send-email&amp;since=2h"' in wrong.text
    entered = elsewhere.post("/sign-in", {"token": TOKEN, "name": "ada", "next": link})
    assert entered.headers["location"] == link


@pytest.mark.parametrize(
    "address",
    [
        "//evil.example",
        "/\\evil.example",
        "https://evil.example/",
        "evil",
        "/\r\nset-cookie: x=y",
        "",
    ],
)
def test_nobody_who_signs_in_is_led_to_another_site(elsewhere: Browser, address: str) -> None:
    entered = elsewhere.post("/sign-in", {"token": TOKEN, "name": "ada", "next": address})
    assert (entered.status, entered.headers["location"]) == (303, "/")


def test_an_address_that_is_too_long_is_forgotten(elsewhere: Browser) -> None:
    assert elsewhere.get(f"/dead?error={'x' * 3000}").headers["location"] == "/sign-in"


def test_a_cookie_that_was_altered_lets_nobody_in(elsewhere: Browser) -> None:
    elsewhere.post("/sign-in", {"token": TOKEN, "name": "ada"})
    [(name, value)] = elsewhere.cookies.items()
    for altered in ("", "x", ".", "x.y", "é.é", value[1:], value[:-1] + "x", f"x{value}"):
        elsewhere.cookies = {name: altered}
        assert elsewhere.get("/").status == 303


def test_whoever_signs_out_is_let_in_no_more(elsewhere: Browser) -> None:
    elsewhere.post("/sign-in", {"token": TOKEN, "name": "ada"})
    assert 'action="/sign-out"' in elsewhere.get("/").text
    assert elsewhere.post("/sign-out", origin="http://evil.example").status == 403
    assert elsewhere.get("/").status == 200
    answer = elsewhere.post("/sign-out")
    assert (answer.status, answer.headers["location"]) == (303, "/sign-in")
    assert elsewhere.cookies == {}
    assert elsewhere.get("/").status == 303


def test_where_nobody_signs_in_nobody_signs_out(browser: Browser) -> None:
    assert "sign-out" not in browser.get("/").text
    assert browser.post("/sign-out").status == 404


def test_a_program_shows_the_token_with_each_request(elsewhere: Browser) -> None:
    answer = elsewhere.get("/", authorization=f"Bearer {TOKEN}")
    assert answer.status == 200
    assert "sign-out" not in answer.text
    assert elsewhere.get("/", authorization="Bearer wrong").status == 403


def test_who_signs_in_comes_from_the_form_itself(elsewhere: Browser) -> None:
    answer = elsewhere.post(
        "/sign-in", {"token": TOKEN, "name": "eve"}, origin="http://evil.example"
    )
    assert answer.status == 403
    assert not elsewhere.cookies
