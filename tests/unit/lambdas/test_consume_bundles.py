"""Bundles in a function: Lambda deletes one once each job is done, or in another message."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from headgate import App, Backoff, DoNotRetry, JobContext, Retry
from headgate.events import JobCompleted, JobDeadLettered, SettlementFailed
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.errors import ServiceUnavailable
from headgate.jobs.messages.bundles import bodies_of
from headgate.jobs.messages.envelope import parse
from headgate.jobs.testing import StoredMessage
from tests.support.functions import Function
from tests.unit.workers.rig import DEAD_MAIL, MAIL, Note, one_lane

RETRY = Retry(max_attempts=3, backoff=Backoff.fixed(20))


class Shop:
    """An app with a type whose jobs are bundled, and the runs of its handler."""

    def __init__(self, play: Callable[[Note, JobContext], Any], **options: Any) -> None:
        self.app: App
        self.app, mail = one_lane(RETRY)
        self.runs: Counter[tuple[str, int]] = Counter()

        @mail.job("embed", bundle=True, **options)
        async def embed(note: Note, ctx: JobContext) -> None:
            self.runs[note.text, ctx.attempt] += 1
            await play(note, ctx)

        self.embed: JobType[Note, None] = embed
        self.function = Function(self.app, queue=MAIL)

    def submit(self, texts: str) -> list[str]:
        return self.function.submit(self.embed, *(Note(text=text) for text in texts))

    def waiting(self) -> list[list[str]]:
        return [_texts(message) for message in self.function.messages()]


def _texts(message: StoredMessage) -> list[str]:
    return [parse(body).payload["text"] for body in bodies_of(message.body)]


async def _works(_note: Note, _ctx: JobContext) -> None: ...


async def _fails_once(note: Note, ctx: JobContext) -> None:
    if note.text == "x" and ctx.attempt == 1:
        raise ConnectionError
    if note.text == "y":
        raise DoNotRetry("never")


def test_a_bundle_whose_jobs_are_done_is_left_to_lambda_to_delete() -> None:
    shop = Shop(_works)
    shop.submit("abc")
    assert shop.function.invoke() == {"batchItemFailures": []}
    assert shop.runs == {("a", 1): 1, ("b", 1): 1, ("c", 1): 1}
    assert shop.waiting() == []
    shop.function.close()


def test_what_fails_goes_on_alone_and_the_bundle_does_not_fail() -> None:
    shop = Shop(_fails_once)
    ids = shop.submit("axyb")
    assert shop.function.invoke() == {"batchItemFailures": []}
    assert shop.waiting() == [["x"]]
    [letter] = shop.function.messages(DEAD_MAIL)
    assert letter.attributes["JobId"] == ids[2]
    shop.function.drain()
    assert shop.runs == {("a", 1): 1, ("x", 1): 1, ("x", 2): 1, ("y", 1): 1, ("b", 1): 1}
    assert shop.function.heard(JobCompleted) == 3
    assert shop.function.heard(JobDeadLettered) == 1
    shop.function.close()


def test_a_bundle_of_which_something_could_not_be_sent_fails_as_a_whole() -> None:
    shop = Shop(_fails_once)
    shop.submit("ax")
    shop.function.sqs.faults.raise_on("send", ServiceUnavailable("down"), times=10)
    response = shop.function.invoke()
    assert response is not None
    assert len(response["batchItemFailures"]) == 1
    assert shop.waiting() == [["a", "x"]]
    assert shop.function.heard(SettlementFailed)
    shop.function.sqs.faults.clear()
    shop.function.drain()
    assert shop.runs["a", 1] == 2
    assert shop.function.heard(JobCompleted) == 3
    shop.function.close()


def test_after_a_death_each_job_goes_on_alone() -> None:
    async def dies_once(note: Note, _ctx: JobContext) -> None:
        if note.text == "x" and not shop.function.deaths:
            await shop.function.loop.die()

    shop = Shop(dies_once)
    shop.submit("axb")
    assert shop.function.invoke() is None
    shop.function.clock.advance(60)
    assert shop.function.invoke() == {"batchItemFailures": []}
    assert sorted(shop.waiting()) == [["a"], ["b"], ["x"]]
    shop.function.drain()
    assert shop.runs["x", 1] == 2
    assert shop.waiting() == []
    shop.function.close()


@pytest.mark.parametrize("dies_after", [*range(5, 120, 9)])
def test_no_job_of_a_bundle_is_lost_wherever_the_function_dies(dies_after: int) -> None:
    shop = Shop(_fails_once, once=True)
    shop.submit("axb")
    shop.function.invoke(dies_after=dies_after)
    shop.function.clock.advance(60)
    shop.function.drain()
    done = {text for text, _ in shop.runs}
    assert done == {"a", "x", "b"}
    assert shop.runs["a", 1] <= 2  # twice only if it was cut off
    shop.function.close()


def test_what_there_is_no_time_for_goes_on_alone() -> None:
    async def slow(_note: Note, _ctx: JobContext) -> None:
        await asyncio.sleep(20)

    shop = Shop(slow)
    shop.function.options = {"concurrency": 1}
    shop.submit("abc")
    assert shop.function.invoke() == {"batchItemFailures": []}
    assert shop.function.heard(JobCompleted) == 1
    assert sorted(shop.waiting()) == [["b"], ["c"]]
    shop.function.close()
