"""`headgate dev`: an app on a local AWS, started anew after every edit."""

from __future__ import annotations

import asyncio
import signal
from importlib.util import find_spec
from types import FrameType
from typing import NoReturn

from rich.console import Console

from headgate.jobs.errors import LibraryMissing
from headgate.jobs.values.texts import printable
from headgate.ops.dev import ministack
from headgate.ops.dev.options import DevOptions
from headgate.ops.local.state_folder import set_aside_unreadable, state_held

__all__ = ["DevOptions", "run_dev"]

_CONSOLES = ("jinja2", "starlette", "uvicorn")
"""The libraries of the console, which the app's process imports once a browser asks for it."""


def run_dev(options: DevOptions) -> None:
    """Run an app locally until Ctrl-C or SIGTERM; nothing is left but a cached MiniStack.

    Raises:
        LibraryMissing: a library of the extra ``local`` is not installed.
        ConfigurationError: the state can't be kept where it is wanted, or nothing answers at the
            endpoint.
        HeadgateError: the local AWS could not be installed or started, or ended by itself.
        KeyboardInterrupt: it was interrupted while that was installed.
    """
    try:
        from headgate.ops.dev.session import run
    except ModuleNotFoundError as error:
        raise LibraryMissing("headgate dev", error.name, "headgate[local]") from error
    if options.console:
        _check_console()
    signal.signal(signal.SIGTERM, _interrupt)  # until the session handles both
    with state_held(options.state):
        for line in set_aside_unreadable(options.state):
            print(printable(line))
        python = None if options.endpoint_url is not None else ministack.interpreter(print)
        asyncio.run(run(options, Console(), python))


def _check_console() -> None:
    for name in _CONSOLES:
        if find_spec(name) is None:
            raise LibraryMissing(
                "the console of headgate dev",
                name,
                "headgate[local]",
                then="or leave the console out with --no-console",
            )


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
