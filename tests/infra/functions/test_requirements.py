"""A user's dependencies and ours are installed together: theirs unchanged, ours in addition."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.infra.functions.requirements import Requirements
from headgate.jobs.errors import ConfigurationError

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


def handed_to_pip(requirements: Requirements, tmp_path: Path) -> tuple[list[str], list[str]]:
    """Return the user's lines and ours, without layout."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    [_, theirs, _, ours, *_] = requirements.options(scratch, python="3.13")
    return _lines(theirs), _lines(ours)


def _lines(path: str) -> list[str]:
    return [" ".join(line.split()) for line in Path(path).read_text().splitlines()]


def ours_beside(requirements: Requirements, tmp_path: Path) -> list[str]:
    """Return the lines that are left of ours."""
    return handed_to_pip(requirements, tmp_path)[1]


def test_ours_alone_are_taken_with_their_hashes_and_nothing_else(
    pinned: Path, tmp_path: Path
) -> None:
    options = Requirements(pinned=pinned).options(tmp_path, python="3.13")
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
    assert "--require-hashes" not in requirements.options(tmp_path, python="3.13")


def test_hashes_are_checked_if_the_user_has_some(pinned: Path, tmp_path: Path) -> None:
    own = users(tmp_path, "requests==2 \\\n    --hash=sha256:ca\n")
    requirements = Requirements(pinned=pinned, users=own)
    assert ours_beside(requirements, tmp_path) == [
        "aiohttp==3.14.5 --hash=sha256:aa --hash=sha256:ab",
        "typing-extensions==4.16.0 --hash=sha256:ba",
    ]
    assert "--require-hashes" in requirements.options(tmp_path, python="3.13")


@pytest.mark.parametrize(
    "line", ["-r base.txt", "--requirement base.txt", "--requirement=base.txt"]
)
def test_files_that_the_users_includes_count_too(pinned: Path, tmp_path: Path, line: str) -> None:
    base = tmp_path / "base.txt"
    base.write_text("aiohttp==3.0\n-r requirements.txt\n")
    requirements = Requirements(pinned=pinned, users=users(tmp_path, f"{line}\n"))
    assert ours_beside(requirements, tmp_path) == ["typing-extensions==4.16.0"]
    assert [path for _, path in requirements.files()] == [pinned, requirements.users, base]


def test_a_missing_requirements_file_is_refused_by_its_owner(pinned: Path, tmp_path: Path) -> None:
    own = users(tmp_path, "-r gone.txt\n")
    with pytest.raises(ConfigurationError, match=r"the consumer 'x': .* read: .*gone\.txt"):
        Requirements(pinned=pinned, users=own, owner="the consumer 'x'")


@pytest.mark.parametrize(
    ("marker", "applies"),
    [
        ("python_version < '3'", False),
        ("sys_platform == 'win32'", False),
        ("platform_machine == 'x86_64'", False),
        ("python_version >= '3.13'", True),
        ("sys_platform == 'linux' and platform_machine == 'aarch64'", True),
    ],
)
def test_markers_are_those_of_lambda_whatever_python_deploys(
    pinned: Path, tmp_path: Path, marker: str, applies: bool
) -> None:
    own = users(tmp_path, f"aiohttp==3.0 ; {marker} \\\n    --hash=sha256:ca\n")
    theirs, ours = handed_to_pip(Requirements(pinned=pinned, users=own), tmp_path)
    assert theirs == (["aiohttp==3.0 --hash=sha256:ca"] if applies else [])
    assert len(ours) == (1 if applies else 2), "a line that isn't for Lambda removes no pin of ours"


@pytest.mark.parametrize("option", ["-c ", "-c", "--constraint ", "--constraint="])
def test_constraints_and_local_wheels_decide_what_is_installed(
    pinned: Path, tmp_path: Path, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    constraints, wheels = tmp_path / "constraints.txt", tmp_path / "wheels"
    constraints.write_text("aiohttp==3.0\n")
    wheels.mkdir()
    for name in ("own-1.0-py3-none-any.whl", "other-1.0-py3-none-any.whl"):
        (wheels / name).write_bytes(b"wheel")
    other = (wheels / "other-1.0-py3-none-any.whl").resolve()
    own = users(
        tmp_path,
        f"{option}constraints.txt\n./wheels/own-1.0-py3-none-any.whl\nother @ {other.as_uri()}\n",
    )
    requirements = Requirements(pinned=pinned, users=own)
    names = [path.name for _, path in requirements.files()]
    assert names == [
        "pinned.txt",
        "requirements.txt",
        "constraints.txt",
        *sorted((path.name for path in wheels.iterdir()), reverse=True),
    ]
    theirs, ours = handed_to_pip(requirements, tmp_path)
    assert theirs[0].endswith(str(constraints)), "found from wherever pip runs"
    assert len(ours) == 2, "a constraint requires nothing"


def test_constraints_that_are_not_there_are_refused(pinned: Path, tmp_path: Path) -> None:
    own = users(tmp_path, "-c gone.txt\n")
    with pytest.raises(ConfigurationError, match=r"read: .*gone\.txt"):
        Requirements(pinned=pinned, users=own)
