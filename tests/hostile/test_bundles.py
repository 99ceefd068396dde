"""Strange bundles: of what a sender packs, only jobs that the queue's types take are run.

Whoever may send to a queue writes the whole message, so its jobs have any type, id and form: each
is looked at as if it came alone, and a bundle within one is no job.
"""

from __future__ import annotations

import json
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import App, Backoff, Priority, Retry, Signing
from headgate.jobs.core.events import JobCompleted, MessageUnrunnable
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.messages.bundles import MOST_JOBS, bodies_of, bundle_body
from headgate.jobs.messages.signatures import Destination, SigningKey, parted, signed
from headgate.jobs.testing import Harness
from tests.hostile.examples import hostile
from tests.unit.workers.rig import DEAD_MAIL, MAIL, Note, Rig, one_lane

PARKING = Retry(max_attempts=1, backoff=Backoff.fixed(10))
SECRET = "shop-signing"  # noqa: S105 - a name
KEY = b"sixteen letters " * 3
STRANGER = SigningKey(b"the key of somebody else, who may send")


def _job(number: int, *, job_type: str = "embed", queue: str = "mail") -> str:
    """Return the body of a job, as a client writes it."""
    envelope = {
        "v": 1,
        "id": str(UUID(int=(0x0199A2B4_0000_7000_8000 << 48) + number)),
        "type": job_type,
        "payload": {"text": str(number)},
        "queue": queue,
        "priority": "normal",
        "submitted_at": "2026-01-01T00:00:00Z",
    }
    return json.dumps(envelope, separators=(",", ":"))


OURS = st.integers(0, 9).map(_job)
"""Jobs that the queue takes, some of them twice, with one id."""

OTHERS = st.one_of(
    st.integers(10, 19).map(lambda number: _job(number, job_type="payout", queue="ledger")),
    st.integers(10, 19).map(lambda number: _job(number, job_type="gone")),
    st.sampled_from(["{}", '{"v":1}', '{"v":2,"bundle":[]}', "{" * 2_000 + "}", '{"v":1e999}']),
    st.integers(10, 19).map(lambda number: _job(number).replace('"payload"', '"p"')),
)
"""Texts that are no jobs of this queue, and look like some from afar."""


def _shop(ran: list[str]) -> Harness:
    app = App("shop", parking=PARKING)
    mail = app.queue("mail", priorities=[Priority.NORMAL])
    ledger = app.queue("ledger", priorities=[Priority.NORMAL])

    @mail.job("embed")
    def embed(note: Note) -> None:
        ran.append(note.text)

    @ledger.job("payout")
    def payout(note: Note) -> None:
        ran.append(f"paid {note.text}")

    return Harness(app)


def _letters(shop: Harness) -> list[str]:
    return [letter.body for letter in shop.sqs.messages(DEAD_MAIL)]


@hostile
@given(st.lists(OURS | OTHERS, min_size=1, max_size=8))
def test_of_a_bundle_each_job_of_the_queue_runs_and_the_rest_is_parked(bodies: list[str]) -> None:
    ran: list[str] = []
    shop = _shop(ran)
    shop.sqs.send_now(MAIL, [OutgoingMessage(body=bundle_body(bodies))])
    shop.drain()
    ours = [body for body in bodies if _type_of(body) == "embed"]
    assert sorted(ran) == sorted(json.loads(body)["payload"]["text"] for body in ours)
    assert sorted(_letters(shop)) == sorted(body for body in bodies if body not in ours)
    assert not shop.sqs.messages(MAIL)


def _type_of(body: str) -> str | None:
    """Return the type of a job that the queue takes."""
    try:
        read = json.loads(body)
    except ValueError:
        return None
    return "embed" if read.get("type") == "embed" and "payload" in read else None


@hostile
@given(
    st.lists(OURS | OTHERS, min_size=1, max_size=4),
    st.sampled_from(["[", "]", ",\n", "\n", "{", '"', "\n]}", '{"v":2,"bundle":[\n', ""]),
    st.integers(0, 400),
    st.integers(0, 3),
)
def test_a_damaged_bundle_is_read_or_parked_and_never_runs_another_type(
    bodies: list[str], inserted: str, at: int, cut: int
) -> None:
    ran: list[str] = []
    shop = _shop(ran)
    whole = bundle_body(bodies)
    body = whole[:at] + inserted + whole[at + cut :]
    shop.sqs.send_now(MAIL, [OutgoingMessage(body=body)])
    shop.drain()
    assert not any(text.startswith("paid") for text in ran)
    assert not shop.sqs.messages(MAIL)
    assert len(ran) + len(_letters(shop)) == len(bodies_of(body))


def test_a_bundle_within_a_bundle_is_no_job() -> None:
    ran: list[str] = []
    shop = _shop(ran)
    inner = bundle_body([_job(1)])
    shop.sqs.send_now(MAIL, [OutgoingMessage(body=bundle_body([_job(0), inner]))])
    shop.drain()
    assert (ran, _letters(shop)) == (["0"], [inner])


def test_a_message_of_more_jobs_than_a_bundle_has_is_parked_as_one() -> None:
    ran: list[str] = []
    shop = _shop(ran)
    body = bundle_body([_job(0)] + ["{}"] * 10_000)
    shop.sqs.send_now(MAIL, [OutgoingMessage(body=body)])
    shop.drain()
    assert (ran, _letters(shop)) == ([], [body])


@pytest.mark.looptime
async def test_a_full_bundle_of_no_jobs_ends_no_worker_and_delays_no_job() -> None:
    app, mail = one_lane(parking=PARKING)
    ran: list[str] = []

    @mail.job("embed")
    async def embed(note: Note) -> None:
        ran.append(note.text)

    rig = Rig(app)
    bodies = ["{}"] * (MOST_JOBS - 1)
    await rig.sqs.send(MAIL, [OutgoingMessage(body=bundle_body([*bodies, _job(7)]))])
    async with rig.working():
        await rig.happens(MessageUnrunnable, len(bodies))
        await rig.happens(JobCompleted)
        await rig.submit(embed, "after it")
        await rig.happens(JobCompleted, 2)
    assert ran == ["7", "after it"]
    assert rig.remaining() == 0
    assert len(rig.sqs.messages(DEAD_MAIL)) == len(bodies)


@pytest.mark.looptime
async def test_each_job_of_a_bundle_needs_a_signature_of_its_own() -> None:
    app = App("shop", signing=Signing(), parking=PARKING)
    mail = app.queue("mail", priorities=[Priority.NORMAL])
    ran: list[str] = []

    @mail.job("embed", bundle=True)
    async def embed(note: Note) -> None:
        ran.append(note.text)

    rig = Rig(app)
    rig.secrets.put(SECRET, KEY)
    await rig.submit(embed, "first", "second")
    [taken] = await rig.sqs.receive(MAIL, limit=1, wait_s=0)
    await rig.sqs.delete(MAIL, [taken.receipt])
    first, second = bodies_of(taken.body)
    cases = {
        second.replace('"text":"second"', '"text":"altered"'): "signature-invalid",
        parted(second)[0]: "unsigned",
        signed(_job(3), STRANGER, Destination(queue=MAIL)): "signature-invalid",
        signed(_job(4), SigningKey(KEY), Destination(queue="shop-mail-high")): "signature-invalid",
    }
    whole = OutgoingMessage(body=taken.body, attributes=taken.attributes)
    await rig.sqs.send(MAIL, [replace(whole, body=bundle_body([first, *cases]))])
    async with rig.working():
        await rig.happens(JobCompleted)
        await rig.happens(MessageUnrunnable, len(cases))
    assert ran == ["first"]
    assert rig.remaining() == 0
    letters = {each.body: each.attributes["Reason"] for each in rig.sqs.messages(DEAD_MAIL)}
    assert letters == cases
