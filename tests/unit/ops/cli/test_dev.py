"""``headgate dev`` and ``headgate provision``: what they are told, and what they refuse."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from headgate.ops import dev
from headgate.ops.dev import DevOptions, preparing
from tests.support.command_line import CommandLine


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[DevOptions]:
    """The options of each run."""
    runs: list[DevOptions] = []
    monkeypatch.setattr(dev, "run_dev", runs.append)
    return runs


def test_the_app_is_an_argument_or_an_option(told: list[DevOptions], headgate: CommandLine) -> None:
    headgate("dev", "cli_shop:app")
    headgate("dev", app="cli_shop:app")
    assert [each.app for each in told] == ["cli_shop:app"] * 2
    assert told[0] == DevOptions(app="cli_shop:app", watch=(Path(),))


def test_the_console_can_be_left_out(told: list[DevOptions], headgate: CommandLine) -> None:
    headgate("dev", "cli_shop:app", "--no-console")
    assert told == [DevOptions(app="cli_shop:app", console=False)]


def test_a_console_without_its_libraries_names_their_extra(
    headgate: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dev, "find_spec", lambda name: None if name == "uvicorn" else name)
    ended = headgate("dev", "cli_shop:app")
    assert ended.code == 2
    assert "needs uvicorn: pip install 'headgate[local]'" in ended.err
    assert "--no-console" in ended.err


def test_an_app_that_can_not_be_imported_is_not_refused_at_the_start(
    told: list[DevOptions], headgate: CommandLine
) -> None:
    assert headgate("dev", "cli_shop_broken:app").code == 0
    assert len(told) == 1


def test_a_malformed_app_path_is_refused_at_the_start(
    told: list[DevOptions], headgate: CommandLine
) -> None:
    ended = headgate("dev", "orders")
    assert (ended.code, told) == (2, [])
    assert "'orders' is not an app path: write module:attribute, as in orders:app" in ended.err


def test_without_an_app_it_says_how_to_name_one(headgate: CommandLine) -> None:
    assert "no app is named: write headgate dev shop.app:app, or set" in headgate("dev").err


def test_state_belongs_to_a_local_aws_of_its_own(headgate: CommandLine) -> None:
    ended = headgate("dev", "cli_shop:app", "--endpoint", "http://localhost:1", "--state", "x")
    assert ended.code == 2
    assert "--state is the folder of the local AWS that headgate dev starts" in ended.err


def test_an_endpoint_where_nothing_listens_is_refused_at_the_start(headgate: CommandLine) -> None:
    with socket.socket() as bound:  # so that nothing else takes the port
        bound.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{bound.getsockname()[1]}"
        ended = headgate("dev", "cli_shop:app", "--endpoint", endpoint, "--no-console")
    assert ended.code == 2
    assert f"nothing answers at {endpoint}: start that local AWS first" in ended.err


def test_state_that_can_not_be_kept_is_refused_at_the_start(
    here: Path, headgate: CommandLine
) -> None:
    (here / "notes").touch()
    ended = headgate("dev", "cli_shop:app", "--state", "notes/state", "--no-console")
    assert ended.code == 2
    assert "no state can be kept in notes/state: Not a directory" in ended.err


@pytest.mark.parametrize("command", [("dev",), ("provision",)])
def test_aws_itself_is_refused(command: tuple[str, ...], headgate: CommandLine) -> None:
    ended = headgate(
        *command, "--endpoint", "https://sqs.us-east-1.amazonaws.com", app="cli_shop:app"
    )
    assert ended.code == 2
    assert "is AWS itself" in ended.err


def test_provision_creates_everything_with_nobody_s_credentials(
    headgate: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    seen: list[tuple[str, str]] = []
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAREAL")
    monkeypatch.setattr(
        preparing,
        "provision_all",
        lambda app: seen.append((app.name, os.environ["AWS_ACCESS_KEY_ID"])),
    )
    ended = headgate("provision", "--endpoint", "http://localhost:4566", app="cli_shop:app")
    assert (ended.code, seen) == (0, [("shop", "headgate-dev")])
    assert "shop-test-jobs-normal" in ended.out


def test_the_version_is_printed(headgate: CommandLine) -> None:
    from headgate.jobs.values.own_version import own_version

    ended = headgate("--version")
    assert (ended.code, ended.out) == (0, f"headgate {own_version()}\n")
