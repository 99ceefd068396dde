"""The calls of functions that a piece of work makes: the same on any machine, at any load."""

from __future__ import annotations

import asyncio
import email
import http
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType

import headgate

_OURS = str(Path(headgate.__file__).parent)
_LIBRARIES = (asyncio, email, http)
_COUNTED = (_OURS, *(str(Path(each.__file__ or "").parent) for each in _LIBRARIES), "<string>")
"""Beginnings of the paths of functions that are counted: Headgate's own, those of the event loop
and of HTTP, and the constructors that dataclasses generate."""

_IN_MEMORY = f"{_OURS}/jobs/testing/"
"""AWS in memory and its clocks, which production doesn't call."""

_INLINED = frozenset({"<listcomp>", "<dictcomp>", "<setcomp>"})
"""Functions in Python 3.11 alone: https://peps.python.org/pep-0709/."""


@contextmanager
def counted_calls() -> Iterator[Counter[str]]:
    """Count the calls of Python functions within the block, by function."""
    counts: Counter[CodeType] = Counter()

    def profile(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            counts[frame.f_code] += 1

    named: Counter[str] = Counter()
    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield named
    finally:
        sys.setprofile(before)
        for code, calls in counts.items():
            if _counts(code):
                named[_name(code)] += calls


def _counts(code: CodeType) -> bool:
    path = code.co_filename
    is_counted = path.startswith(_COUNTED) and not path.startswith(_IN_MEMORY)
    return is_counted and code.co_name not in _INLINED


def _name(code: CodeType) -> str:
    return f"{code.co_filename.removeprefix(_OURS)}:{code.co_firstlineno} {code.co_qualname}"
