"""The console that the app's process serves under `headgate dev`."""

from __future__ import annotations

import os
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate import App
from headgate.ops.dev.console_server import ConsoleServer, console_served
from headgate.ops.listening import listen, url_of

APP = App("shop")


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The socket of `headgate dev`, which stays open from process to process."""
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    with listen("127.0.0.1", 0) as opened:
        yield opened


def passed_on(listener: socket.socket) -> str:
    """Return the descriptor as a process of the app gets it: its own, of the same socket."""
    return str(os.dup(listener.fileno()))


def style_sheet(listener: socket.socket) -> str:
    """Return a page that takes no request to AWS, as a browser on this machine gets it."""
    with urllib.request.urlopen(f"{url_of(listener)}static/console.css") as answer:  # noqa: S310 - of this machine
        text: str = answer.read().decode()
    return text


def test_each_process_serves_the_console_at_the_same_address(listener: socket.socket) -> None:
    pages = []
    for _ in range(2):
        with console_served(APP, passed_on(listener)):
            pages.append(style_sheet(listener))
    assert pages[0] == pages[1] != ""


def test_a_server_is_made_only_once_somebody_looks(listener: socket.socket) -> None:
    server = ConsoleServer(APP, listener.dup())
    server.start()
    made = [server._server is not None]
    style_sheet(listener)
    made.append(server._server is not None)
    server.stop()
    server.wait()
    assert made == [False, True]


def test_nothing_is_served_without_a_socket() -> None:
    with console_served(APP, "") as stop:
        stop()


def test_a_console_that_fails_is_told_once_and_answers_with_an_error(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_app: App) -> None:
        raise RuntimeError("no pages")

    monkeypatch.setattr("headgate.ops.dev.console_server._server", broken)
    server = ConsoleServer(APP, listener.dup())
    server.start()
    for _ in range(2):
        with pytest.raises(urllib.error.HTTPError, match="500") as refusal:
            style_sheet(listener)
        assert b"headgate dev shows why" in refusal.value.read()
    server.stop()
    server._thread.join()
    assert caplog.text.count("the console of headgate dev failed") == 1
    assert "no pages" in caplog.text


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{", "could not be read"),
        ('{"context": {"headgate:deployment": {"alarmz": 1}}}', "alarmz"),
        ('{"context": {"headgate:stages": {"prod": {}}}}', "declares the stages prod"),
        ('{"context": {"headgate:stages": []}}', "must be an object"),
    ],
    ids=["broken", "misspelt", "no default stage", "no object"],
)
def test_a_cdk_json_that_does_not_fit_leaves_the_console_without_deployment(
    text: str,
    fault: str,
    listener: socket.socket,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    (tmp_path / "cdk.json").write_text(text)
    monkeypatch.chdir(tmp_path)
    with console_served(APP, passed_on(listener)):
        assert style_sheet(listener) != ""
    [line] = caplog.messages
    assert line.startswith("the console knows nothing of cdk.json until the app is edited: ")
    assert fault in line
