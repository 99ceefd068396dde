"""The folder of a local AWS's state: one run at a time, and refused before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.errors import ConfigurationError
from headgate.ops.local.state_folder import state_held


def test_a_folder_is_made_and_stays(tmp_path: Path) -> None:
    folder = tmp_path / "kept" / "here"
    with state_held(folder):
        assert [*folder.iterdir()] == []
    assert folder.is_dir()


def test_a_second_run_is_refused_until_the_first_has_ended(tmp_path: Path) -> None:
    with state_held(tmp_path):
        with pytest.raises(ConfigurationError, match="another headgate dev keeps its state") as no:
            state_held(tmp_path).__enter__()
        assert f"in {tmp_path}: end that one, or name another folder" in str(no.value)
    with state_held(tmp_path):
        pass


def test_a_folder_that_can_not_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes").touch()
    with pytest.raises(ConfigurationError, match="no state can be kept in") as refused:
        state_held(tmp_path / "notes" / "state").__enter__()
    assert "Not a directory" in str(refused.value)


def test_without_a_folder_nothing_is_held() -> None:
    with state_held(None), state_held(None):
        pass
