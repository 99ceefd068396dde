"""Sessions of single attempts, and code around every attempt, in the apps of a life."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from headgate import App, JobContext
from tests.simulation.actors import Actor

_LEAVING_S = 0.01
"""Seconds that leaving takes when an attempt is cut."""


@dataclass(slots=True, eq=False)
class Entered:
    """One entry into a session or an around."""

    name: str
    job_id: str
    actor: Actor
    left: bool = False


class Entries(Protocol):
    """The record of entries."""

    def enters(self, name: str, ctx: JobContext) -> Entered: ...

    def leaves(self, entered: Entered) -> None: ...


class Session:
    """The resource of one attempt."""

    is_open = True


def declare(app: App, entries: Entries, *, around: bool) -> None:
    """Declare the session of an attempt, and the code around every one."""

    @app.resource(scope="job")
    async def session(ctx: JobContext) -> AsyncIterator[Session]:
        entered, opened = entries.enters("session", ctx), Session()
        try:
            await asyncio.sleep(0)
            yield opened
        except asyncio.CancelledError:
            await asyncio.sleep(_LEAVING_S)
            raise
        finally:
            opened.is_open = False
            entries.leaves(entered)

    async def surround(ctx: JobContext) -> AsyncIterator[None]:
        entered = entries.enters("around", ctx)
        try:
            await asyncio.sleep(0)
            yield
        finally:
            entries.leaves(entered)

    if around:
        app.around(surround)
