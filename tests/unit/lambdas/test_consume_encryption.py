"""A Lambda consumer opens sealed payloads and seals results, as a worker does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headgate import (
    App,
    Batch,
    BatchContext,
    Client,
    Encryption,
    JobState,
    Priority,
    Retry,
    Signing,
)
from headgate.jobs.core.events import JobCompleted, JobDeferred
from headgate.jobs.errors import ServiceUnavailable
from tests.support.tape import Tape, recorded
from tests.unit.lambdas.test_consume import QUEUE, Function, Note

CANARY = "canary-91ab"


@pytest.fixture
def tape(monkeypatch: pytest.MonkeyPatch) -> Iterator[Tape]:
    with recorded(monkeypatch) as tape:
        yield tape


def _function() -> Function:
    app = App("shop", encryption=Encryption())
    queue = app.queue("mail", priorities=[Priority.NORMAL])

    @queue.job("send")
    def send(note: Note) -> str:
        return note.text

    return Function(app, QUEUE)


def test_a_function_runs_sealed_jobs_and_leaves_nothing_open(tape: Tape) -> None:
    function = _function()
    with Client(function.app, backend=function.backend) as client:
        job = client.submit(function.app.types["send"], Note(text=CANARY))
        assert function.invoke() == {"batchItemFailures": []}
        assert job.result(1) == CANARY
    assert tape.where(CANARY) == []
    function.consumer.close()


def test_a_function_leaves_no_bundle_batch_child_or_dead_letter_open(tape: Tape) -> None:
    app = App("shop", encryption=Encryption(), signing=Signing(), redact=[CANARY], records="full")
    queue = app.queue("mail", priorities=[Priority.NORMAL])

    @queue.job("send")
    def send(note: Note) -> str:
        return note.text

    @queue.job("embed", batch=Batch(5), bundle=True, retry=Retry(max_attempts=1))
    async def embed(notes: list[Note], ctx: BatchContext) -> list[str]:
        await ctx.job(notes[0]).submit(send, notes[0])
        ctx.fail(notes[0], ValueError(notes[0].text))
        return [note.text for note in notes]

    function = Function(app, QUEUE)
    with Client(app, backend=function.backend) as client:
        jobs = client.submit_many(embed, [Note(text=CANARY), Note(text=f"{CANARY}2")])
        for _ in range(3):
            function.invoke()
        assert [each.state() for each in jobs] == [JobState.DEAD, JobState.COMPLETED]
        assert len(client.dead_letters.list().letters) == 1
    assert function.heard(JobCompleted) == 2
    assert tape.where(CANARY) == []
    function.consumer.close()


def test_a_function_gives_a_job_back_that_it_can_not_open_for_now() -> None:
    function = _function()
    function.submit(function.app.types["send"], CANARY)
    function.backend.keys.fail("unwrap", ServiceUnavailable("KMS is down"))
    assert len(function.invoke()["batchItemFailures"]) == 1
    assert function.heard(JobDeferred) == 1
    function.consumer.close()
