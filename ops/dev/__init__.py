"""`headgate dev`: an app on a local AWS, started anew after every edit."""

from __future__ import annotations

import asyncio
import signal
from types import FrameType
from typing import NoReturn

from rich.console import Console

from headgate.jobs.errors import ConfigurationError
from headgate.ops.dev import ministack
from headgate.ops.dev.options import DevOptions

__all__ = ["DevOptions", "run_dev"]


def run_dev(options: DevOptions) -> None:
    """Run an app locally until Ctrl-C or SIGTERM; nothing is left but a cached MiniStack.

    Raises:
        HeadgateError: the local AWS could not be installed or started.
        KeyboardInterrupt: it was interrupted while that was installed.
    """
    try:
        from headgate.ops.dev.session import run
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"headgate dev needs {error.name}: pip install 'headgate[local]'"
        ) from error
    signal.signal(signal.SIGTERM, _interrupt)  # until the session handles both
    python = None if options.endpoint_url is not None else ministack.interpreter(print)
    asyncio.run(run(options, Console(), python))


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
