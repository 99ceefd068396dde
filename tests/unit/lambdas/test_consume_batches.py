"""Batch handlers in a function: the messages of one invocation share calls."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pydantic import BaseModel

from headgate import (
    App,
    Backoff,
    Batch,
    BatchContext,
    Client,
    Encryption,
    JobContext,
    Priority,
    Retry,
)
from headgate.jobs.core.events import (
    JobCancelled,
    JobCompleted,
    JobFailed,
    JobInterrupted,
    JobQuarantined,
)
from headgate.jobs.core.naming import PAYLOADS
from tests.support.functions import Function

QUEUE = "shop-mail-normal"


class Note(BaseModel):
    text: str = ""


@contextmanager
def function_of(
    handler: Callable[..., Any], batch: Batch, *, app: App | None = None, **options: Any
) -> Iterator[Function]:
    """Return a function whose one type runs that batch handler; other fields are `Function`'s."""
    app = app or App("shop")
    queue = app.queue(
        "mail",
        priorities=[Priority.NORMAL],
        retry=Retry(max_attempts=5, backoff=Backoff.fixed(10)),
    )
    queue.job("send", batch=batch)(handler)
    deployed = Function(app, QUEUE, **options)
    try:
        yield deployed
    finally:
        deployed.close()


def submitted(deployed: Function, *texts: str) -> list[str]:
    return deployed.submit(deployed.app.types["send"], *(Note(text=text) for text in texts))


def heard(deployed: Function, kind: type[Any]) -> list[str]:
    return [event.job_id for event in deployed.events if isinstance(event, kind)]


def test_the_messages_of_an_invocation_share_calls_and_slots() -> None:
    calls: list[list[str]] = []

    async def send(items: list[Note], _ctx: BatchContext) -> None:
        calls.append([item.text for item in items])

    with function_of(send, Batch(4), options={"concurrency": 1}) as deployed:
        ids = submitted(deployed, *"abcdefghij")
        deployed.invoke()
        assert [len(each) for each in calls] == [4, 4, 2]
        assert sorted(heard(deployed, JobCompleted)) == sorted(ids)
        assert not deployed.messages(QUEUE)


@pytest.mark.parametrize(
    ("options", "length"),
    [({"encryption": Encryption()}, 1), ({"max_message_bytes": 2_000}, 3_000)],
    ids=["sealed", "in the bucket"],
)
def test_jobs_whose_payloads_are_read_late_share_calls_too(
    options: dict[str, Any], length: int
) -> None:
    calls: list[str] = []

    async def send(items: list[Note], _ctx: BatchContext) -> None:
        calls.append("".join(item.text[0] for item in items))

    with function_of(send, Batch(4), app=App("shop", **options)) as deployed:
        ids = submitted(deployed, *(letter * length for letter in "abcdef"))
        deployed.invoke()
        # Both run at once, and the one begins first whose payloads are there first.
        assert sorted(calls) == ["abcd", "ef"]
        assert sorted(heard(deployed, JobCompleted)) == sorted(ids)


def test_a_job_whose_payload_is_lost_leaves_the_others_their_call() -> None:
    calls: list[str] = []

    async def send(items: list[Note], _ctx: BatchContext) -> None:
        calls.append("".join(item.text[0] for item in items))

    with function_of(send, Batch(4), app=App("shop", max_message_bytes=2_000)) as deployed:
        _, lost, _ = submitted(deployed, *(letter * 3_000 for letter in "abc"))
        del deployed.backend.store.objects[f"{PAYLOADS}{lost}"]
        answer = deployed.invoke()
        assert calls == ["ac"]
        assert answer is not None
        assert len(answer["batchItemFailures"]) == 1, "the lost one comes again, and is parked then"


def test_sealed_jobs_that_are_grouped_by_their_payloads_run_alone() -> None:
    calls: list[str] = []

    async def send(items: list[Note], _ctx: BatchContext) -> None:
        calls.append("".join(item.text for item in items))

    grouped = Batch(4, group_by=str)
    with function_of(send, grouped, app=App("shop", encryption=Encryption())) as deployed:
        submitted(deployed, *"aab")
        deployed.invoke()
        assert sorted(calls) == ["a", "a", "b"]


def test_what_failed_stays_and_is_retried_alone() -> None:
    calls: list[list[str]] = []

    async def send(items: list[Note], ctx: BatchContext) -> None:
        calls.append([item.text for item in items])
        for item, job in zip(items, ctx.jobs, strict=True):
            if item.text in "bc" and job.attempt < 3:
                ctx.fail(item, ConnectionError("not yet"))

    with function_of(send, Batch(10)) as deployed:
        submitted(deployed, *"abcd")
        deployed.drain()
    assert calls[0] == ["a", "b", "c", "d"]
    assert sorted(calls[1:]) == [["b"], ["b"], ["c"], ["c"]]


def test_a_batch_that_kills_its_function_is_run_apart_and_only_the_killer_is_blamed() -> None:
    runs: Counter[str] = Counter()

    async def send(items: list[Note], _ctx: BatchContext) -> None:
        runs.update(item.text for item in items)
        if any(item.text == "kills" for item in items):
            await asyncio.sleep(1)
            await deployed.loop.die()

    with function_of(send, Batch(10)) as deployed:
        ids = submitted(deployed, "a", "kills", "b", "c")
        deployed.drain()
        assert heard(deployed, JobQuarantined) == [ids[1]]
        assert sorted(set(heard(deployed, JobCompleted))) == sorted({ids[0], *ids[2:]})


def test_a_batch_without_time_is_cut_together_and_keeps_what_was_done() -> None:
    async def send(items: list[Note], ctx: BatchContext) -> None:
        ctx.complete(items[0])
        await asyncio.sleep(3600)

    with function_of(send, Batch(10), timeout_s=30) as deployed:
        ids = submitted(deployed, *"abc")
        deployed.invoke()
        assert heard(deployed, JobCompleted) == ids[:1]
        assert sorted(heard(deployed, JobInterrupted)) == sorted(ids[1:])


def test_a_call_that_stops_with_a_cancelled_job_costs_its_neighbours_nothing() -> None:
    calls: list[list[str]] = []
    attempts: set[int] = set()

    async def send(items: list[Note], ctx: BatchContext) -> None:
        calls.append([item.text for item in items])
        attempts.update(job.attempt for job in ctx.jobs)
        if len(calls) == 1:
            ctx.complete(items[1])
            await _stops(ctx.jobs[0])

    with function_of(send, Batch(10)) as deployed:
        ids = submitted(deployed, *"abcd")
        with Client(deployed.app, backend=deployed.backend) as client:
            client.handle(ids[0]).cancel("a mistake")
        deployed.table.faults.slow_down("page", by=1.5)  # so it is known once the job runs
        deployed.drain()
        assert heard(deployed, JobCancelled) == ids[:1]
        assert sorted(heard(deployed, JobInterrupted)) == sorted(ids[2:])
        assert sorted(heard(deployed, JobCompleted)) == sorted(ids[1:])
        assert not heard(deployed, JobFailed)
    assert calls[0] == ["a", "b", "c", "d"]
    assert sorted(text for each in calls[1:] for text in each) == ["c", "d"]
    assert attempts == {1}


async def _stops(job: JobContext) -> None:
    while True:
        job.raise_if_cancelled()
        await asyncio.sleep(0.1)
