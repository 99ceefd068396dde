"""An environment of its own for MiniStack, so that the user's versions of AWS's SDKs stay theirs.

It is made once, in the user's cache folder, and is all that `headgate dev` leaves behind.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from headgate.jobs.errors import HeadgateError

VERSION = "1.5.33"
"""The version that `ops.local.schedules` is made for."""

_REQUIREMENT = f"ministack=={VERSION}"
_TAIL = 2_000  # characters of a step's output that an error quotes


def interpreter(say: Callable[[str], None]) -> Path | None:
    """Return an interpreter that has MiniStack; None if it is this process's own.

    Args:
        say: is told before something is installed.

    Raises:
        HeadgateError: MiniStack could not be installed; quotes what failed.
    """
    if importlib.util.find_spec("ministack") is not None:
        return None
    folder = cache_folder(os.environ) / _name()
    python = _python_in(folder)
    if not python.exists():
        say(f"installing MiniStack {VERSION}, a local AWS, into {folder} (once)")
        try:
            _install(folder)
        except OSError as error:
            raise _not_installed(f"{error.filename}: {error.strerror}") from error
    return python


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of Headgate's cache, by XDG's rules."""
    base = environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "headgate"


def _name() -> str:
    return f"ministack-{VERSION}-python{sys.version_info.major}.{sys.version_info.minor}"


def _python_in(folder: Path) -> Path:
    """Return the interpreter of an environment, a link to that which has made it."""
    return folder / "bin" / "python"


def _install(folder: Path) -> None:
    """Make the environment beside its place, and move it there once it is complete.

    One whose interpreter has been removed since, as by an upgrade of Python, goes.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        prefix=f"{folder.name}-", dir=folder.parent, ignore_cleanup_errors=True
    ) as parent:
        made, temporary = Path(parent) / "environment", Path(parent) / "temporary"
        temporary.mkdir()
        # -I: a venv.py in the user's folder is not what is meant
        _run(sys.executable, "-I", "-m", "venv", str(made), temporary=temporary)
        pip = (str(_python_in(made)), "-I", "-m", "pip", "--disable-pip-version-check")
        _run(*pip, "install", "--quiet", _REQUIREMENT, temporary=temporary)
        if _python_in(folder).exists():
            return  # another one was faster
        if folder.exists():
            folder.rename(Path(parent) / "replaced")
        shutil.move(made, folder)


def _run(*command: str, temporary: Path) -> None:
    """Run one step of the installation; cut short, it leaves no process, and no file elsewhere."""
    with subprocess.Popen(  # noqa: S603 - this interpreter or the one made just now
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
        start_new_session=True,
    ) as process:
        try:
            said, _ = process.communicate()
        except BaseException:  # Ctrl-C; its own children, as venv's and pip's, end with it
            with suppress(ProcessLookupError, PermissionError):  # it has just ended by itself
                os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode:
        raise _not_installed(said[-_TAIL:].strip())


def _not_installed(reason: str) -> HeadgateError:
    return HeadgateError(
        f"the local AWS could not be installed: {reason}. Install it beside Headgate (pip install "
        f"{_REQUIREMENT}), or name one that runs already with --endpoint"
    )
