"""The folder of a local AWS's state: one run at a time, and refused before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.errors import ConfigurationError
from headgate.ops.local.state_folder import KEPT, set_aside_unreadable, state_held


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


def kept(folder: Path, name: str, content: bytes) -> Path:
    """Write a file of a service's state."""
    path = folder / KEPT / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"queues": {"a"', "it is no JSON: "),
        (b"\xff\xfe\x00", "it is no text"),
        (b"[1]", "it holds no JSON object"),
        (b"", "it is empty"),
    ],
)
def test_a_file_that_holds_no_state_is_set_aside_and_told_of(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    path, whole = kept(tmp_path, "sqs.json", content), kept(tmp_path, "s3.json", b'{"a": 1}')
    [line] = set_aside_unreadable(tmp_path)
    assert line.startswith(f"{path} can't be read ({reason}")
    assert line.endswith("): it is kept as sqs.json.unreadable, and sqs starts empty")
    assert not path.exists()
    assert path.with_name("sqs.json.unreadable").read_bytes() == content
    assert whole.read_bytes() == b'{"a": 1}'


def test_what_was_set_aside_before_stays_too(tmp_path: Path) -> None:
    for content in (b"1", b"2", b"3"):
        kept(tmp_path, "sqs.json", content)
        assert set_aside_unreadable(tmp_path)
    aside = [path.read_bytes() for path in sorted((tmp_path / KEPT).iterdir())]
    assert aside == [b"1", b"2", b"3"]


def test_a_folder_without_state_has_nothing_to_set_aside(tmp_path: Path) -> None:
    assert set_aside_unreadable(tmp_path) == []
    assert set_aside_unreadable(None) == []


def test_a_file_that_the_system_does_not_give_ends_the_start(tmp_path: Path) -> None:
    (tmp_path / KEPT / "sqs.json").mkdir(parents=True)
    with pytest.raises(ConfigurationError, match=r"sqs\.json can't be read: Is a directory"):
        set_aside_unreadable(tmp_path)
