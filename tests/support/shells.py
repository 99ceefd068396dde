"""A wrapper to write tests once for an asynchronous object and its synchronous twin."""

from __future__ import annotations

import asyncio
from typing import Any


class Awaited:
    """An object whose methods are called in an event loop of their own."""

    def __init__(self, inner: object) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)

        def call(*args: Any, **options: Any) -> Any:
            return asyncio.run(method(*args, **options))

        return call
