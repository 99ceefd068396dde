"""A job's id is its sender's choice: a job of another type that has it changes nothing.

The attack: a message of a type that its sender may run, with the id of another's job. It must not
acknowledge, hold back or speak for that job, whether it comes before or after it.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from headgate import App, Client, JobHandle, Priority
from headgate.jobs.core.events import ItemsSkipped, JobAlreadyDone, JobCompleted
from headgate.jobs.core.ports.table import Item
from headgate.jobs.definitions.queue import Queue
from headgate.jobs.errors import JobTypeWrong, ResultInvalid, ResultTimeout
from headgate.jobs.execution.calling.claim_items import CLAIM, ClaimSubject, Ended
from headgate.jobs.execution.calling.claims import Claim
from headgate.jobs.execution.outcome import Done
from headgate.jobs.messages.envelope import VERSION, Envelope
from headgate.jobs.messages.job_ids import derived_job_id
from headgate.jobs.messages.large_payloads import parcel
from headgate.jobs.messages.outgoing import message_of
from headgate.jobs.records.items import partition
from headgate.jobs.records.result_keys import result_key
from headgate.jobs.records.state import JobState
from headgate.jobs.testing import MemoryBackend, MemoryTable, VirtualClock
from tests.support.functions import Function
from tests.support.story import JOB, START, Story
from tests.unit.workers.rig import MAIL, Note, Rig, one_lane

pytestmark = pytest.mark.looptime

PAYOUT = derived_job_id(datetime(2026, 3, 1, 8, tzinfo=UTC), "arn:aws:scheduler:…:schedule/payout")
"""The id of a schedule's job, which anyone who knows the schedule can compute."""


def _app(ran: list[str]) -> tuple[App, Queue]:
    app, mail = one_lane()

    @mail.job("forge", once=True)
    async def forge(_note: Note) -> str:
        ran.append("forge")
        return "forged"

    @mail.job("payout", once=True)
    async def payout(_note: Note) -> str:
        ran.append("payout")
        return "paid"

    return app, mail


def _message(job_type: str) -> Any:
    envelope = Envelope(
        v=VERSION,
        id=PAYOUT,
        type=job_type,
        schema=1,
        payload={},
        queue="mail",
        priority=Priority.NORMAL,
        submitted_at=START,
    )
    return message_of(envelope)


@pytest.mark.parametrize("order", [("forge", "payout"), ("payout", "forge")], ids=str)
async def test_jobs_of_two_types_with_one_id_both_run_and_neither_ends_the_other(
    order: tuple[str, str],
) -> None:
    ran: list[str] = []
    app, _ = _app(ran)
    rig = Rig(app)
    async with rig.working():
        for place, job_type in enumerate(order, start=1):
            await rig.sqs.send(MAIL, [_message(job_type)])
            await rig.happens(JobCompleted, place)
        for place, job_type in enumerate(order, start=1):  # each is still done, and known to be
            await rig.sqs.send(MAIL, [_message(job_type)])
            await rig.happens(JobAlreadyDone, place)
    assert ran == [*order]
    skipped = rig.heard(ItemsSkipped)
    assert {(each.kind, each.job_id) for each in skipped} == {("claim", str(PAYOUT))}
    backend = MemoryBackend(app, clock=rig.clock)
    backend.table = rig.table
    with Client(app, backend=backend) as client:
        for job_type, result in (("forge", "forged"), ("payout", "paid")):
            assert client.handle(str(PAYOUT), app.types[job_type]).result(timeout=1) == result
        with pytest.raises(JobTypeWrong, match="Name the type"):
            client.handle(str(PAYOUT)).result(timeout=1)


def test_a_function_runs_both_too() -> None:
    ran: list[str] = []
    app, _ = _app(ran)
    function = Function(app, queue=MAIL)
    for job_type in ("forge", "payout", "payout"):
        asyncio.run(function.sqs.send(MAIL, [_message(job_type)]))
        assert function.invoke() == {"batchItemFailures": []}
    function.close()
    assert ran == ["forge", "payout"]
    assert function.heard(JobAlreadyDone) == 1


# --- claims --------------------------------------------------------------------------------------


def _claim(table: MemoryTable, clock: Any, job_type: str, *, queue: str = "mail") -> Claim:
    return Claim(
        table,
        JOB,
        ClaimSubject(job_type=job_type, queue=queue),
        runner=f"{job_type}@{queue}/{id(object())}",
        lease_s=20,
        keep=timedelta(days=4),
        outstanding=timedelta(days=30),
        clock=clock,
    )


@pytest.mark.parametrize(("job_type", "queue"), [("forge", "mail"), ("payout", "uploads")])
async def test_another_types_or_queues_claim_holds_nothing_back(job_type: str, queue: str) -> None:
    clock = VirtualClock(START)
    table = MemoryTable(clock)
    other = _claim(table, clock, job_type, queue=queue)
    assert await other.take() is None
    mine = _claim(table, clock, "payout")
    assert await mine.take() is None
    assert mine.is_aside
    assert await other.renew()  # it goes on, although its place was written to
    assert await other.finish(Done(result="forged"))
    assert await mine.renew()
    assert await mine.finish(Done(result="paid"))
    assert await _claim(table, clock, "payout").take() == Ended(outcome=Done(result="paid"))


async def test_a_job_that_stepped_aside_stays_done_after_the_other_claim() -> None:
    clock = VirtualClock(START)
    table = MemoryTable(clock)
    other = _claim(table, clock, "forge")
    assert await other.take() is None
    assert await other.finish(Done())  # kept for four days
    mine = _claim(table, clock, "payout")
    clock.advance(timedelta(days=3))
    assert await mine.take() is None
    assert await mine.finish(Done())  # until the seventh
    clock.advance(timedelta(days=3))
    assert await _claim(table, clock, "payout").take() == Ended(outcome=Done())


async def test_an_others_later_write_doesnt_give_the_place_up_sooner() -> None:
    clock = VirtualClock(START)
    table = MemoryTable(clock)
    other = _claim(table, clock, "forge")
    assert await other.take() is None
    clock.advance(timedelta(seconds=10))
    assert await _claim(table, clock, "payout").take() is None
    extended = await table.get(partition(JOB), CLAIM)
    assert await other.finish(Done())
    finished = await table.get(partition(JOB), CLAIM)
    assert extended is not None
    assert finished is not None
    assert finished.expires_at == extended.expires_at


async def test_a_claim_of_an_earlier_version_counts_for_any_type() -> None:
    clock = VirtualClock(START)
    table = MemoryTable(clock)
    before = Item(pk=partition(JOB), sk=CLAIM, data={"runner": "old", "state": "done"}, version=3)
    await table.put([before])
    mine = _claim(table, clock, "payout")
    assert await mine.take() == Ended(outcome=Done())
    assert not mine.is_aside


# --- records and results -------------------------------------------------------------------------


def _handle(*stories: Story, typed: str | None = "payout") -> JobHandle[Any]:
    app, _ = _app([])
    backend = MemoryBackend(app, clock=VirtualClock(START))
    for story in stories:
        asyncio.run(backend.table.put(story.items))
    client = Client(app, backend=backend)
    return client.handle(JOB, app.types[typed]) if typed else client.handle(JOB)


FORGED = Story(job_type="forge").run(1, "completed", result="forged")


def test_a_typed_handle_refuses_another_types_result() -> None:
    with pytest.raises(JobTypeWrong, match="is of the type 'forge', not of 'payout'") as raised:
        _handle(FORGED).result(timeout=1)
    assert raised.value.found == ("forge",)
    with pytest.raises(JobTypeWrong):
        _handle(FORGED).wait(timeout=1)
    assert _handle(FORGED).state() is JobState.UNKNOWN


def test_a_typed_handle_goes_on_waiting_for_its_own_job() -> None:
    own = Story(job_type="payout").run(2, "started", message="m-2")
    with pytest.raises(ResultTimeout):
        _handle(FORGED, own).result(timeout=1)
    own.run(3, "completed", message="m-2", result="paid")
    assert _handle(FORGED, own).result(timeout=1) == "paid"
    record = _handle(FORGED, own).history()
    assert (record.type, record.other_types) == ("payout", ("forge",))


def test_a_forged_replay_adds_nothing_to_a_job_that_has_ended_for_good() -> None:
    own = Story(job_type="payout").run(1, "completed", result="paid")
    forged = Story(job_type="forge").replayed(2, former="payout")
    forged.run(3, "completed", message="m-2", result="forged", source="replay:r-1")
    assert _handle(own, forged).result(timeout=1) == "paid"
    assert _handle(own, forged).history().other_types == ("forge",)


def test_a_forged_replay_turns_no_submitted_job_into_anothers() -> None:
    own = Story(job_type="payout").run(1, "completed", result="paid")
    forged = Story(job_type="payout").replayed(2, former="forge")
    forger = Story(job_type="forge").run(3, "dead", message="m-2")
    assert _handle(own, forged, forger).result(timeout=1) == "paid"
    assert _handle(own, forged, forger).history().other_types == ("forge",)


def test_progress_of_another_type_is_not_this_jobs() -> None:
    forged = Story(job_type="forge").progress(1, 99, "nearly done")
    assert _handle(forged).progress() is None


def test_two_types_dont_share_the_object_of_a_large_result() -> None:
    assert result_key(JOB, "forge") != result_key(JOB, "payout")


@pytest.mark.parametrize(
    ("key", "is_read"),
    [
        (f"payloads/results/{JOB}", True),  # as earlier versions named it
        (result_key(JOB, "payout"), True),
        (result_key(JOB, "forge"), False),
        (result_key(str(UUID(int=5)), "payout"), False),
        (f"payloads/{JOB}", False),
        ("dead-letters/x", False),
    ],
)
def test_only_a_jobs_own_object_is_read_as_its_result(key: str, is_read: bool) -> None:
    app, _ = _app([])
    backend = MemoryBackend(app, clock=VirtualClock(START))
    kept = parcel(key, "paid")
    asyncio.run(backend.store.put(key, kept.packed()))
    story = Story(job_type="payout").run(1, "completed", result_ref=kept.ref.model_dump())
    asyncio.run(backend.table.put(story.items))
    with Client(app, backend=backend) as client:
        handle = client.handle(JOB, app.types["payout"])
        if is_read:
            assert handle.result(timeout=1) == "paid"
        else:
            with pytest.raises(ResultInvalid, match="not its result"):
                handle.result(timeout=1)
