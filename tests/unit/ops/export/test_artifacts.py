"""Nobody's file is overwritten."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.jobs.errors import ConfigurationError
from headgate.ops.export.artifacts import MANIFEST, Artifact, write_artifacts

FIRST = [Artifact.of_text("a.yaml", "a: 1\n"), Artifact.of_text("b.json", "{}\n")]
SECOND = [Artifact.of_text("a.yaml", "a: 2\n")]


def test_files_are_written_into_a_folder_that_is_created(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "k8s"
    paths = write_artifacts(folder, FIRST, force=False)
    assert paths == [folder / "a.yaml", folder / "b.json"]
    assert [path.read_text() for path in paths] == ["a: 1\n", "{}\n"]


def test_a_file_that_an_export_has_written_is_replaced_by_the_next(tmp_path: Path) -> None:
    write_artifacts(tmp_path, FIRST, force=False)
    write_artifacts(tmp_path, SECOND, force=False)
    write_artifacts(tmp_path, FIRST, force=False)
    assert (tmp_path / "a.yaml").read_text() == "a: 1\n"


@pytest.mark.parametrize("exported", [False, True], ids=["a strangers", "changed since"])
def test_any_other_file_is_replaced_only_by_force(tmp_path: Path, exported: bool) -> None:
    if exported:
        write_artifacts(tmp_path, FIRST, force=False)
    (tmp_path / "a.yaml").write_text("mine: 1\n")
    with pytest.raises(ConfigurationError, match=r"has a\.yaml, which .* --force"):
        write_artifacts(tmp_path, [*SECOND, *FIRST[1:]], force=False)
    assert (tmp_path / "a.yaml").read_text() == "mine: 1\n"
    assert (tmp_path / "b.json").exists() is exported, "nothing is written by halves"

    write_artifacts(tmp_path, SECOND, force=True)
    assert (tmp_path / "a.yaml").read_text() == "a: 2\n"


def test_a_file_with_the_very_same_content_is_no_strangers(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: 1\n")
    write_artifacts(tmp_path, FIRST, force=False)


def test_a_folder_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").mkdir()
    with pytest.raises(ConfigurationError, match=r"a\.yaml"):
        write_artifacts(tmp_path, FIRST, force=False)


@pytest.mark.parametrize("content", ["not JSON", "[]"])
def test_a_broken_list_of_what_was_written_is_told_how_to_mend(
    tmp_path: Path, content: str
) -> None:
    (tmp_path / MANIFEST).write_text(content)
    with pytest.raises(ConfigurationError, match="--force"):
        write_artifacts(tmp_path, FIRST, force=False)
