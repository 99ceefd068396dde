"""``headgate console``."""

from __future__ import annotations

import signal
import subprocess
import sys
import urllib.request

import pytest
from starlette.types import ASGIApp

from headgate.ops.listening import listen, url_of
from tests.support.command_line import CommandLine
from tests.support.console import Browser

APP = "cli_shop:app"
TOKEN = "correct-horse-battery-staple"  # noqa: S105 - of a test


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[ASGIApp]:
    """The apps that the command served, by servers that end at once."""
    monkeypatch.syspath_prepend(".")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.setattr("headgate.workers.logs.configure", lambda: None)
    found: list[ASGIApp] = []
    monkeypatch.setattr(
        "headgate.ops.console.serving.serve", lambda pages, _listener: found.append(pages)
    )
    return found


def test_it_is_for_this_machine_and_says_where_it_is(
    headgate: CommandLine, served: list[ASGIApp]
) -> None:
    ended = headgate("console", "--port", "0", app=APP)
    assert ended.code == 0
    assert ended.out.startswith("The console of shop: http://localhost:")
    [pages] = served
    assert Browser(pages).get("/static/console.css").status == 200
    assert Browser(pages).get("/", host="evil.example").status == 421


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "shop.example", ""])  # noqa: S104
def test_elsewhere_it_needs_people_to_sign_in(
    headgate: CommandLine, served: list[ASGIApp], host: str
) -> None:
    ended = headgate("console", "--host", host, app=APP)
    assert ended.code == 2
    assert "--auth token" in ended.err
    assert not served


def test_a_token_is_made_and_shown_or_given(
    headgate: CommandLine, served: list[ASGIApp], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = headgate("console", "--port", "0", "--auth", "token", app=APP).out.split()[-1]
    monkeypatch.setenv("HEADGATE_CONSOLE_TOKEN", TOKEN)
    assert TOKEN not in headgate("console", "--port", "0", "--auth", "token", app=APP).out
    for pages, token in zip(served, (made, TOKEN), strict=True):
        browser = Browser(pages)
        assert browser.get("/queues").status == 303
        assert browser.post("/sign-in", {"token": token, "name": "ada"}).status == 303
        assert browser.get("/nowhere").status == 404
    monkeypatch.setenv("HEADGATE_CONSOLE_TOKEN", "short")
    assert "20 characters" in headgate("console", "--auth", "token", app=APP).err


def test_read_only_refuses_every_form(headgate: CommandLine, served: list[ASGIApp]) -> None:
    headgate("console", "--port", "0", "--read-only", app=APP)
    assert Browser(served[0]).post("/queues/jobs/pause", {}).status == 403


def test_what_people_do_is_logged_from_the_start(
    headgate: CommandLine, served: list[ASGIApp], monkeypatch: pytest.MonkeyPatch
) -> None:
    before: list[int] = []
    monkeypatch.setattr("headgate.workers.logs.configure", lambda: before.append(len(served)))
    headgate("console", "--port", "0", app=APP)
    assert before == [0]
    assert len(served) == 1


def test_a_port_that_is_taken_is_named(headgate: CommandLine, served: list[ASGIApp]) -> None:
    with listen("127.0.0.1", 0) as taken:
        port = url_of(taken).rstrip("/").rpartition(":")[2]
        ended = headgate("console", "--port", port, app=APP)
    assert ended.code == 2
    assert f"127.0.0.1:{port}" in ended.err
    assert not served


def test_it_serves_until_it_is_interrupted() -> None:
    code = (
        "import signal\n"
        "from headgate.ops.console.serving import serve\n"
        "from headgate.ops.listening import listen, url_of\n"
        # Whatever runs the tests in the background may have had signals of the keyboard ignored.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "async def pages(scope, receive, send):\n"
        "    await send({'type': 'http.response.start', 'status': 200})\n"
        "    await send({'type': 'http.response.body', 'body': b'here'})\n"
        "with listen('127.0.0.1', 0) as listener:\n"
        "    print(url_of(listener), flush=True)\n"
        "    serve(pages, listener)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        url = run.stdout.readline().strip()
        with urllib.request.urlopen(url) as answer:  # noqa: S310 - of this machine
            assert answer.read() == b"here"
        run.send_signal(signal.SIGINT)
        assert run.wait(60) != 0


def test_a_load_balancer_that_signs_people_in_is_named(
    headgate: CommandLine, served: list[ASGIApp], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("console", "--host", "127.0.0.1", "--port", "0", "--auth", "alb")
    ended = headgate(*command, app=APP)
    assert "HEADGATE_CONSOLE_LOAD_BALANCER" in ended.err
    arn = "arn:aws:elasticloadbalancing:eu-central-1:111122223333:loadbalancer/app/console/50dc6c49"
    monkeypatch.setenv("HEADGATE_CONSOLE_LOAD_BALANCER", arn)
    assert headgate(*command, app=APP).code == 0
    [pages] = served
    assert Browser(pages).get("/").status == 403
