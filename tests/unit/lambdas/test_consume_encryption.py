"""A Lambda consumer opens sealed payloads and seals results, as a worker does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headgate import App, Client, Encryption, Priority
from headgate.jobs.core.events import JobDeferred
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


def test_a_function_gives_a_job_back_that_it_can_not_open_for_now() -> None:
    function = _function()
    function.submit(function.app.types["send"], CANARY)
    function.backend.keys.fail("unwrap", ServiceUnavailable("KMS is down"))
    assert len(function.invoke()["batchItemFailures"]) == 1
    assert function.heard(JobDeferred) == 1
    function.consumer.close()
