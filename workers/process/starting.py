"""Signals that come before a worker listens to them, while its app and the SDKs are imported.

A process has no handler of its own then. As process 1 of a container it would be sent no SIGTERM at
all, and Ctrl-C would show where Python was. Imports nothing of weight, since it has to come first.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

from headgate.workers.process.exit_codes import EXIT_CLEAN

_STDERR = 2


def is_worker(arguments: Sequence[str]) -> bool:
    """True if these arguments of ``headgate`` start a worker."""
    return next((each for each in arguments if not each.startswith("-")), "") == "worker"


def end_on_signals() -> None:
    """Have SIGTERM and SIGINT end this process at once, until `workers.shutdown.on_signals`."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    """End without clean-up: nothing was received, and an import can't be cut short safely."""
    name = signal.Signals(number).name
    os.write(_STDERR, f"headgate: {name} before the worker began: nothing to finish\n".encode())
    os._exit(EXIT_CLEAN)
