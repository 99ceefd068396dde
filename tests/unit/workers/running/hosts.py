"""The three hosts that run an app's jobs in tests, for guarantees that hold in each of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import looptime

from headgate import App, Client
from headgate.events import Event, JobCompleted, JobDeadLettered, JobDiscarded
from headgate.jobs.core.events import Events
from headgate.jobs.definitions.job_type import JobType
from headgate.lambdas.consume import Consumer, consumer
from headgate.testing import Harness, MemoryBackend, MemorySqs, VirtualClock
from tests.support.functions import Invocation, record_of
from tests.unit.workers.rig import MAIL, Note, Rig

Host = Callable[[App, JobType[Any, Any], Sequence[str]], Sequence[Event]]
"""Runs one job per text to its end, retries included, and returns all events."""

_ENDS: Any = (JobCompleted, JobDeadLettered, JobDiscarded)


def by_worker(app: App, job: JobType[Any, Any], texts: Sequence[str]) -> Sequence[Event]:
    """Run jobs in a worker, in virtual time."""

    async def work() -> Sequence[Event]:
        rig = Rig(app)
        await rig.submit(job, *texts)
        async with rig.working():
            await rig.happens(_ENDS, len(texts))
        return rig.events

    with asyncio.Runner(loop_factory=looptime.new_event_loop) as runner:
        return runner.run(work())


def by_function(app: App, job: JobType[Any, Any], texts: Sequence[str]) -> Sequence[Event]:
    """Run jobs in a warm Lambda function, a batch at a time, in virtual time."""
    backend, events = MemoryBackend(app), list[Event]()
    with Client(app, backend=backend) as client:
        client.submit_many(job, [Note(text=text) for text in texts])
    made = consumer(app, backend=backend, events=Events(events.append))
    made._runner = asyncio.Runner(loop_factory=looptime.new_event_loop)
    try:
        while backend.sqs.messages(MAIL):
            _invoke(made, backend.sqs, backend.clock)
    finally:
        made.close()
    return events


def _invoke(made: Consumer, sqs: MemorySqs, clock: VirtualClock) -> None:
    received = sqs.sync.receive(MAIL, limit=10, wait_s=0)
    if not received:
        clock.advance(1)
        return
    context = Invocation(clock, clock.monotonic() + 30)
    answer = made({"Records": [record_of(each, MAIL) for each in received]}, context)
    stay = {each["itemIdentifier"] for each in answer["batchItemFailures"]}
    done = [each.receipt for each in received if each.message_id not in stay]
    if done:
        assert asyncio.run(sqs.delete(MAIL, done)) == []


def by_harness(app: App, job: JobType[Any, Any], texts: Sequence[str]) -> Sequence[Event]:
    """Run jobs in the harness, whose timeouts are virtual, too."""
    jobs = Harness(app)
    jobs.client.submit_many(job, [Note(text=text) for text in texts])
    with asyncio.Runner(loop_factory=looptime.new_event_loop) as runner:
        runner.run(jobs.adrain())
    return jobs.events


HOSTS = {"worker": by_worker, "function": by_function, "harness": by_harness}
