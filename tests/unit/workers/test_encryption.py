"""Encryption through a whole worker: children, claims, spool and large payloads included."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate import AsyncClient, Encryption, JobContext, JobState
from headgate.jobs.core.concurrency import Tasks
from headgate.jobs.core.events import Events, JobAlreadyDone, JobCompleted, JobDeferred
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.definitions.sealing import seals_of
from headgate.jobs.errors import ServiceUnavailable
from headgate.jobs.execution.calling.means import Means
from headgate.jobs.execution.delivery import Delivery, Job
from headgate.jobs.execution.executor import Executor
from headgate.jobs.execution.outcome import Done
from headgate.jobs.execution.run import Run
from headgate.jobs.messages.envelope import parse
from headgate.jobs.testing import LoopClock
from tests.support.tape import Tape, recorded
from tests.unit.workers.rig import MAIL, Note, Rig, one_lane

pytestmark = pytest.mark.looptime

CANARY = "canary-5c19"
LARGE = CANARY + random.Random(0).randbytes(240_000).hex()  # noqa: S311 - fills a payload


@pytest.fixture
def tape(monkeypatch: pytest.MonkeyPatch) -> Iterator[Tape]:
    with recorded(monkeypatch) as tape:
        yield tape


async def test_a_worker_runs_sealed_jobs_and_leaves_nothing_open(tape: Tape) -> None:
    app, mail = one_lane()
    app.encryption = Encryption()

    @mail.job("send")
    async def send(note: Note, ctx: JobContext) -> str:
        await ctx.progress(50, note.text[:20], text=note.text[:20])
        return note.text

    rig = Rig(app)
    rig.subscribers.append(tape)
    async with rig.working(), AsyncClient(app, backend=rig.backend) as client:
        small = await client.submit(send, Note(text=CANARY))
        large = await client.submit(send, Note(text=LARGE))
        assert await small.result(timeout=60) == CANARY
        assert await large.result(timeout=60) == LARGE
        progress = await small.progress()
    assert progress is not None
    assert (progress.note, progress.data) == (CANARY, {"text": CANARY})
    assert {"OutgoingMessage", "Item", "object"} <= tape.kinds()
    assert tape.where(CANARY) == []


async def test_a_job_is_held_back_while_kms_is_away_and_counts_no_attempt() -> None:
    app, mail = one_lane()
    app.encryption = Encryption()
    attempts: list[int] = []

    @mail.job("send")
    async def send(note: Note, ctx: JobContext) -> None:
        attempts.append(ctx.attempt)
        assert note.text == CANARY

    rig = Rig(app)
    rig.backend.keys.fail("unwrap", ServiceUnavailable("KMS is down"), times=2)
    await rig.submit(send, CANARY)
    async with rig.working():
        await rig.happens(JobCompleted)
    assert len(rig.heard(JobDeferred)) == 2
    assert attempts == [1]


async def test_the_claim_of_a_job_that_is_done_tells_its_result_sealed(tape: Tape) -> None:
    app, mail = one_lane()
    app.encryption = Encryption()

    @mail.job("once", once=True)
    async def once(note: Note) -> str:
        return note.text

    rig = Rig(app)
    async with AsyncClient(app, backend=rig.backend) as client:
        job = await client.submit(once, Note(text=CANARY))
        [message] = rig.sqs.messages(MAIL)
        async with rig.working():
            await rig.happens(JobCompleted)
            await rig.sqs.send(MAIL, [OutgoingMessage(body=message.body)])
            await rig.happens(JobAlreadyDone)
        assert await job.result(timeout=60) == CANARY
        assert await job.state() is JobState.COMPLETED
    assert len(rig.heard(JobCompleted)) == 1
    assert tape.where(CANARY) == []


def _content(folder: Path) -> bytes:
    return b"".join(each.read_bytes() for each in folder.iterdir())


async def test_a_spool_holds_sealed_jobs_and_refuses_what_it_can_not_seal(
    tmp_path: Path, tape: Tape
) -> None:
    app, mail = one_lane()
    app.encryption = Encryption(max_messages=1)
    send = mail.define("send", Note)
    rig = Rig(app)
    path = tmp_path / "spool"
    async with AsyncClient(app, backend=rig.backend, spool=path) as client:
        rig.sqs.faults.raise_on("send", ServiceUnavailable("SQS is down"), times=1)
        await client.submit(send, Note(text=CANARY))
        kept = _content(tmp_path)
        rig.backend.keys.fail("generate", ServiceUnavailable("KMS is down"))
        with pytest.raises(ServiceUnavailable, match="KMS is down"):
            await client.submit(send, Note(text=CANARY))
    assert b'"sealed"' in kept
    assert CANARY.encode() not in kept
    assert tape.where(CANARY) == []


async def test_a_fallback_in_place_needs_no_key() -> None:
    app, mail = one_lane()
    app.encryption = Encryption(required=True)
    ran: list[str] = []

    @mail.job("send")
    async def send(note: Note) -> None:
        ran.append(note.text)

    rig = Rig(app)
    async with AsyncClient(app, backend=rig.backend, fallback="inline") as client:
        rig.backend.keys.fail("generate", ServiceUnavailable("KMS is down"))
        await client.submit(send, Note(text="no key"))
        rig.sqs.faults.raise_on("send", ServiceUnavailable("SQS is down"), times=1)
        await client.submit(send, Note(text="no queue"))
    assert ran == ["no key", "no queue"]
    assert isinstance(rig.clock, LoopClock)


async def test_a_child_process_is_handed_the_payload_open() -> None:
    app, mail = one_lane()
    app.encryption = Encryption()
    handed: list[str] = []

    @mail.job("send", isolation="process")
    async def send(note: Note) -> None: ...

    async def in_child(_job: Job, body: str, _ctx: JobContext) -> None:
        handed.append(parse(body).payload["text"])

    rig = Rig(app)
    await rig.submit(send, CANARY)
    [message] = await rig.sqs.receive(MAIL, limit=1, wait_s=0)
    means = Means(
        app=app,
        clock=rig.clock,
        events=Events(),
        call_isolated=in_child,
        seals=seals_of(app, rig.backend.async_ports.keys, Tasks()),
    )
    [queue] = app.topology.queues
    delivery = Delivery(message=message, queue=queue, received_at=rig.clock.monotonic())
    verdict = await Run(Executor(means), delivery).verdict()
    assert isinstance(verdict.outcome, Done)
    assert handed == [CANARY]
    assert CANARY not in message.body
