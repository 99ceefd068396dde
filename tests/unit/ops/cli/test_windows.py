"""The commands on Windows, as far as a test elsewhere can tell."""

from __future__ import annotations

import sys

import pytest

from tests.support.command_line import CommandLine

APP = "cli_shop:app"


@pytest.fixture(autouse=True)
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that says that it is Windows, and lacks what that lacks."""
    monkeypatch.setattr("platform.system", lambda: "Windows")
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.syspath_prepend(".")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")


@pytest.mark.parametrize(
    "words", [("worker", APP), ("dev", APP), ("demo",), ("verify", "--local")], ids=lambda it: it[0]
)
def test_a_command_that_needs_posix_says_so_in_a_sentence(
    words: tuple[str, ...], headgate: CommandLine
) -> None:
    ended = headgate(*words)
    [line] = ended.err.splitlines()
    assert line == (
        f"headgate: headgate {words[0]} runs on Linux and macOS alone: on Windows, run it in WSL "
        "(wsl --install)"
    )
    assert ended.code == 2


def test_the_shell_runs_there(headgate: CommandLine) -> None:
    ended = headgate("shell", APP, "-c", "print(app.name)")
    assert (ended.code, ended.out) == (0, "shop\n")
