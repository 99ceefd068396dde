"""The version of Headgate that is installed."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def own_version() -> str:
    """Return Headgate's version, as its distribution's metadata has it."""
    try:
        return version("headgate")
    except PackageNotFoundError:  # bundled into a function's zip without its metadata
        return "unknown"
