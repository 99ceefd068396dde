"""A worker that dies at any request, with bundles in its hands: nothing is lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from headgate import Backoff, JobContext, Retry
from headgate.jobs.core.events import Events
from headgate.jobs.messages.bundles import bodies_of
from headgate.jobs.messages.envelope import parse
from headgate.workers.configuration import WorkerSettings
from headgate.workers.worker import Worker
from tests.support.backends import async_over
from tests.unit.workers.rig import DEAD_MAIL, LIMIT_S, MAIL, Note, Rig, one_lane, without_threads

pytestmark = [pytest.mark.looptime, without_threads]

TEXTS = ("a", "odd", "b", "dead", "c", "d")


class Span:
    """The life of a process, in requests and answers."""

    def __init__(self, steps: int) -> None:
        self._left = steps
        self.over = asyncio.Event()

    async def step(self) -> None:
        """Return, or never once the process is dead."""
        self._left -= 1
        if self._left < 0:
            self.over.set()
            await asyncio.Event().wait()


class Mortal:
    """A service that a process uses while it lives: it may die before each answer, or after it."""

    def __init__(self, service: Any, span: Span) -> None:
        self._service = service
        self._span = span

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._service, name)

        async def through(*args: Any, **options: Any) -> Any:
            await self._span.step()
            answer = await call(*args, **options)
            await self._span.step()
            return answer

        return through


async def _die_after(rig: Rig, steps: int) -> None:
    """Run a worker that dies after that many requests and answers."""
    before, span = asyncio.all_tasks(), Span(steps)
    backend = async_over(
        Mortal(rig.sqs, span), table=Mortal(rig.table, span), clock=rig.clock, store=rig.store
    )
    worker = Worker(rig.app, backend, WorkerSettings(), events=Events(rig.hear))
    run = asyncio.create_task(worker.run())
    await asyncio.wait_for(span.over.wait(), LIMIT_S)
    while left := asyncio.all_tasks() - before:
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=0.01)
    assert run.done()


@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("steps", range(1, 40, 3))
async def test_no_job_of_a_bundle_is_lost_wherever_its_worker_dies(steps: int, once: bool) -> None:
    app, mail = one_lane(Retry(max_attempts=2, backoff=Backoff.fixed(5)), visibility_s=12)
    ended: Counter[str] = Counter()
    failed: Counter[str] = Counter()

    @mail.job("embed", bundle=True, once=once)
    async def embed(note: Note, ctx: JobContext) -> None:
        if note.text == "dead" or (note.text == "odd" and ctx.attempt == 1):
            failed[note.text] += 1
            raise ConnectionError
        ended[note.text] += 1

    rig = Rig(app)
    ids = dict(zip(TEXTS, await rig.submit(embed, *TEXTS), strict=True))
    await _die_after(rig, steps)
    async with rig.working():
        while rig.remaining():  # noqa: ASYNC110 - nothing tells when SQS has deleted the last one
            await asyncio.sleep(5)
    letters = [message.attributes["JobId"] for message in rig.sqs.messages(DEAD_MAIL)]
    assert {*letters} == {ids["dead"]}
    assert ended.keys() == {"a", "odd", "b", "c", "d"}
    assert max(ended.values()) <= 2, "a crash repeats each job once at most"
    assert failed["dead"] <= 4
    assert len(letters) <= 2


async def test_a_bundle_that_workers_have_died_of_blames_no_job() -> None:
    app, mail = one_lane(Retry(max_attempts=5, backoff=Backoff.fixed(1)), visibility_s=12)
    ended: Counter[str] = Counter()

    @mail.job("embed", bundle=True)
    async def embed(note: Note) -> None:
        ended[note.text] += 1

    rig = Rig(app)
    await rig.submit(embed, *TEXTS)
    for _ in range(2):
        await rig.sqs.receive(MAIL, limit=10, wait_s=0)
        await asyncio.sleep(13)
    [message] = rig.sqs.messages(MAIL)
    assert len(bodies_of(message.body)) == len(TEXTS)
    async with rig.working():
        while rig.remaining():  # noqa: ASYNC110 - as above
            await asyncio.sleep(5)
    assert ended == dict.fromkeys(TEXTS, 1)
    assert {parse(body).attempts_used for body in bodies_of(message.body)} == {0}
    assert rig.sqs.messages(app.topology.quarantine_name) == []
