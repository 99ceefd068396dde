"""Shared resources: opened before the first job, injected by type, closed after the last."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from headgate import App, JobContext
from headgate.jobs.core.events import JobCompleted
from headgate.jobs.errors import ConfigurationError
from headgate.jobs.testing import Harness
from tests.unit.workers.rig import Note, Rig, one_lane

pytestmark = pytest.mark.looptime


class Pool:
    """Stands for a database pool."""

    def __init__(self) -> None:
        self.open = True
        self.uses: list[str] = []


async def refused() -> Pool:
    raise ConnectionRefusedError("no database")


class Http:
    """Stands for an HTTP client."""


async def test_each_handler_gets_the_one_open_resource_of_each_type_that_it_names() -> None:
    app, queue = one_lane()
    seen: list[object] = []

    @app.resource
    async def pool() -> AsyncIterator[Pool]:
        yield Pool()

    @app.resource
    def http() -> Iterator[Http]:
        yield Http()

    @queue.job("async-job")
    async def asynchronous(_note: Note, ctx: JobContext, db: Pool, *, client: Http) -> None:
        seen.extend((db, client, ctx.type))

    @queue.job("plain-job")
    def plain(_note: Note, db: Pool) -> None:
        seen.append(db)

    rig = Rig(app)
    await rig.submit(asynchronous)
    await rig.submit(plain)
    async with rig.working():
        await rig.happens(JobCompleted, 2)
    pools = [each for each in seen if isinstance(each, Pool)]
    assert len(pools) == 2
    assert pools[0] is pools[1]
    assert "async-job" in seen


async def test_resources_are_closed_in_reverse_after_the_last_job_has_ended() -> None:
    app, queue = one_lane()
    told: list[str] = []
    entered = asyncio.Event()

    @app.resource
    async def first() -> AsyncIterator[Pool]:
        told.append("open pool")
        yield Pool()
        told.append("close pool")

    @app.resource
    async def second() -> AsyncIterator[Http]:
        told.append("open http")
        yield Http()
        told.append("close http")

    @queue.job("slow")
    async def slow(_note: Note, _db: Pool) -> None:
        entered.set()
        await asyncio.sleep(5)
        told.append("job ended")

    rig = Rig(app)
    await rig.submit(slow)
    async with rig.working():
        await entered.wait()
    assert told == ["open pool", "open http", "job ended", "close http", "close pool"]


async def test_a_resource_that_does_not_open_ends_the_worker_before_it_receives() -> None:
    app, queue = one_lane()

    @app.resource
    async def broken() -> AsyncIterator[Pool]:
        yield await refused()

    @queue.job("send")
    async def send(_note: Note, _db: Pool) -> None: ...

    rig = Rig(app)
    await rig.submit(send)
    with pytest.raises(ConnectionRefusedError):
        await rig.worker().run()
    assert rig.calls("receive") == 0


async def test_a_handler_with_a_missing_resource_is_refused_before_work_begins() -> None:
    app, queue = one_lane()

    @app.resource
    async def http() -> AsyncIterator[Http]:
        yield Http()

    @queue.job("send")
    async def send(_note: Note, _db: Pool) -> None: ...

    with pytest.raises(ConfigurationError, match=r"needs a Pool.*it has: Http"):
        Rig(app).worker()


def test_a_resource_must_say_what_it_yields_and_there_is_one_of_a_type() -> None:
    app = App("shop")

    @app.resource
    async def one() -> AsyncIterator[Pool]:
        yield Pool()

    with pytest.raises(ConfigurationError, match="two resources are of the type Pool"):

        @app.resource
        async def two() -> AsyncIterator[Pool]:
            yield Pool()

    wrong: Any = Pool
    with pytest.raises(ConfigurationError, match="yields once and says what"):
        app.resource(wrong)


def test_the_harness_opens_and_closes_resources_as_a_worker_does() -> None:
    app = App("shop")
    pools: list[Pool] = []

    @app.resource
    def pool() -> Iterator[Pool]:
        pools.append(Pool())
        yield pools[-1]
        pools[-1].open = False

    @app.job("send")
    def send(note: Note, db: Pool) -> None:
        assert db.open
        db.uses.append(note.text)

    jobs = Harness(app)
    jobs.client.submit_many(send, [Note(text="a"), Note(text="b")])
    jobs.drain()
    [used] = pools
    assert used.uses == ["a", "b"]
    assert not used.open
