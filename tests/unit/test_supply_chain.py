"""All that is shipped is known, under permitted licences, and from images that stay the same."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.supply_chain.audit import UNANSWERED, control, verdict, worst
from tests.supply_chain.images import FILES, pin
from tests.supply_chain.licences import licence_of, refused, report
from tests.supply_chain.sbom import LOCKS, with_licences
from tests.support.vulnerability_index import index

_ROOT = Path(__file__).parents[2]
_DIGEST = f"sha256:{'0123456789abcdef' * 4}"


_LOCK = LOCKS["bridge-and-sweep"]
_CONTROL = {("jinja2", "2.4.1"): "PYSEC-2014-8"}


def _locked(lock: str) -> list[str]:
    return re.findall(r"^([A-Za-z0-9._-]+)==", (_ROOT / lock).read_text(), re.MULTILINE)


@pytest.mark.parametrize("lock", LOCKS.values())
def test_everything_that_is_shipped_has_a_permitted_licence(lock: str) -> None:
    assert refused({name: licence_of(name) for name in _locked(lock)}) == []


def test_a_licence_that_is_not_permitted_or_not_known_is_refused() -> None:
    found = refused({"one": "MIT", "two": "GPL-3.0-only", "three": "", "four": "MIT AND SSPL-1.0"})
    assert found == [
        "two: GPL-3.0-only",
        "three: no licence is known",
        "four: MIT AND SSPL-1.0",
    ]
    assert licence_of("no-such-package") == ""


def test_a_bill_names_the_licences_of_its_components() -> None:
    components: list[dict[str, Any]] = [{"name": "boto3"}, {"name": "no-such-package"}]

    assert with_licences(components) == [
        {"name": "boto3", "licenses": [{"expression": "Apache-2.0"}]},
        {"name": "no-such-package"},
    ]


def test_the_report_has_a_row_for_each_package() -> None:
    assert report([("boto3", "1", "Apache-2.0", "worker")]).splitlines()[-1] == (
        "| boto3 | 1 | Apache-2.0 | worker |"
    )


def test_base_images_are_pinned_beside_their_tags_and_again_later(tmp_path: Path) -> None:
    files = [tmp_path / "Dockerfile", tmp_path / "page.md"]
    for path in files:
        path.write_text(
            "# FROM a comment\nFROM place/python:3 AS build\nRUN x\nFROM place/python:3\n"
        )
    asked: list[str] = []

    def digest_of(image: str) -> str:
        asked.append(image)
        return f"sha256:{len(asked):064d}"

    assert pin(files, digest_of) == [f"place/python:3@sha256:{1:064d}"]
    assert pin(files, digest_of) == [f"place/python:3@sha256:{2:064d}"]
    now = f"place/python:3@sha256:{2:064d}"
    for path in files:
        assert path.read_text() == f"# FROM a comment\nFROM {now} AS build\nRUN x\nFROM {now}\n"
    assert asked == ["place/python:3"] * 2


def test_no_file_is_changed_while_a_digest_is_unknown(tmp_path: Path) -> None:
    files = [tmp_path / "one", tmp_path / "two"]
    texts = ["FROM place/python:3\n", "FROM place/other:1\n"]
    for path, text in zip(files, texts, strict=True):
        path.write_text(text)

    def digest_of(image: str) -> str:
        if "other" in image:
            raise ValueError("no such image")
        return _DIGEST

    with pytest.raises(ValueError, match="no such image"):
        pin(files, digest_of)
    assert [path.read_text() for path in files] == texts


def test_every_base_image_has_its_tag_and_one_digest_in_all_files() -> None:
    froms = {
        name: re.findall(r"^FROM (\S+)", (_ROOT / name).read_text(), re.MULTILINE) for name in FILES
    }
    assert {name: len(found) for name, found in froms.items()} == dict(
        zip(FILES, (2, 1, 2), strict=True)
    )
    [image] = {image for found in froms.values() for image in found}
    assert re.fullmatch(r"\S+/python:3\.\d+-slim@sha256:[0-9a-f]{64}", image)


def test_all_files_that_name_a_base_image_are_known() -> None:
    texts = (
        path
        for folder in ("benchmarks", "docs", "examples", "infra", "ops", "workers")
        for path in (_ROOT / folder).rglob("*")
        if path.is_file() and path.suffix in ("", ".md", ".txt")
    )
    assert {
        str(path.relative_to(_ROOT))
        for path in texts
        if re.search(r"^FROM \S+[:@]", path.read_text(errors="replace"), re.MULTILINE)
    } == set(FILES)


def test_an_audit_names_what_is_known_and_where_it_is_fixed() -> None:
    vulnerable = {"name": "a", "version": "1", "vulns": [{"id": "CVE-1", "fix_versions": ["2"]}]}
    sound = {"name": "b", "version": "1", "vulns": []}

    code, told = verdict("lock", json.dumps({"dependencies": [vulnerable, sound]}), "")

    assert code == 1
    assert told == "lock: 2 packages, 1 known vulnerabilities\n  a 1: CVE-1, fixed in 2\n"
    assert verdict("lock", json.dumps({"dependencies": [sound]}), "")[0] == 0


def test_an_audit_without_an_answer_is_none_and_says_so() -> None:
    code, told = verdict("lock", "", "WARNING: slow\nERROR: could not connect\n\n")

    assert code == UNANSWERED
    assert told == "lock: NOT AUDITED, no index answered: ERROR: could not connect\n"


def test_an_audit_that_broke_is_no_lack_of_an_answer() -> None:
    code, told = verdict("lock", "", "Traceback:\nKeyError: 'name'\n")

    assert code == 1
    assert told == "lock: NOT AUDITED, pip-audit failed: KeyError: 'name'\n"


def test_a_lock_that_was_not_audited_hides_nothing_that_is_known_of_another() -> None:
    assert worst([0, 1, UNANSWERED]) == worst([UNANSWERED, 1]) == 1
    assert worst([0, UNANSWERED, 0]) == UNANSWERED
    assert worst([0, 0]) == 0


def test_an_index_that_knows_no_package_has_audited_nothing() -> None:
    unknown = [{"name": name, "skip_reason": f"{name} not found"} for name in ("a", "b")]

    code, told = verdict("lock", json.dumps({"dependencies": unknown}), "")

    assert code == UNANSWERED
    assert told == "lock: NOT AUDITED, the index knows no package: a not found\n"


def test_a_package_that_the_index_does_not_know_is_no_clean_audit() -> None:
    unknown = {"name": "a", "skip_reason": "no such package"}
    sound = {"name": "b", "version": "1", "vulns": []}

    code, told = verdict("lock", json.dumps({"dependencies": [unknown, sound]}), "")

    assert code == 1
    assert "a: not audited: no such package" in told


def test_an_index_that_tells_of_no_vulnerability_at_all_has_audited_nothing() -> None:
    sound = {"name": "jinja2", "version": "2.4.1", "vulns": []}
    known = {**sound, "vulns": [{"id": "PYSEC-2014-8", "fix_versions": ["2.7.2"]}]}

    assert control(json.dumps({"dependencies": [sound]}), "") == (
        UNANSWERED,
        "all locks: NOT AUDITED, the index tells nothing of jinja2==2.4.1\n",
    )
    assert control(json.dumps({"dependencies": [known]}), "") == (0, "")
    assert control("", "ERROR: could not connect")[0] == UNANSWERED
    assert control("", "KeyError: 'name'")[0] == 1


def test_the_audit_asks_the_index_of_everything_that_is_locked(tmp_path: Path) -> None:
    version = _version("pydantic")
    with index({**_CONTROL, ("pydantic", version): "PYSEC-1"}, tmp_path, "pypi") as (asked, where):
        done = _audit(where)

    found = f" packages, 1 known vulnerabilities\n  pydantic {version}: PYSEC-1, fixed in 99\n"
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.count(found) == len(LOCKS) + 1
    assert asked.asked > {"aiobotocore", "boto3", "pydantic-core", "pytest", "jinja2"}


@pytest.mark.parametrize(
    ("known", "code", "told"),
    [
        (_CONTROL, 0, f"{_LOCK}: 7 packages, 0 known vulnerabilities\n"),
        ({}, UNANSWERED, "all locks: NOT AUDITED, the index tells nothing of jinja2==2.4.1\n"),
    ],
)
def test_a_clean_audit_is_one_by_an_index_that_knows_vulnerabilities(
    known: dict[tuple[str, str], str], code: int, told: str, tmp_path: Path
) -> None:
    with index(known, tmp_path, "osv") as (_, where):
        done = _audit(where, _LOCK)

    assert (done.returncode, done.stdout) == (code, told)


def test_an_index_that_has_gone_leaves_all_locks_unaudited(tmp_path: Path) -> None:
    with index(_CONTROL, tmp_path, "pypi") as (_, where):
        pass

    done = _audit(where)

    assert done.returncode == UNANSWERED
    assert done.stdout.startswith("all locks: NOT AUDITED, no index answered: ")


def _audit(where: dict[str, str], *locks: str) -> subprocess.CompletedProcess[str]:
    """Run what ``make audit`` runs, against an index on this machine."""
    command = [sys.executable, "-m", "tests.supply_chain", "audit", *locks]
    proxies = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY")
    others = {name: text for name, text in os.environ.items() if name.upper() not in proxies}
    return subprocess.run(command, env=others | where, cwd=_ROOT, capture_output=True, text=True)


def _version(name: str) -> str:
    found = re.search(rf"^{name}==(\S+)", (_ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert found
    return found[1]
