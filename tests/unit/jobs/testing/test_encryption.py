"""With ``App(encryption=...)`` nothing that leaves the process holds a payload open."""

from __future__ import annotations

import random
import string
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel

from headgate import (
    App,
    Backoff,
    DeadLetterFilter,
    Encryption,
    JobContext,
    JobState,
    Priority,
    Retry,
    Schedule,
    cron,
)
from headgate.jobs.core.events import JobDeferred
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.errors import (
    AccessDenied,
    ConfigurationError,
    PayloadTooLarge,
    ResultInvalid,
    ServiceUnavailable,
)
from headgate.jobs.messages.envelope import Envelope, parse
from headgate.testing import Harness, MemoryKeys
from tests.support.tape import Tape, recorded

CANARY = "canary-7f3a"
NEW, OLD = "alias/new", "alias/old"
QUEUE, DEAD = "shop-jobs-normal", "shop-jobs-normal-dlq"


class Card(BaseModel):
    number: str = ""
    fails: int = 0


class Receipt(BaseModel):
    number: str


def _shop(encryption: Encryption | None) -> App:
    app = App("shop", encryption=encryption, records="full", redact=[CANARY])
    app.queue("jobs-in-order", fifo=True, priorities=[Priority.NORMAL])
    retry = Retry(max_attempts=2, backoff=Backoff.fixed(60))

    @app.job("charge", retry=retry)
    async def charge(card: Card, ctx: JobContext) -> Receipt:
        await ctx.progress(50, f"charging {card.number}", card=card.number)
        if ctx.attempt <= card.fails:
            raise ValueError(card.number)
        return Receipt(number=card.number)

    @app.job("once", once=True)
    async def once(card: Card) -> Receipt:
        return Receipt(number=card.number)

    @app.job("parent")
    async def parent(card: Card, ctx: JobContext) -> None:
        await ctx.submit(charge, card)

    return app


def _card(*, fails: int = 0) -> Card:
    return Card(number=CANARY, fails=fails)


def _harness(encryption: Encryption | None = Encryption()) -> tuple[Harness, Any]:  # noqa: B008
    app = _shop(encryption)
    return Harness(app), app.types


@pytest.fixture
def tape(monkeypatch: pytest.MonkeyPatch) -> Any:
    with recorded(monkeypatch) as tape:
        yield tape


def _logs_to(jobs: Harness, tape: Tape) -> None:
    jobs._hub.subscribe(tape)


LARGE = CANARY + random.Random(0).randbytes(240_000).hex()  # noqa: S311 - fills a payload
"""Too large for a message and for a record, however it is compressed."""

_LETTERS = string.ascii_letters + string.digits + "!#$%&'()*+,-./:;=>?@[]^_`{|}~"
DENSE = "".join(random.Random(0).choices(_LETTERS, k=250_000))  # noqa: S311 - as above
"""Small enough for a schedule, but not in base64: it can hardly be compressed."""


def test_a_whole_run_leaves_no_payload_open_anywhere(tape: Tape) -> None:
    jobs, types = _harness()
    _logs_to(jobs, tape)
    client, charge = jobs.client, types["charge"]
    done = client.submit(charge, _card())
    large = client.submit(charge, Card(number=LARGE))
    retried = client.submit(charge, _card(fails=1))
    dead = client.submit(charge, _card(fails=2))
    delayed = client.submit(charge, _card(), delay=timedelta(minutes=5))
    late = client.submit(charge, _card(), delay=timedelta(days=3))
    claimed = client.submit(types["once"], _card())
    client.submit(types["parent"], _card())
    client.schedules.create(
        "nightly", charge, _card(), schedule=Schedule.rate(timedelta(hours=1)), limit=2
    )
    client.schedules.run_now("nightly")

    jobs.drain()
    jobs.clock.advance(timedelta(hours=3))
    jobs.drain()
    client.dead_letters.replay(DeadLetterFilter(), set={"fails": 0, "number": f"set-{CANARY}"})
    jobs.drain()

    assert done.result(1) == Receipt(number=CANARY)
    assert large.result(1) == Receipt(number=LARGE)
    assert dead.result(1) == Receipt(number=f"set-{CANARY}")
    finished = (retried, delayed, late, claimed)
    assert [each.state() for each in finished] == [JobState.COMPLETED] * 4
    assert len(jobs.completed(charge)) == 10
    assert {"OutgoingMessage", "Item", "ScheduleSpec", "object"} <= tape.kinds()
    assert tape.where(CANARY) == []


def test_without_the_option_the_same_search_finds_it(tape: Tape) -> None:
    jobs, types = _harness(None)
    jobs.client.submit(types["charge"], _card())
    jobs.drain()
    found = tape.where(CANARY)
    assert {part.partition("(")[0] for part in found} >= {"OutgoingMessage", "Item"}


def test_what_is_sealed_is_read_where_it_may_be(tape: Tape) -> None:
    jobs, types = _harness()
    job = jobs.client.submit(types["charge"], _card())
    [waiting] = jobs.submitted(types["charge"])
    jobs.drain()
    progress, history = job.progress(), job.history()
    assert waiting.payload == _card()
    assert progress is not None
    assert (progress.note, progress.data) == (f"charging {CANARY}", {"card": CANARY})
    assert history.result == {"number": CANARY}
    assert tape.where(CANARY) == []


def test_a_delayed_payload_that_is_too_large_once_sealed_is_refused_before_anything_is_held() -> (
    None
):
    jobs, types = _harness()
    cards = [_card(), Card(number=DENSE)]
    with pytest.raises(PayloadTooLarge, match="the delayed job of 'charge'"):
        jobs.client.submit_many(types["charge"], cards, delay=timedelta(days=1))
    assert jobs.scheduler.schedules == []


# --- keys ----------------------------------------------------------------------------------------


def _moved(jobs: Harness, other: Harness) -> None:
    """Let another version of the app have the queues, the table and the keys of one."""
    other.sqs._queues = jobs.sqs._queues
    other.keys._wrapped = jobs.keys._wrapped


def test_after_a_rotation_jobs_of_the_old_key_run_and_new_ones_have_the_new() -> None:
    before, types = _harness(Encryption(keys=[OLD]))
    before.client.submit(types["charge"], _card())
    after, types = _harness(Encryption(keys=[NEW, OLD]))
    _moved(before, after)
    after.client.submit(types["charge"], _card())
    used = [parse(each.body).sealed for each in after.sqs.messages(QUEUE)]

    after.drain()

    assert [each and each.key for each in used] == [OLD, NEW]
    assert len(after.completed(types["charge"])) == 2


def test_a_message_of_an_unknown_key_is_parked_with_a_reason() -> None:
    before, types = _harness(Encryption(keys=[OLD]))
    before.client.submit(types["charge"], _card())
    after, types = _harness(Encryption(keys=[NEW]))
    _moved(before, after)

    after.drain()

    [letter] = after.dead_letters()
    assert letter.attributes["Reason"] == "payload-unopenable"
    assert OLD in letter.attributes["ErrorMessage"]
    assert after.completed(types["charge"]) == []


def test_an_app_without_encryption_parks_what_is_sealed() -> None:
    before, types = _harness()
    before.client.submit(types["charge"], _card())
    after, types = _harness(None)
    _moved(before, after)
    after.drain()
    assert [each.attributes["Reason"] for each in after.dead_letters()] == ["payload-unopenable"]


def test_one_data_key_serves_many_messages_within_its_bounds() -> None:
    jobs, types = _harness(Encryption(max_messages=10))
    jobs.client.submit_many(types["charge"], [_card()] * 25)
    assert jobs.keys.calls == [("generate", "alias/shop-payloads")] * 3
    jobs.drain()
    assert jobs.keys.calls.count(("unwrap", "alias/shop-payloads")) == 3


def test_a_process_without_the_library_says_so_before_it_submits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = _shop(Encryption())
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    with pytest.raises(ConfigurationError, match=r"headgate\[encryption\]"):
        Harness(app)


# --- an outage of KMS ----------------------------------------------------------------------------


def test_a_submission_raises_while_kms_is_away_and_sends_nothing() -> None:
    jobs, types = _harness()
    jobs.keys.fail("generate", ServiceUnavailable("KMS is down"))
    with pytest.raises(ServiceUnavailable, match="KMS is down"):
        jobs.client.submit(types["charge"], _card())
    assert jobs.sqs.messages(QUEUE) == []


def test_a_worker_that_can_not_open_a_job_gives_it_back_without_an_attempt() -> None:
    jobs, types = _harness()
    job = jobs.client.submit(types["charge"], _card())
    jobs.keys.fail("unwrap", AccessDenied("no kms:Decrypt"), times=3)

    jobs.drain()

    assert sum(isinstance(event, JobDeferred) for event in jobs.events) == 3
    assert [each.number for each in job.history().attempts] == [1]
    assert job.result(1) == Receipt(number=CANARY)


def test_a_result_that_can_not_be_sealed_is_not_kept_and_its_job_is_done(tape: Tape) -> None:
    jobs, types = _harness()
    job = jobs.client.submit(types["charge"], _card())
    jobs.keys.fail("generate", ServiceUnavailable("KMS is down"), times=2)  # result and progress

    jobs.drain()

    assert job.state() is JobState.COMPLETED
    with pytest.raises(ResultInvalid, match="could not be sealed: KMS is down"):
        job.result(1)
    assert tape.where(CANARY) == []


# --- what was tampered with ----------------------------------------------------------------------


def _resend(jobs: Harness, **changes: Any) -> None:
    """Replace a job's message by one with other fields in its body."""
    [stored] = jobs.sqs.messages(QUEUE)
    body = parse(stored.body).model_copy(update=changes).to_body()
    jobs.sqs._queues[QUEUE]._remove(next(iter(jobs.sqs._queues[QUEUE].messages)))
    jobs.sqs.send_now(QUEUE, [OutgoingMessage(body=body)])


def test_a_payload_moved_to_another_job_is_refused() -> None:
    jobs, types = _harness()
    jobs.client.submit(types["charge"], _card())
    [other] = (parse(each.body).sealed for each in jobs.sqs.messages(QUEUE))
    victims, types = _harness()
    _keys_of(victims, jobs.keys)
    victims.client.submit(types["charge"], Card(number="mine"))

    _resend(victims, sealed=other)
    victims.drain()

    [letter] = victims.dead_letters()
    assert letter.attributes["Reason"] == "payload-unopenable"
    assert CANARY not in repr(letter)
    assert victims.completed(types["charge"]) == []


def _keys_of(jobs: Harness, keys: MemoryKeys) -> None:
    jobs.keys._wrapped = keys._wrapped


def test_a_payload_under_another_type_is_refused() -> None:
    jobs, types = _harness()
    jobs.client.submit(types["charge"], _card())
    _resend(jobs, type="once")
    jobs.drain()
    assert [each.attributes["Reason"] for each in jobs.dead_letters()] == ["payload-unopenable"]
    assert jobs.completed(types["once"]) == []


@pytest.mark.parametrize("field", ["text", "data_key"])
def test_a_damaged_payload_is_parked(field: str) -> None:
    jobs, types = _harness()
    jobs.client.submit(types["charge"], _card())
    [sealed] = (parse(each.body).sealed for each in jobs.sqs.messages(QUEUE))
    assert sealed is not None
    text = getattr(sealed, field)
    damaged = ("B" if text[0] == "A" else "A") + text[1:]
    _resend(jobs, sealed=sealed.model_copy(update={field: damaged}))
    jobs.drain()
    assert [each.attributes["Reason"] for each in jobs.dead_letters()] == ["payload-unopenable"]


# --- upgrading -----------------------------------------------------------------------------------


def test_messages_from_before_the_option_run_unless_it_is_required() -> None:
    before, types = _harness(None)
    before.client.submit(types["charge"], _card())
    after, types = _harness(Encryption())
    _moved(before, after)
    after.drain()
    assert len(after.completed(types["charge"])) == 1


def test_an_unsealed_message_is_parked_where_sealing_is_required() -> None:
    before, types = _harness(None)
    before.client.submit(types["charge"], _card())
    after, types = _harness(Encryption(required=True))
    _moved(before, after)
    after.drain()
    [letter] = after.dead_letters()
    assert letter.attributes["Reason"] == "payload-not-sealed"


class Digest(BaseModel):
    kinds: set[str]
    note: str = ""


def _scheduled() -> App:
    app = App("shop", encryption=Encryption(required=True))

    @app.job("digest", schedule_payload=Digest(kinds={"news", "ads"}), schedule=cron("0 8 * * ? *"))
    def digest(payload: Digest) -> None: ...

    digest.add_schedule(
        "large", Digest(kinds=set(), note="x" * 99_000), schedule=cron("0 9 * * ? *")
    )
    return app


def test_the_payload_that_code_declares_for_a_schedule_need_not_be_sealed() -> None:
    jobs = Harness(_scheduled())
    jobs.clock.advance(timedelta(hours=10))
    jobs.drain()
    assert jobs.dead_letters() == []
    assert [each.payload.kinds for each in jobs.completed(jobs.app.types["digest"])] == [
        {"news", "ads"},
        set(),
    ]


@pytest.mark.parametrize(
    ("payload", "runs"),
    [
        ({"note": "", "kinds": ["news", "ads"]}, True),
        ({"note": "", "kinds": ["ads", "news"]}, True),  # the order of a set is its process's
        ({"note": "other", "kinds": ["news", "ads"]}, False),
        ({"note": "x" * 99_001, "kinds": []}, False),
    ],
)
def test_no_other_open_payload_passes_for_that_of_a_schedule(payload: Any, *, runs: bool) -> None:
    jobs = Harness(_scheduled())
    message = Envelope(
        v=1,
        id=UUID(int=1),
        type="digest",
        payload=payload,
        queue="jobs",
        priority=Priority.NORMAL,
        submitted_at=jobs.clock.now(),
        source="schedule:digest",
    )
    jobs.sqs.send_now(QUEUE, [OutgoingMessage(body=message.to_body())])
    jobs.drain()
    parked = [each.attributes["Reason"] for each in jobs.dead_letters()]
    assert (len(jobs.completed(jobs.app.types["digest"])), parked) == (
        (1, []) if runs else (0, ["payload-not-sealed"])
    )


def test_a_replay_seals_what_was_not_sealed() -> None:
    before, types = _harness(None)
    before.client.submit(types["charge"], _card(fails=2))
    before.drain()
    after, types = _harness(Encryption(required=True))
    _moved(before, after)
    after.clock.advance(3_600)
    after.client.dead_letters.replay(DeadLetterFilter())
    [message] = after.sqs.messages(QUEUE)
    assert CANARY not in message.body
    assert [each.payload for each in after.submitted(types["charge"])] == [_card(fails=2)]


# --- dead letters --------------------------------------------------------------------------------


def test_a_dead_letter_is_shown_open_and_exported_sealed(tmp_path: Path) -> None:
    jobs, types = _harness()
    job = jobs.client.submit(types["charge"], _card(fails=2))
    jobs.drain()
    desk, path = jobs.client.dead_letters, tmp_path / "letters.jsonl"

    shown = desk.show(job.id, payload=True)
    desk.export(to=path)

    assert shown is not None
    assert shown.payload == {"number": CANARY, "fails": 2}
    assert CANARY not in path.read_text()
    assert desk.import_(path) == 1


def test_a_dead_letter_is_not_shown_open_without_the_permission() -> None:
    jobs, types = _harness(Encryption(max_age=1))
    job = jobs.client.submit(types["charge"], _card(fails=2))
    jobs.drain()
    jobs.clock.advance(60)
    jobs.keys.fail("unwrap", AccessDenied("no kms:Decrypt"))
    shown = jobs.client.dead_letters.show(job.id, payload=True)
    assert shown is not None
    assert (shown.payload, shown.payload_fault) == (None, "no kms:Decrypt")


def test_a_replay_that_changes_nothing_asks_for_no_key() -> None:
    jobs, types = _harness(Encryption(max_age=1))
    jobs.client.submit(types["charge"], _card(fails=2))
    jobs.drain()
    jobs.clock.advance(60)
    jobs.keys.calls.clear()
    jobs.client.dead_letters.replay(DeadLetterFilter())
    assert jobs.keys.calls == []
