"""Signed messages through a worker: strangers' are parked, and every way of our own is signed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from headgate import (
    Accepts,
    App,
    AsyncClient,
    Backoff,
    JobContext,
    Priority,
    Retry,
    RetryLater,
    Signing,
)
from headgate.errors import ServiceUnavailable
from headgate.jobs.core.events import (
    JobCompleted,
    JobRetryScheduled,
    JobStarted,
    MessageUnrunnable,
    SettlementFailed,
    SigningKeysFailed,
)
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.definitions.queue import Queue
from headgate.jobs.messages.envelope import parse
from headgate.jobs.messages.signatures import Destination, SigningKey, parted, signed
from headgate.jobs.records.items import partition
from headgate.testing import MemorySecrets
from tests.unit.workers.rig import DEAD_MAIL, MAIL, Note, Rig, lanes

pytestmark = pytest.mark.looptime

SECRET = "shop-signing"  # noqa: S105 - a name
FIRST, SECOND, THIRD = (name * 16 for name in (b"first ", b"second", b"third "))
STRANGER = SigningKey(b"the key of somebody else, who may send")
PARKING = Retry(max_attempts=3, backoff=Backoff.steps(10, 60))


class Shop:
    """An app whose messages are signed, and the jobs that have run."""

    def __init__(self, signing: Signing | None = None, *, backoff: Backoff | None = None) -> None:
        self.app = App("shop", signing=signing or Signing(), parking=PARKING)
        self.mail: Queue = self.app.queue("mail", priorities=[Priority.NORMAL, Priority.HIGH])
        self.ran: list[str] = []
        retry = Retry(max_attempts=3, backoff=backoff or Backoff.fixed(5))

        @self.mail.job("send", retry=retry)
        async def send(note: Note, ctx: JobContext) -> None:
            if note.text == "fails once" and ctx.attempt == 1:
                raise ConnectionError
            if note.text == "waits" and not self.ran:
                self.ran.append("asked for a day")
                raise RetryLater(timedelta(days=1))
            if note.text == "parent":
                await ctx.submit(refund, Note(text="child"))
            self.ran.append(note.text)

        @self.mail.job("refund")
        async def refund(note: Note) -> None:
            self.ran.append(f"refund {note.text}")

        self.send, self.refund = send, refund
        self.rig = Rig(self.app)
        self.rig.secrets.put(SECRET, FIRST)

    async def taken(self, text: str = "ada") -> OutgoingMessage:
        """Submit a job, and take its message out of the queue, as whoever may receive could."""
        await self.rig.submit(self.send, text, backoff=Backoff.fixed(30), keep=60)
        [message] = await self.rig.sqs.receive(MAIL, limit=1, wait_s=0)
        await self.rig.sqs.delete(MAIL, [message.receipt])
        return OutgoingMessage(body=message.body, attributes=message.attributes)


def _altered(body: str) -> str:
    return body.replace('"text":"ada"', '"text":"eve"')


def _of_another_type(body: str) -> str:
    return body.replace('"type":"send"', '"type":"refund"')


def _with_more_attempts(body: str) -> str:
    return body.replace('"submitted_at"', '"options":{"attempts":1000},"submitted_at"')


def _with_another_backoff(body: str) -> str:
    return body.replace('"delays_s":[30.0]', '"delays_s":[0.0]')


def _without_its_retention(body: str) -> str:
    return body.replace(',"keep":{"completed_s":60.0}', "")


def _unsigned(body: str) -> str:
    return parted(body)[0]


def _signed_by_a_stranger(body: str) -> str:
    return signed(body, STRANGER, Destination(queue=MAIL))


def _reformatted(body: str) -> str:
    return json.dumps(json.loads(body))


STRANGE: dict[str, tuple[Callable[[str], str], str]] = {
    "altered": (_altered, "signature-invalid"),
    "another type": (_of_another_type, "signature-invalid"),
    "more attempts": (_with_more_attempts, "signature-invalid"),
    "another backoff": (_with_another_backoff, "signature-invalid"),
    "no retention": (_without_its_retention, "signature-invalid"),
    "forged": (_signed_by_a_stranger, "signature-invalid"),
    "unsigned": (_unsigned, "unsigned"),
    "reformatted": (_reformatted, "unsigned"),
}


@pytest.mark.parametrize("case", STRANGE)
async def test_what_no_key_holder_has_written_is_parked_with_the_reason_and_never_run(
    case: str,
) -> None:
    change, reason = STRANGE[case]
    shop = Shop()
    message = await shop.taken()
    body = change(message.body)
    assert body != message.body
    await shop.rig.sqs.send(MAIL, [replace(message, body=body)])
    async with shop.rig.working():
        await shop.rig.happens(MessageUnrunnable, 3)
    [letter] = shop.rig.sqs.messages(DEAD_MAIL)
    assert (letter.body, letter.attributes["Reason"]) == (body, reason)
    told = shop.rig.heard(MessageUnrunnable)
    assert [(each.reason, each.retry_in_s) for each in told] == [
        (reason, 10),
        (reason, 60),
        (reason, None),
    ]
    assert (shop.ran, shop.rig.remaining()) == ([], 0)
    marks = await shop.rig.table.query(partition(str(parse(message.body).id)))
    assert all(each.sk.endswith("#released") for each in marks), "it speaks for no job"


async def test_a_message_that_is_moved_to_another_queue_is_parked_there() -> None:
    shop = Shop()
    high, dead_high = (f"shop-mail-high{suffix}" for suffix in ("", "-dlq"))
    await shop.rig.sqs.send(high, [await shop.taken()])
    async with shop.rig.working():
        await shop.rig.happens(MessageUnrunnable, 3)
    [letter] = shop.rig.sqs.messages(dead_high)
    assert letter.attributes["Reason"] == "signature-invalid"
    assert not shop.ran


async def test_a_foreign_message_of_a_type_that_accepts_it_needs_no_signature() -> None:
    shop = Shop()

    @shop.mail.job("partner", accepts=Accepts.json())
    async def partner(note: Note) -> None:
        shop.ran.append(note.text)

    ours = await shop.taken()
    await shop.rig.sqs.send(MAIL, [OutgoingMessage(body='{"text":"theirs"}')])
    # A Headgate message isn't foreign, whatever its queue takes besides.
    await shop.rig.sqs.send(MAIL, [replace(ours, body=_unsigned(ours.body))])
    async with shop.rig.working():
        await shop.rig.happens(JobCompleted)
        await shop.rig.happens(MessageUnrunnable, 3)
    assert shop.ran == ["theirs"]


async def test_jobs_retries_and_children_are_signed() -> None:
    shop = Shop()
    async with shop.rig.working():
        await shop.rig.submit(shop.send, "ada", "fails once", "parent", "x" * 300_000)
        await shop.rig.happens(JobCompleted, 5)
    assert {text[:20] for text in shop.ran} == {
        "ada",
        "fails once",
        "parent",
        "refund child",
        "x" * 20,
    }
    assert not shop.rig.heard(MessageUnrunnable)


async def test_a_job_that_a_schedule_holds_for_its_retry_is_signed_when_it_comes_back() -> None:
    shop = Shop(backoff=Backoff.fixed(86_400))
    async with shop.rig.working():
        await shop.rig.submit(shop.send, "fails once")
        await shop.rig.happens(JobRetryScheduled)
    [name] = await shop.rig.scheduler.names(shop.app.topology.schedule_group, prefix="delay.")
    spec = await shop.rig.scheduler.get(shop.app.topology.schedule_group, name)
    assert spec is not None
    held = json.loads(spec.input)
    text, signature = parted(held["body"])
    assert signature is not None
    assert signed(text, SigningKey(FIRST), Destination(queue=MAIL)) == held["body"]
    assert parse(held["body"]).attempts_used == 1


async def test_a_rotation_loses_nothing() -> None:
    shop = Shop()
    rig = shop.rig
    await rig.submit(shop.send, "before")
    async with rig.working():
        await rig.happens(JobCompleted)
        rig.secrets.put(SECRET, SECOND)
        # By a client that has the new key, while the worker knows only the one before.
        await rig.submit(shop.send, "after")
        await rig.happens(JobCompleted, 2)
        await rig.sqs.send(MAIL, [_by(FIRST, await _body(shop, "late"))])
        await rig.happens(JobCompleted, 3)
    assert shop.ran == ["before", "after", "late"]
    assert not rig.heard(MessageUnrunnable)
    assert not rig.sqs.messages(DEAD_MAIL)


async def test_without_secrets_manager_messages_wait_and_cost_no_attempt() -> None:
    shop = Shop()
    rig = shop.rig
    await rig.submit(shop.send, "ada", max_attempts=1)
    rig.secrets.fault = ServiceUnavailable("Secrets Manager is down")
    async with rig.working():
        failures = await rig.happens(SigningKeysFailed, 20)
        assert failures[0].error == "Secrets Manager is down"
        assert not rig.heard(MessageUnrunnable)
        assert not rig.sqs.messages(DEAD_MAIL)
        [message] = rig.sqs.messages(MAIL)
        assert message.receive_count > 2
        rig.secrets.fault = None
        [done] = await rig.happens(JobCompleted)
    assert (done.attempt, shop.ran) == (1, ["ada"])


async def test_an_app_that_is_being_changed_runs_unsigned_messages_and_no_forged_ones() -> None:
    shop = Shop(Signing(accept_unsigned=True))
    message = await shop.taken()
    await shop.rig.sqs.send(MAIL, [replace(message, body=_unsigned(message.body))])
    await shop.rig.sqs.send(MAIL, [replace(message, body=_altered(message.body))])
    async with shop.rig.working():
        await shop.rig.happens(JobCompleted)
        await shop.rig.happens(MessageUnrunnable, 3)
    assert shop.ran == ["ada"]


async def test_the_keys_can_be_given_themselves() -> None:
    shop = Shop(Signing(keys=[SECOND, FIRST]))
    async with shop.rig.working():
        await shop.rig.submit(shop.send, "ada")
        await shop.rig.sqs.send(MAIL, [_by(FIRST, await _body(shop, "bob"))])
        await shop.rig.happens(JobCompleted, 2)
    assert sorted(shop.ran) == ["ada", "bob"]
    assert shop.rig.secrets.reads == 0


async def test_a_forged_message_of_an_ordering_group_is_parked_and_the_group_goes_on() -> None:
    app = App("shop", signing=Signing(), parking=PARKING)
    books = app.queue("books", fifo=True, priorities=[Priority.NORMAL])
    ran: list[str] = []

    @books.job("post", group_by=lambda note: note.text[0])
    async def post(note: Note) -> None:
        ran.append(note.text)

    rig = Rig(app)
    rig.secrets.put(SECRET, FIRST)
    queue, dead = "shop-books-normal.fifo", "shop-books-normal-dlq.fifo"
    await rig.submit(post, "a1")
    [message] = await rig.sqs.receive(queue, limit=1, wait_s=0)
    await rig.sqs.delete(queue, [message.receipt])
    ours = OutgoingMessage(
        body=message.body, attributes=message.attributes, group="a", deduplication_id="1"
    )
    # The same bytes in the order of another group are no longer what was signed.
    elsewhere = replace(ours, group="b", deduplication_id="2")
    await rig.sqs.send(queue, [ours])
    await rig.sqs.send(queue, [elsewhere])
    await rig.submit(post, "a2", "b1")
    async with rig.working():
        await rig.happens(JobCompleted, 3)
    assert [text for text in ran if text[0] == "a"] == ["a1", "a2"]
    assert ran.count("a1") == 1
    assert ran[-1] == "b1", "it waited for the parking of what stood before it"
    [letter] = rig.sqs.messages(dead)
    assert (letter.body, letter.attributes["Reason"]) == (ours.body, "signature-invalid")
    assert rig.remaining() == 0


async def test_an_app_without_signing_runs_signed_messages() -> None:
    shop = Shop()
    message = await shop.taken()
    plain = Shop()
    plain.app.signing = None
    await plain.rig.sqs.send(MAIL, [message])
    async with plain.rig.working():
        await plain.rig.happens(JobCompleted)
    assert plain.ran == ["ada"]


async def _body(shop: Shop, text: str) -> str:
    """Return a submission's body, from another queue of the same name."""
    elsewhere = Shop(shop.app.signing)
    return (await elsewhere.taken(text)).body


def _by(key: bytes, body: str) -> OutgoingMessage:
    return OutgoingMessage(body=signed(body, SigningKey(key), Destination(queue=MAIL)))


async def test_a_retry_that_a_schedule_is_to_hold_waits_for_the_keys() -> None:
    rig, ran = await _failing_without_keys(bundle=False, backoff_s=13 * 3600)
    async with rig.working():
        await rig.happens(SettlementFailed, 5)
        await asyncio.sleep(300)
        assert (ran, len(rig.sqs.messages(MAIL))) == (["0 s", "0 s"], 2)
        rig.secrets.fault = None
        await rig.happens(JobRetryScheduled, 2)
    assert {each.action for each in rig.heard(SettlementFailed)} == {"schedule", "hand_over"}
    group = rig.app.topology.schedule_group
    assert len(await rig.scheduler.names(group, prefix="delay.")) == 2
    assert (len(ran), rig.remaining()) == (2, 0)


async def test_jobs_of_a_bundle_wait_for_the_keys_and_no_longer_than_for_their_retry() -> None:
    rig, ran = await _failing_without_keys(bundle=True, backoff_s=600)
    async with rig.working():
        await rig.happens(SettlementFailed, 5)
        await asyncio.sleep(300)
        assert (ran, len(rig.sqs.messages(MAIL))) == (["0 s", "0 s"], 1)
        rig.secrets.fault = None
        await rig.happens(JobCompleted, 2)
    assert {each.action for each in rig.heard(SettlementFailed)} == {"hand_over"}
    assert ran[2:] == ["600 s", "600 s"]
    assert rig.remaining() == 0


async def test_a_worker_that_stops_without_keys_leaves_what_has_failed_in_its_queue() -> None:
    rig, ran = await _failing_without_keys(bundle=False, backoff_s=13 * 3600)
    async with rig.working():
        await rig.happens(SettlementFailed, 5)
    assert len(rig.sqs.messages(MAIL)) == len(ran) == 2
    assert rig.report is not None
    assert rig.report.unsettled == 2


async def _failing_without_keys(*, bundle: bool, backoff_s: int) -> tuple[Rig, list[str]]:
    """Return a rig with two unsigned jobs that fail once and have to go on in another message,
    while the keys can't be read; and when they have run."""
    ran: list[str] = []
    retry = Retry(max_attempts=3, backoff=Backoff.fixed(backoff_s, jitter=None))
    short = lanes(30)[Priority.NORMAL]

    def declared(signing: Signing | None) -> tuple[App, JobType[Note, None]]:
        app = App("shop", signing=signing)
        mail = app.queue("mail", priorities=[Priority.NORMAL], lanes={Priority.NORMAL: short})

        @mail.job("send", bundle=bundle, retry=retry)
        async def send(_note: Note, ctx: JobContext) -> None:
            ran.append(f"{rig.clock.monotonic() - began:.0f} s")
            if ctx.attempt == 1:
                raise ConnectionError

        return app, send

    rig = Rig(declared(Signing(accept_unsigned=True))[0])
    began = rig.clock.monotonic()
    plain, send = declared(None)
    before = Rig(plain, clock=rig.clock)
    await before.submit(send, "ada", "bob")
    for message in await before.sqs.receive(MAIL, limit=10, wait_s=0):
        await rig.sqs.send(
            MAIL, [OutgoingMessage(body=message.body, attributes=message.attributes)]
        )
    rig.secrets.fault = ServiceUnavailable("Secrets Manager is down")
    return rig, ran


class _SlowSecrets:
    """Secrets that are read in so many seconds."""

    def __init__(self, secrets: MemorySecrets, takes_s: float) -> None:
        self._secrets = secrets
        self._takes_s = takes_s

    async def versions(self, name: str) -> Sequence[bytes]:
        await asyncio.sleep(self._takes_s)
        return await self._secrets.versions(name)


async def test_a_pause_made_while_a_worker_reads_its_first_keys_holds_from_its_first_job_on() -> (
    None
):
    shop = Shop()
    await shop.rig.submit(shop.send)
    async with AsyncClient(shop.app, backend=shop.rig.backend) as client:
        shop.rig.secrets = _SlowSecrets(shop.rig.secrets, 60)  # type: ignore[assignment]  # a stand-in
        async with shop.rig.working():
            await asyncio.sleep(30)
            await client.pauses.create(job_type="send")
            await asyncio.sleep(60)
    assert not shop.rig.heard(JobStarted)
