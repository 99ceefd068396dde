"""Handling of signals that arrive while a worker still imports its app and the SDKs.

A process has no handler of its own then. As process 1 of a container it would not receive SIGTERM
at all, and Ctrl-C would print a traceback. Imports no heavy modules, since it has to run first.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

from headgate.workers.process.exit_codes import EXIT_CLEAN

_STDERR = 2
_APP_OPTION = ("-A", "--app")
"""The option of ``headgate`` that takes a value and comes before the command."""


def is_worker(arguments: Sequence[str]) -> bool:
    """Return True if these arguments of ``headgate`` start a worker."""
    words = iter(arguments)
    for word in words:
        if word in _APP_OPTION:
            next(words, None)
        elif not word.startswith("-"):
            return word == "worker"
    return False


def end_on_signals(*, tell: bool = True) -> None:
    """Make SIGTERM and SIGINT end this process at once, until `workers.shutdown.on_signals`.

    Args:
        tell: say on standard error that nothing was left undone.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _told if tell else _end)


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    """End without clean-up: nothing was received, and imports can't be interrupted safely."""
    os._exit(EXIT_CLEAN)


def _told(number: int, frame: FrameType | None) -> NoReturn:
    name = signal.Signals(number).name
    os.write(_STDERR, f"headgate: {name} before the worker began: nothing to finish\n".encode())
    _end(number, frame)
