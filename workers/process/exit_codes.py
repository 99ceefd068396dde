"""Exit codes of ``headgate worker``, and an exit that waits for no thread."""

from __future__ import annotations

import logging
import os
import sys
from typing import NoReturn

EXIT_CLEAN = 0
EXIT_FAULT = 1
EXIT_CONFIGURATION = 2
"""The command line, the app or the environment has to change: trying again can't help."""
EXIT_UNFINISHED = 3
"""Stopped, but something was cut off: a stuck handler or resource, a settlement, or a receive."""
EXIT_NO_QUEUES = 4
"""None of the worker's queues has existed for ``queue_grace``: the stage, account or region is
wrong, or nothing is deployed there yet."""
EXIT_INTERRUPTED = 130
"""Another command than ``headgate worker`` was ended by Ctrl-C; what a shell says then."""

_BY_WEIGHT = (EXIT_CLEAN, EXIT_UNFINISHED, EXIT_FAULT, EXIT_NO_QUEUES, EXIT_CONFIGURATION)


def weight(code: int) -> int:
    """Return the severity of an exit code; higher is worse.

    Raises:
        ValueError: it is not one of the above.
    """
    return _BY_WEIGHT.index(code)


def exit_at_once(code: int) -> NoReturn:
    """Exit without waiting for threads that are stuck, as the event loop and the interpreter do."""
    logging.shutdown()
    sys.stdout.flush()
    os._exit(code)
