"""A start of `headgate dev` provisions what is missing, and leaves the rest as it is."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from headgate import App
from headgate.ops.dev import preparing
from headgate.ops.dev.preparing import prepared

APP = """
from headgate import App, Encryption, Schedule, Signing

app = App("prepared-shop"{options})

@app.job("sync", schedule=Schedule.rate({every}))
def sync() -> None: ...
"""


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The steps that were taken, in place of requests."""
    steps: list[str] = []
    monkeypatch.setattr(preparing, "provision_all", lambda _app: steps.append("everything"))
    monkeypatch.setattr(preparing, "_store_schedules", lambda _app: steps.append("schedules"))
    return steps


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Start:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return Start(tmp_path, monkeypatch)


class Start:
    """Starts of `headgate dev`'s process, each with the app as it is written then."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._monkeypatch = monkeypatch
        self._starts = 0

    def __call__(self, provisioned: str, *, every: int = 900, options: str = "") -> str:
        self._starts += 1
        module = f"prepared_shop_{self._starts}"
        self._monkeypatch.delitem(sys.modules, module, raising=False)  # of another test
        (self._folder / f"{module}.py").write_text(APP.format(every=every, options=options))
        return prepared(f"{module}:app", provisioned).provisioned


def test_an_edit_of_code_alone_asks_nothing_of_aws(done: list[str], start: Start) -> None:
    first = start("")
    assert start(first) == first
    assert done == ["everything"]


def test_a_changed_schedule_is_stored_and_nothing_else_is_done(
    done: list[str], start: Start
) -> None:
    first = start("")
    assert start(start(first, every=300), every=300) != first
    assert done == ["everything", "schedules"]


@pytest.mark.parametrize("options", [", signing=Signing()", ", encryption=Encryption()"])
def test_an_app_that_begins_to_sign_or_seal_gets_its_keys(
    done: list[str], start: Start, options: str
) -> None:
    start(start(""), options=options)
    assert done == ["everything", "everything"]


def test_what_cdk_json_says_exists_is_made_by_its_own_name(
    done: list[str], start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[App] = []
    monkeypatch.setattr(preparing, "provision_all", found.append)
    monkeypatch.delenv("HEADGATE_STAGE", raising=False)
    monkeypatch.setenv("HEADGATE_EXISTING", "")  # restored afterwards
    common = {"existing": {"table": "their-jobs"}}
    Path("cdk.json").write_text(json.dumps({"context": {"headgate:deployment": common}}))
    start("")
    assert [app.topology.table_name for app in found] == ["their-jobs"]
    assert not done
