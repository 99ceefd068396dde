"""A user's dependencies and ours are installed together: theirs as they say, ours beside."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.requirements import Requirements
from jobs.errors import ConfigurationError

OURS = """\
aiohttp==3.14.5 \\
    --hash=sha256:aa \\
    --hash=sha256:ab
typing-extensions==4.16.0 \\
    --hash=sha256:ba
"""


@pytest.fixture
def pinned(tmp_path: Path) -> Path:
    path = tmp_path / "pinned.txt"
    path.write_text(OURS)
    return path


def users(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "requirements.txt"
    path.write_text(text)
    return path


def ours_beside(requirements: Requirements, tmp_path: Path) -> list[str]:
    """What is left of ours, as pip reads it, without layout."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    options = requirements.options(scratch)
    [_, first, _, second, *_] = options
    assert first == str(requirements.users)
    return [" ".join(line.split()) for line in Path(second).read_text().splitlines()]


def test_ours_alone_are_taken_with_their_hashes_and_nothing_else(
    pinned: Path, tmp_path: Path
) -> None:
    options = Requirements(pinned=pinned).options(tmp_path)
    assert options == ["--requirement", str(pinned), "--require-hashes", "--no-deps"]


@pytest.mark.parametrize(
    "text",
    [
        "Typing.Extensions>=4.10  # theirs\n",
        "requests==2\ntyping_extensions\n",
        "# typing\n\n--prefer-binary\ntyping-extensions ; python_version > '3'\n",
    ],
)
def test_what_the_user_names_is_the_users_to_choose(
    pinned: Path, tmp_path: Path, text: str
) -> None:
    requirements = Requirements(pinned=pinned, users=users(tmp_path, text))
    assert ours_beside(requirements, tmp_path) == ["aiohttp==3.14.5"]
    assert "--require-hashes" not in requirements.options(tmp_path)


def test_hashes_are_checked_if_the_user_has_some(pinned: Path, tmp_path: Path) -> None:
    own = users(tmp_path, "requests==2 \\\n    --hash=sha256:ca\n")
    requirements = Requirements(pinned=pinned, users=own)
    assert ours_beside(requirements, tmp_path) == [
        "aiohttp==3.14.5 --hash=sha256:aa --hash=sha256:ab",
        "typing-extensions==4.16.0 --hash=sha256:ba",
    ]
    assert "--require-hashes" in requirements.options(tmp_path)


@pytest.mark.parametrize(
    "line", ["-r base.txt", "--requirement base.txt", "--requirement=base.txt"]
)
def test_files_that_the_users_includes_count_too(pinned: Path, tmp_path: Path, line: str) -> None:
    base = tmp_path / "base.txt"
    base.write_text("aiohttp==3.0\n-r requirements.txt\n")
    requirements = Requirements(pinned=pinned, users=users(tmp_path, f"{line}\n"))
    assert ours_beside(requirements, tmp_path) == ["typing-extensions==4.16.0"]
    assert [path for _, path in requirements.files()] == [pinned, requirements.users, base]


def test_a_file_that_is_not_there_is_refused_by_whose_it_is(pinned: Path, tmp_path: Path) -> None:
    own = users(tmp_path, "-r gone.txt\n")
    with pytest.raises(ConfigurationError, match=r"the consumer 'x': .* read: .*gone\.txt"):
        Requirements(pinned=pinned, users=own, owner="the consumer 'x'")
