"""The queue of memories: what the assistant knows of each user, kept short and true."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import timedelta
from hashlib import sha256

from pydantic import BaseModel, ConfigDict, Field

from examples.assistant.clock import Clock
from examples.assistant.embedder import Embedder, NotEmbedded
from examples.assistant.store import Memory, Store
from examples.assistant.tenancy import data_of, for_each_tenant
from examples.assistant.vectors import centre, clusters
from headgate import Concurrency, Discard, JobContext, Priority, Queue, Retry, cron

memory = Queue(
    "memory",
    priorities=[Priority.HIGH, Priority.NORMAL, Priority.LOW],
    retry=Retry(max_attempts=4),
    # One tenant's night of work leaves the slots to the others.
    concurrency=Concurrency(2, key="tenant", scope="fleet"),
)


class Fact(BaseModel):
    """Something that a user has said about themselves."""

    model_config = ConfigDict(frozen=True)

    user: str
    text: str
    importance: float = Field(default=0.5, ge=0, le=1)


class Consolidation(BaseModel):
    """The likeness from which memories become one."""

    model_config = ConfigDict(frozen=True)

    threshold: float = Field(default=0.8, gt=0, le=1)
    """The least cosine between a memory and the centre of its cluster."""


class Forgetting(BaseModel):
    """The pace at which memories fade."""

    model_config = ConfigDict(frozen=True)

    half_life: timedelta = timedelta(days=90)
    floor: float = Field(default=0.05, ge=0, le=1)
    """The importance below which a memory is forgotten."""


class User(BaseModel):
    """One user of the tenant."""

    model_config = ConfigDict(frozen=True)

    user: str


class NoVector(Exception):
    """The model was busy."""


@memory.job("remember", priority=Priority.HIGH, timeout=timedelta(seconds=20))
async def remember(
    fact: Fact, store: Store, embedder: Embedder, clock: Clock, ctx: JobContext
) -> None:
    """Store a memory with its vector; twice the same job stores one."""
    [vector] = await embedder.embed([fact.text])
    if isinstance(vector, NotEmbedded):
        raise NoVector(vector.reason) if vector.transient else Discard(vector.reason)
    data_of(store, ctx).memories[ctx.id] = Memory(
        id=ctx.id,
        user=fact.user,
        text=fact.text,
        vector=vector,
        importance=fact.importance,
        at=clock.now(),
    )


@memory.job(
    "consolidate-memories",
    priority=Priority.LOW,
    timeout=timedelta(minutes=10),
    schedule=cron("0 2 * * ? *"),
    schedule_payload=Consolidation(threshold=0.75),
)
async def consolidate_memories(wanted: Consolidation, store: Store, ctx: JobContext) -> int:
    """Replace similar memories of each user by one; return how many there are fewer."""
    if ctx.tenant is None:
        await for_each_tenant(store, ctx, consolidate_memories, wanted)
        return 0
    kept = data_of(store, ctx).memories
    users = sorted({each.user for each in kept.values()})
    fewer = 0
    for done, user in enumerate(users, start=1):
        fewer += _consolidate(kept, user, wanted.threshold)
        await ctx.progress(100 * done / len(users), user, fewer=fewer)
    await ctx.submit(forget_memories, Forgetting())
    return fewer


@memory.job("forget-memories", priority=Priority.LOW, timeout=timedelta(minutes=5))
async def forget_memories(wanted: Forgetting, store: Store, clock: Clock, ctx: JobContext) -> int:
    """Drop what has faded; return how many memories."""
    kept, now = data_of(store, ctx).memories, clock.now()
    faded = [
        each.id
        for each in kept.values()
        if each.importance * math.exp2(-((now - each.at) / wanted.half_life)) < wanted.floor
    ]
    for name in faded:
        del kept[name]
    return len(faded)


@memory.job("erase-user", priority=Priority.HIGH, timeout=timedelta(minutes=1), alert_at_once=True)
async def erase_user(wanted: User, store: Store, ctx: JobContext) -> int:
    """Delete everything about a user, as they may demand; return how many things that were."""
    data = data_of(store, ctx)
    memories = [each.id for each in data.memories.values() if each.user == wanted.user]
    sessions = [each.id for each in data.sessions.values() if each.user == wanted.user]
    for name in memories:
        del data.memories[name]
    for name in sessions:
        del data.sessions[name]
    return len(memories) + len(sessions)


def merged(memories: Sequence[Memory]) -> Memory:
    """Return one memory in place of several: the most important text, at the latest time.

    Its importance is the chance that at least one of them matters, its vector their weighted
    centre. Its id follows from theirs, so that a repeated job makes the same one.
    """
    leading = max(memories, key=lambda each: (each.importance, each.id))
    ids = sorted(each.id for each in memories)
    return Memory(
        id=sha256("\n".join(ids).encode()).hexdigest()[:32],
        user=leading.user,
        text=leading.text,
        vector=centre((each.vector, each.importance or 1e-9) for each in memories),
        importance=1 - math.prod(1 - each.importance for each in memories),
        at=max(each.at for each in memories),
        made_of=tuple(ids),
    )


def _consolidate(kept: dict[str, Memory], user: str, threshold: float) -> int:
    own = [each for each in kept.values() if each.user == user]
    own.sort(key=lambda each: (-each.importance, each.id))
    fewer = 0
    for group in clusters({each.id: each.vector for each in own}, threshold):
        if len(group) > 1:
            whole = merged([kept[name] for name in group])
            kept[whole.id] = whole
            for name in group:
                del kept[name]
            fewer += len(group) - 1
    return fewer
