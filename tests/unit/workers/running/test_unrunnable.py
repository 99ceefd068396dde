"""Messages that are no job here: backed off, then parked with the reason, never just deleted."""

from __future__ import annotations

import asyncio
import json
import math
from datetime import timedelta
from typing import Any

import pytest
from pydantic import field_validator

from headgate import App, Backoff, Client, JobContext, JobState, Priority, Retry, RetryLater
from headgate.jobs.core.events import (
    JobCompleted,
    JobCrashed,
    JobDeadLettered,
    JobDeferred,
    MessageUnrunnable,
)
from headgate.jobs.core.ports.transport import OutgoingMessage, VisibilityChange
from headgate.jobs.errors import JobDead
from headgate.jobs.execution.outcome import STRANGERS
from headgate.jobs.records.items import partition
from tests.unit.workers.rig import DEAD_MAIL, MAIL, Note, Rig, one_lane

pytestmark = pytest.mark.looptime

_PARKING = Retry(max_attempts=3, backoff=Backoff.steps(10, 60))


class Fussy(Note):
    """A payload whose validator fails in an unusual way."""

    @field_validator("text")
    @classmethod
    def check(cls, text: str) -> str:
        return {"ok": "ok"}[text]


def _app(*names: str) -> App:
    app, mail = one_lane(parking=_PARKING)
    for name in names:

        @mail.job(name)
        async def run(_note: Note) -> None:
            return None

    @mail.job("fussy")
    async def fussy(_note: Fussy) -> None:
        return None

    return app


def _body(**changes: Any) -> str:
    envelope = {
        "v": 1,
        "id": "01960000-0000-7000-8000-000000000000",
        "type": "known",
        "payload": {"text": "secret"},
        "queue": "mail",
        "priority": "normal",
        "submitted_at": "2026-01-01T00:00:00Z",
    }
    return json.dumps(envelope | changes)


def _reference(key: str) -> str:
    ref = {"key": key, "sha256": "0" * 64, "size": 2, "encoding": "gzip"}
    return _body(payload=None, payload_ref=ref)


CASES = {
    "not JSON": ("hello", "unreadable", "their-name"),
    "nearly JSON": ('{"v": 1', "unreadable", "their-name"),
    "JSON, but no envelope": ('{"Records": []}', "unreadable", "their-name"),
    "JSON, but no object": ("[1, 2]", "unreadable", "their-name"),
    "a number": ("42", "unreadable", "their-name"),
    "null": ("null", "unreadable", "their-name"),
    "bytes as text": ("\u00ff\u00fe\ufffd\u0100binary\t\r\n", "unreadable", "their-name"),
    "deeply nested": ("[" * 50_000, "unreadable", "their-name"),
    "nested as deeply as can be": (
        _body(payload=json.loads("[" * 198 + "]" * 198)),
        "payload-invalid",
        "known",
    ),
    "attempts beyond counting": (_body(attempts_used=10**30), "unreadable", "their-name"),
    "fewer attempts than none": (_body(attempts_used=-1), "unreadable", "their-name"),
    "a time that is no number": (
        _body(options={"timeout_s": math.nan}),
        "unreadable",
        "their-name",
    ),
    "a time before all others": (
        _body(submitted_at="0000-01-01T00:00:00Z"),
        "unreadable",
        "their-name",
    ),
    "a group that SQS can't have": (_body(tenant={"org": "x" * 129}), "unreadable", "their-name"),
    "a key that is no payload's": (_reference("payloads/results/1"), "payload-lost", "known"),
    "a key out of the bucket": (_reference("../other"), "payload-lost", "known"),
    "an id that is none": (_body(id="42"), "unreadable", "their-name"),
    "a newer version": (_body(v=2), "newer-schema", "their-name"),
    "a newer schema": (_body(schema=7), "newer-schema", "known"),
    "control characters in the type": (
        _body(type="kn\x00wn\x1b"),
        "unknown-type",
        r"kn\x00wn\x1b",
    ),
    "an unknown type": (_body(type="from-the-future"), "unknown-type", "from-the-future"),
    "a payload of another form": (
        _body(payload={"text": ["no", "text"]}),
        "payload-invalid",
        "known",
    ),
    "a payload that is missing": (_body(payload=None), "payload-invalid", "known"),
    "a model that fails by itself": (_body(type="fussy"), "payload-invalid", "fussy"),
}


@pytest.mark.parametrize(("body", "reason", "job_type"), CASES.values(), ids=CASES)
async def test_a_message_that_can_not_be_run_is_backed_off_and_then_parked(
    body: str, reason: str, job_type: str
) -> None:
    """The body's type wins; without one the attribute's, here ``their-name``."""
    rig = Rig(_app("known"))
    await rig.sqs.send(MAIL, [OutgoingMessage(body=body, attributes={"JobType": "their-name"})])
    async with rig.working():
        said = await rig.happens(MessageUnrunnable, 3)
    assert [event.retry_in_s for event in said] == [10, 60, None]
    assert [event.receives for event in said] == [1, 2, 3]
    assert {event.reason for event in said} == {reason}
    assert "secret" not in said[0].detail
    [letter] = rig.sqs.messages(DEAD_MAIL)
    assert letter.body == body
    assert letter.attributes["Reason"] == reason
    assert letter.attributes["JobType"] == job_type
    assert letter.attributes["Attempts"] == "3"
    assert said[0].job_id in (None, letter.attributes["JobId"])
    told = None if job_type == "their-name" else json.loads(body)["type"]
    assert said[0].job_type == told
    assert rig.sqs.messages(MAIL) == []
    # What is a job of the app's is dead to its hooks, metrics and reports, too.
    is_ours = told in rig.app.types and reason not in STRANGERS and said[0].job_id is not None
    dead = rig.heard(JobDeadLettered)
    assert [(each.job_type, each.reason, each.attempt) for each in dead] == (
        [(job_type, reason, 3)] if is_ours else []
    )


async def test_it_is_never_deleted_while_the_copy_could_not_be_sent() -> None:
    rig = Rig(_app("known"))
    await rig.sqs.send(MAIL, [OutgoingMessage(body="hello")])
    rig.sqs.faults.fail_entries("send", queue=DEAD_MAIL, times=3, sender_fault=True)
    async with rig.working():
        async with asyncio.timeout(3600):
            while not rig.sqs.messages(DEAD_MAIL):
                assert len(rig.sqs.messages(MAIL)) == 1
                await asyncio.sleep(1)
    assert rig.sqs.messages(MAIL) == []


async def test_a_worker_that_knows_the_type_by_then_runs_it() -> None:
    rig = Rig(_app("known"))
    await rig.sqs.send(MAIL, [OutgoingMessage(body=_body(type="from-the-future"))])
    async with rig.working():
        await rig.happens(MessageUnrunnable)
    rig.app = _app("known", "from-the-future")
    async with rig.working():
        [done] = await rig.happens(JobCompleted)
    assert done.job_type == "from-the-future"
    assert rig.sqs.messages(DEAD_MAIL) == []


async def test_waiting_before_does_not_shorten_the_time_until_it_is_parked() -> None:
    """A message given back by a limit thirty times may meet a worker too old to know its type."""
    rig = Rig(_app("known"))
    await rig.sqs.send(MAIL, [OutgoingMessage(body=_body(type="from-the-future"))])
    for _ in range(30):
        [message] = await rig.sqs.receive(MAIL, limit=1, wait_s=0)
        back = VisibilityChange(receipt=message.receipt, timeout_s=0)
        await rig.sqs.change_visibility(MAIL, [back])
    async with rig.working():
        said = await rig.happens(MessageUnrunnable, 3)
    assert [event.retry_in_s for event in said] == [10, 60, None]
    assert [event.receives for event in said] == [31, 32, 33]


async def test_a_body_that_nobody_can_read_is_counted_too() -> None:
    rig = Rig(_app("known"))
    await rig.sqs.send(MAIL, [OutgoingMessage(body="hello")])
    [message] = await rig.sqs.receive(MAIL, limit=1, wait_s=0)
    back = VisibilityChange(receipt=message.receipt, timeout_s=0)
    await rig.sqs.change_visibility(MAIL, [back])
    async with rig.working():
        said = await rig.happens(MessageUnrunnable, 3)
    assert [event.retry_in_s for event in said] == [10, 60, None]


async def test_without_records_every_delivery_is_a_try() -> None:
    app, _ = one_lane(parking=_PARKING, records="off")
    rig = Rig(app)
    await rig.sqs.send(MAIL, [OutgoingMessage(body="hello")])
    for _ in range(2):
        [message] = await rig.sqs.receive(MAIL, limit=1, wait_s=0)
        back = VisibilityChange(receipt=message.receipt, timeout_s=0)
        await rig.sqs.change_visibility(MAIL, [back])
    async with rig.working():
        [said] = await rig.happens(MessageUnrunnable)
    assert said.retry_in_s is None


async def test_a_job_that_no_worker_could_run_is_dead_with_its_reason() -> None:
    rig = Rig(_app("known"))
    await rig.sqs.send(MAIL, [OutgoingMessage(body=_body(payload={"text": 5}))])
    async with rig.working():
        await rig.happens(MessageUnrunnable, 3)
    with Client(rig.app, backend=rig.backend) as client:
        handle = client.handle("01960000-0000-7000-8000-000000000000")
        assert handle.state() is JobState.DEAD
        assert handle.history().attempts == ()
        with pytest.raises(JobDead, match="payload-invalid"):
            handle.result(timeout=1)


async def test_a_message_in_the_wrong_queue_says_nothing_of_the_job_it_names() -> None:
    app, _ = _two_groups()
    rig = Rig(app)
    forged = _body(type="capture-payment", queue="payments")
    await rig.sqs.send("shop-uploads-normal", [OutgoingMessage(body=forged)])
    async with rig.working():
        await rig.happens(MessageUnrunnable, 3)
    job = partition("01960000-0000-7000-8000-000000000000")
    assert rig.table.sync.query(job) == []


async def test_nothing_is_parked_while_its_tries_can_not_be_read() -> None:
    rig = Rig(_app("known"))
    rig.table.missing = True
    await rig.sqs.send(MAIL, [OutgoingMessage(body="hello")])
    async with rig.working():
        said = await rig.happens(MessageUnrunnable, 5)
        assert None not in [event.retry_in_s for event in said]
        rig.table.missing = False
        while said[-1].retry_in_s is not None:
            said = await rig.happens(MessageUnrunnable, len(said) + 1)
    assert len(rig.sqs.messages(DEAD_MAIL)) == 1
    assert rig.remaining() == 0


async def test_a_try_to_read_a_message_is_no_attempt_of_its_job() -> None:
    """Nor a crash: the first delivery of a job leaves no other mark."""
    rig = Rig(_app("known"))
    await rig.sqs.send(MAIL, [OutgoingMessage(body=_body(type="from-the-future"))])
    async with rig.working():
        await rig.happens(MessageUnrunnable, 2)
    rig.app = _app("known", "from-the-future")
    async with rig.working():
        [done] = await rig.happens(JobCompleted)
    assert done.attempt == 1
    assert not rig.heard(JobCrashed)


async def test_unrunnable_messages_do_not_hold_up_the_jobs_among_them() -> None:
    rig = Rig(_app("known"))
    for _ in range(5):
        await rig.sqs.send(MAIL, [OutgoingMessage(body="hello")] * 10)
        await rig.submit(rig.app.types["known"], "job")
    async with rig.working(concurrency=1):
        await rig.happens(JobCompleted, 5)
        assert rig.clock.monotonic() < 5
        await rig.happens(MessageUnrunnable, 150)
    assert len(rig.sqs.messages(DEAD_MAIL)) == 50


# --- a type runs from its own queue --------------------------------------------------------------


def _two_groups(**accepting: Any) -> tuple[App, list[str]]:
    """Return an app with the groups ``uploads`` and ``payments``, and its runs."""
    app, ran = App("shop", parking=_PARKING), []
    priorities = [Priority.HIGH, Priority.NORMAL]
    uploads = app.queue("uploads", priorities=priorities)
    payments = app.queue("payments", priorities=priorities)

    @uploads.job("thumbnail")
    async def thumbnail(note: Note) -> None:
        ran.append(f"thumbnail {note.text}")

    @payments.job("capture-payment", **accepting)
    async def capture(note: Note, ctx: JobContext) -> None:
        ran.append(f"capture-payment {note.text} from {ctx.queue}")

    return app, ran


async def test_a_message_runs_only_from_a_queue_of_its_types_group() -> None:
    app, ran = _two_groups()
    rig = Rig(app)
    forged = _body(type="capture-payment", queue="payments", payload={"text": "999 EUR"})
    await rig.sqs.send("shop-uploads-normal", [OutgoingMessage(body=forged)])
    async with rig.working(queues=["uploads"]):
        said = await rig.happens(MessageUnrunnable, 3)

    assert ran == []
    assert [event.retry_in_s for event in said] == [10, 60, None]
    assert {event.reason for event in said} == {"wrong-queue"}
    [letter] = rig.sqs.messages("shop-uploads-normal-dlq")
    assert (letter.body, letter.attributes["Reason"]) == (forged, "wrong-queue")
    assert letter.attributes["JobType"] == "capture-payment"
    assert "'payments'" in letter.attributes["ErrorMessage"]
    assert "accepts_from=['uploads']" in letter.attributes["ErrorMessage"]


async def test_the_sender_can_not_say_which_queue_a_message_came_from() -> None:
    """A message in its type's queue runs, whatever its body says of queue and priority."""
    app, ran = _two_groups()
    rig = Rig(app)
    lies = _body(type="capture-payment", queue="uploads", priority="critical")
    await rig.sqs.send("shop-payments-high", [OutgoingMessage(body=lies)])
    async with rig.working():
        [done] = await rig.happens(JobCompleted)

    assert ran == ["capture-payment secret from payments"]
    assert (done.queue, done.priority) == ("payments", Priority.HIGH)


async def test_a_type_runs_from_the_queues_that_it_accepts() -> None:
    app, ran = _two_groups(accepts_from=["uploads"])
    rig = Rig(app)
    await rig.sqs.send("shop-uploads-high", [OutgoingMessage(body=_body(type="capture-payment"))])
    async with rig.working(queues=["uploads"]):
        [done] = await rig.happens(JobCompleted)

    assert ran == ["capture-payment secret from uploads"]
    assert done.queue == "uploads"


async def test_a_type_moved_to_another_queue_still_runs_jobs_of_the_old_one() -> None:
    """Delays, retries and spooled jobs go to the queue for which they were submitted."""
    before = App("shop", parking=_PARKING)

    @before.job("capture-payment")
    async def old(_note: Note) -> None:
        raise RetryLater(timedelta(seconds=30), "not yet")

    rig = Rig(before)
    await rig.submit(old, "waiting")
    async with rig.working():
        await rig.happens(JobDeferred)
    after, ran = App("shop", parking=_PARKING), []

    @after.queue("payments").job("capture-payment", accepts_from=["jobs"])
    async def new(note: Note) -> None:
        ran.append(note.text)

    rig.app = after
    assert {spec.group for spec in after.topology.queues} == {"jobs", "payments"}
    rig.sqs.provision(after.topology)
    async with rig.working():
        await rig.happens(JobCompleted)
    assert ran == ["waiting"]


async def test_overriding_the_priority_keeps_a_job_within_its_group() -> None:
    app, ran = _two_groups()
    rig = Rig(app)
    await rig.submit(app.types["thumbnail"], "a", priority=Priority.HIGH)
    async with rig.working(queues=["uploads"]):
        await rig.happens(JobCompleted)
    assert ran == ["thumbnail a"]
