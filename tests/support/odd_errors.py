"""Errors that no hook should raise, and what a log has to say of each."""

from __future__ import annotations

import asyncio


class _Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


ODD_ERRORS: list[tuple[BaseException, str]] = [
    (asyncio.CancelledError(), "CancelledError"),
    (SystemExit(3), "SystemExit: 3"),
    (StopIteration(), "StopIteration"),
    (StopAsyncIteration(), "StopAsyncIteration"),
    (_Mute(), "<RuntimeError in _Mute.__str__>"),
    (ValueError("x" * 500_000), "500,000 characters"),
    (BaseExceptionGroup("both", [SystemExit()]), "BaseExceptionGroup"),
]
"""Each with the words."""


def name_of(value: object) -> str:
    """Return the name of an error's class, by which its test is called."""
    return type(value).__name__ if isinstance(value, BaseException) else ""
