"""The frames of a traceback that are the user's, told from Headgate's and from Python's own."""

from __future__ import annotations

import importlib
import sysconfig
import traceback
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import TracebackType


def from_users_code(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback from its first frame outside of Headgate on; None without one.

    What comes before is the way from a worker to the handler, the same for every job: Headgate's
    frames, and those of the threads and futures in between. What the user's code calls stays,
    Headgate's own functions included.
    """
    found = trace
    while found is not None:
        if not _is_on_the_way(found.tb_frame.f_code.co_filename):
            return found
        found = found.tb_next
    return None


def users_frames(error: BaseException) -> traceback.StackSummary:
    """Return the frames of an error's traceback in the user's code.

    These are neither Headgate's nor an import's own, and no library's if there are any others.
    """
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not _is_machinery(frame.filename)
    ]
    own = [frame for frame in frames if not _is_within(frame.filename, _LIBRARIES)]
    return traceback.StackSummary.from_list(own or frames)


@cache
def _is_on_the_way(filename: str) -> bool:
    """Return True for code of Headgate, and of the standard library."""
    if _is_machinery(filename):
        return True
    return _is_within(filename, _STANDARD) and not _is_within(filename, _INSTALLED)


def _is_machinery(filename: str) -> bool:
    # Generated code, such as the constructor of a dataclass, stands in no file.
    return filename.startswith(("<frozen ", "<string>")) or _is_within(filename, _MACHINERY)


def _is_within(filename: str, folders: Iterable[Path]) -> bool:
    path = Path(filename).resolve()
    return any(path.is_relative_to(folder) for folder in folders)


_PACKAGES = ("jobs", "workers", "lambdas", "infra", "ops", "contrib")
_MACHINERY = [
    Path(importlib.__file__).resolve().parent,
    # In a checkout, headgate/ has links to its packages.
    *((Path(__file__).parents[2] / package).resolve() for package in _PACKAGES),
]
_STANDARD = [Path(sysconfig.get_path("stdlib")).resolve()]
_INSTALLED = [Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")]
_LIBRARIES = [*_STANDARD, *_INSTALLED]
