"""MiniStack's environment of its own: made once, whole or not at all."""

from __future__ import annotations

import re
import subprocess
import venv
from pathlib import Path
from typing import Any

import pytest

from headgate.errors import HeadgateError
from headgate.ops.dev import ministack

ROOT = Path(__file__).parents[4]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder, on a machine where MiniStack is not installed beside Headgate."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    monkeypatch.setattr(venv, "create", _make)
    return tmp_path / "headgate"


def _make(folder: Path, **_options: Any) -> None:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").touch()


class Pip:
    """Notes what is installed; ends with an exit code."""

    def __init__(self, code: int = 0) -> None:
        self.installed: list[str] = []
        self._code = code

    def __call__(self, command: list[str], **_options: Any) -> subprocess.CompletedProcess[str]:
        self.installed.append(command[-1])
        return subprocess.CompletedProcess(command, self._code, "no network\n", "")


def test_the_environment_is_made_once_and_announced(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(subprocess, "run", pip := Pip())
    python = ministack.interpreter(said.append)
    assert ministack.interpreter(said.append) == python
    assert python is not None
    assert python.is_relative_to(cache)
    assert pip.installed == [f"ministack=={ministack.VERSION}"]
    assert len(said) == 1
    assert len([*cache.iterdir()]) == 1


def test_a_failed_installation_leaves_nothing_and_quotes_pip(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "run", Pip(code=1))
    with pytest.raises(HeadgateError, match="could not be installed: no network"):
        ministack.interpreter(lambda _text: None)
    assert [*cache.iterdir()] == []


def test_one_that_another_command_has_made_meanwhile_is_used(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def install(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        _make(next(iter(cache.iterdir())).with_name(ministack._name()))
        return Pip()(command, **options)

    monkeypatch.setattr(subprocess, "run", install)
    python = ministack.interpreter(lambda _text: None)
    assert python is not None
    assert python.exists()
    assert len([*cache.iterdir()]) == 1


def test_a_ministack_beside_headgate_is_used_as_it_is() -> None:
    assert ministack.interpreter(pytest.fail) is None


def test_a_relative_cache_folder_is_ignored_as_xdg_demands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert ministack.cache_folder({"XDG_CACHE_HOME": "here"}) == Path("/home/ada/.cache/headgate")
    assert ministack.cache_folder({}) == Path("/home/ada/.cache/headgate")


def test_its_version_is_the_one_that_the_tests_run_with() -> None:
    locked = re.search(r"^ministack==(\S+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert locked is not None
    assert locked[1] == ministack.VERSION
