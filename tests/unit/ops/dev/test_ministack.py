"""MiniStack's environment of its own: made once, whole or not at all."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn, Self

import pytest

from headgate.errors import HeadgateError
from headgate.ops.dev import ministack

ROOT = Path(__file__).parents[4]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder, on a machine where MiniStack is not installed beside Headgate."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    return tmp_path / "headgate"


def _make(folder: Path) -> None:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").touch()


class Steps:
    """Makes environments, and notes what is installed; a step by its module may fail."""

    def __init__(self, failing: str = "") -> None:
        self.installed: list[str] = []
        self.temporary: list[Path] = []
        self.returncode = 0
        self._failing = failing

    def __call__(self, command: Sequence[str], **options: Any) -> Self:
        module = command[3]
        self.returncode = int(module == self._failing)
        self.temporary.append(Path(options["env"]["TMPDIR"]))
        assert self.temporary[-1].is_dir()
        if module == "venv":
            _make(Path(command[-1]))
        else:
            self.installed.append(command[-1])
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None: ...

    def communicate(self) -> tuple[str, None]:
        return "no network\n", None


def test_the_environment_is_made_once_and_announced(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(subprocess, "Popen", steps := Steps())
    python = ministack.interpreter(said.append)
    assert ministack.interpreter(said.append) == python
    assert python is not None
    assert python.is_relative_to(cache)
    assert steps.installed == [f"ministack=={ministack.VERSION}"]
    assert len(said) == 1
    assert len([*cache.iterdir()]) == 1


def test_an_environment_whose_python_was_removed_is_made_anew(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "Popen", steps := Steps())
    python = ministack.interpreter(lambda _text: None)
    assert python is not None
    python.unlink()
    python.symlink_to("/a/python/that/was/removed")
    for _ in range(2):
        assert ministack.interpreter(lambda _text: None) == python
        assert python.exists()
    assert len(steps.installed) == 2
    assert len([*cache.iterdir()]) == 1


@pytest.mark.parametrize("step", ["venv", "pip"])
def test_a_failed_installation_leaves_nothing_and_quotes_what_failed(
    step: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "Popen", Steps(failing=step))
    with pytest.raises(HeadgateError, match="could not be installed: no network") as raised:
        ministack.interpreter(lambda _text: None)
    assert f"pip install ministack=={ministack.VERSION}" in str(raised.value)
    assert [*cache.iterdir()] == []


def test_a_cache_that_can_not_be_written_is_named(cache: Path) -> None:
    cache.write_text("a file in the way")
    with pytest.raises(HeadgateError, match=f"{cache}: File exists") as raised:
        ministack.interpreter(lambda _text: None)
    assert "--endpoint" in str(raised.value)


def test_what_the_steps_put_aside_is_gone_even_if_they_are_cut_short(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "Popen", steps := Steps())
    ministack.interpreter(lambda _text: None)
    assert all(each.is_relative_to(cache) for each in steps.temporary)
    assert not any(each.exists() for each in steps.temporary)


def test_ctrl_c_during_a_step_ends_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[tuple[int, int]] = []

    def interrupted(process: subprocess.Popen[str]) -> NoReturn:
        assert os.getpgid(process.pid) == process.pid  # a group of its own, with its children
        raise KeyboardInterrupt

    def kill(group: int, number: int) -> None:
        killed.append((group, number))
        os.kill(group, number)

    monkeypatch.setattr(subprocess.Popen, "communicate", interrupted)
    monkeypatch.setattr(os, "killpg", kill)
    with pytest.raises(KeyboardInterrupt):
        ministack._run(sys.executable, "-c", "import time; time.sleep(600)", temporary=tmp_path)
    [(group, number)] = killed
    assert number == signal.SIGKILL
    with pytest.raises(ProcessLookupError):
        os.kill(group, 0)


def test_one_that_another_command_has_made_meanwhile_is_used(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def install(command: Sequence[str], **options: Any) -> Steps:
        if command[3] == "pip":
            _make(cache / ministack._name())
        return Steps()(command, **options)

    monkeypatch.setattr(subprocess, "Popen", install)
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
