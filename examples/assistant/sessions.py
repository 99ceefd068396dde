"""Jobs of conversations, on the app's default queue: summaries, exports, clean-up."""

from __future__ import annotations

import json
from datetime import timedelta

from pydantic import BaseModel, ConfigDict, Field

from examples.assistant.clock import Clock
from examples.assistant.language import summary
from examples.assistant.store import Store
from examples.assistant.tenancy import data_of, for_each_tenant
from headgate import Discard, JobContext, Priority, Router, cron

sessions = Router()


class SessionId(BaseModel):
    """One conversation."""

    model_config = ConfigDict(frozen=True)

    id: str
    sentences: int = Field(default=2, ge=1)


class Export(BaseModel):
    """The user whose conversations to export."""

    model_config = ConfigDict(frozen=True)

    user: str


class CleanUp(BaseModel):
    """Which sessions to clean up, and how many in one go."""

    model_config = ConfigDict(frozen=True)

    idle: timedelta = timedelta(days=30)
    most: int = Field(default=1_000, ge=1)


@sessions.job("summarize-session", priority=Priority.HIGH, timeout=timedelta(seconds=30))
async def summarize_session(wanted: SessionId, store: Store, ctx: JobContext) -> str:
    """Store the sentences that say most, and return them."""
    session = data_of(store, ctx).sessions.get(wanted.id)
    if session is None:
        raise Discard("the session is gone")
    session.summary = summary(session.messages, wanted.sentences)
    return session.summary


@sessions.job("export-sessions", priority=Priority.NORMAL, timeout=timedelta(minutes=5))
async def export_sessions(wanted: Export, store: Store, ctx: JobContext) -> int:
    """Write a user's conversations as a JSON object a line; return how many."""
    data = data_of(store, ctx)
    own = sorted(
        (each for each in data.sessions.values() if each.user == wanted.user),
        key=lambda session: session.last_at,
    )
    lines = [
        json.dumps({"id": each.id, "at": each.last_at.isoformat(), "messages": each.messages})
        for each in own
    ]
    data.exports[wanted.user] = "\n".join(lines)
    return len(lines)


@sessions.job(
    "clean-sessions",
    priority=Priority.LOW,
    timeout=timedelta(minutes=5),
    schedule=cron("15 * * * ? *"),
    schedule_payload=CleanUp(idle=timedelta(days=7), most=500),
)
async def clean_sessions(wanted: CleanUp, store: Store, clock: Clock, ctx: JobContext) -> int:
    """Delete idle sessions, the oldest first; return how many.

    One with messages is summarized before, and deleted by a later clean-up. If more than ``most``
    are idle, a job like this one does the rest: a job stays short, however much there is.
    """
    if ctx.tenant is None:
        await for_each_tenant(store, ctx, clean_sessions, wanted)
        return 0
    data = data_of(store, ctx)
    idle = data.idle_sessions(clock.now(), wanted.idle)
    deleted = 0
    for session in idle[: wanted.most]:
        if session.messages and not session.summary:
            await ctx.submit(summarize_session, SessionId(id=session.id), priority=Priority.LOW)
        else:
            del data.sessions[session.id]
            deleted += 1
    if len(idle) > wanted.most and deleted:
        await ctx.submit(clean_sessions, wanted)
    return deleted
