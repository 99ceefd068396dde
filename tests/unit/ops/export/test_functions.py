"""The zip of the functions depends on their files alone."""

from __future__ import annotations

import io
import os
import stat
import zipfile
from pathlib import Path

import pytest

from headgate.jobs.definitions.app import App
from headgate.ops.export import functions
from headgate.ops.export.functions import functions_zip, zipped
from tests.unit.ops.export.shop import shop


def bundle(folder: Path) -> None:
    (folder / "headgate" / "lambdas").mkdir(parents=True)
    (folder / "headgate" / "lambdas" / "bridge.py").write_text("handler = None\n")
    (folder / "tool").write_text("#!/bin/sh\n")
    (folder / "tool").chmod(0o755)


def test_the_same_files_give_the_same_zip_whenever_they_were_written(tmp_path: Path) -> None:
    for name, seconds in (("one", 10**9), ("two", 10**9 + 3600)):
        bundle(tmp_path / name)
        for path in (tmp_path / name).rglob("*"):
            os.utime(path, (seconds, seconds))
    assert zipped(tmp_path / "one") == zipped(tmp_path / "two")


def test_files_keep_their_places_contents_and_modes(tmp_path: Path) -> None:
    bundle(tmp_path)
    with zipfile.ZipFile(io.BytesIO(zipped(tmp_path))) as archive:
        assert archive.namelist() == ["headgate/lambdas/bridge.py", "tool"]
        assert archive.read("headgate/lambdas/bridge.py") == b"handler = None\n"
        mode = archive.getinfo("tool").external_attr >> 16
    assert stat.S_IMODE(mode) == 0o755


def test_the_zip_is_made_of_what_is_built_for_the_app(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[App] = []

    def build(app: App, folder: Path) -> None:
        built.append(app)
        bundle(folder)

    monkeypatch.setattr(functions, "build_functions", build)
    app = shop()
    made = functions_zip(app)
    assert (made.name, built) == ("functions.zip", [app])
    assert zipfile.is_zipfile(io.BytesIO(made.content))
