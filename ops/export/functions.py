"""The zip of Headgate's own functions: the bridge and the sweep."""

from __future__ import annotations

import io
import stat
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

from headgate.jobs.definitions.app import App
from headgate.ops.export.artifacts import Artifact
from headgate.ops.export.cdk import build_functions

NAME = "functions.zip"

_EARLIEST = (1980, 1, 1, 0, 0, 0)  # the same files give the same zip


def functions_zip(app: App) -> Artifact:
    """Return the zip of the app's bridge and sweep, with their dependencies and its routes.

    Raises:
        ConfigurationError: CDK's library is not installed, or the dependencies can't be.
    """
    with TemporaryDirectory() as folder:
        build_functions(app, Path(folder))
        return Artifact(name=NAME, content=zipped(Path(folder)))


def zipped(folder: Path) -> bytes:
    """Return a zip of all files in a folder, in order, with their modes and without their times."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(each for each in folder.rglob("*") if each.is_file()):
            entry = zipfile.ZipInfo(path.relative_to(folder).as_posix(), _EARLIEST)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix, whose modes these are
            entry.external_attr = (stat.S_IFREG | stat.S_IMODE(path.stat().st_mode)) << 16
            archive.writestr(entry, path.read_bytes())
    return content.getvalue()
