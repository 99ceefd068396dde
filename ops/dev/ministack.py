"""An environment of its own for MiniStack, so that the user's versions of AWS's SDKs stay theirs.

It is made once, in the user's cache folder, and is all that `headgate dev` leaves behind.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Mapping
from pathlib import Path

from headgate.jobs.errors import HeadgateError

VERSION = "1.5.33"
"""The version that `ops.local_schedules` is made for."""

_TAIL = 2_000  # characters of pip's output that an error quotes


def interpreter(say: Callable[[str], None]) -> Path | None:
    """Return an interpreter that has MiniStack; None if it is this process's own.

    Args:
        say: is told before something is installed.

    Raises:
        HeadgateError: MiniStack could not be installed; quotes pip.
    """
    if importlib.util.find_spec("ministack") is not None:
        return None
    folder = cache_folder(os.environ) / _name()
    python = folder / "bin" / "python"
    if not python.exists():
        say(f"installing MiniStack {VERSION}, a local AWS, into {folder} (once)")
        _install(folder)
    return python


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of Headgate's cache, by XDG's rules."""
    base = environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "headgate"


def _name() -> str:
    return f"ministack-{VERSION}-python{sys.version_info.major}.{sys.version_info.minor}"


def _install(folder: Path) -> None:
    """Make the environment beside its place, and move it there once it is complete."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        prefix=f"{folder.name}-", dir=folder.parent, ignore_cleanup_errors=True
    ) as parent:
        made = Path(parent) / "environment"
        venv.create(made, with_pip=True, symlinks=True)
        _pip_install(made / "bin" / "python", f"ministack=={VERSION}")
        if not folder.exists():  # another one may have been faster
            shutil.move(made, folder)


def _pip_install(python: Path, requirement: str) -> None:
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    ended = subprocess.run(  # noqa: S603 - the interpreter made just now, and a version named here
        [*command, requirement],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if ended.returncode:
        raise HeadgateError(
            f"{requirement} could not be installed: {ended.stdout[-_TAIL:].strip()}. Install it "
            "beside Headgate, or name another local AWS with --endpoint"
        )
