"""Payloads too large for a message: first the object is sent, then the message, or neither."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel

from headgate import App, Priority
from headgate.jobs.core.batching import TRIES
from headgate.jobs.core.topology import MAX_MESSAGE_BYTES
from headgate.jobs.errors import (
    BucketMissing,
    ConfigurationError,
    PartlySubmitted,
    PayloadLost,
    PayloadTooLarge,
    QueueMissing,
    ServiceUnavailable,
)
from headgate.jobs.messages.envelope import parse
from headgate.jobs.messages.large_payloads import unpacked
from headgate.jobs.testing import Harness, MemorySqs, MemoryStore, VirtualClock
from tests.support.clients import Kind, client_of

QUEUE = "shop-jobs-normal"


class Note(BaseModel):
    text: str


LARGE, SMALL = Note(text="y" * 300_000), Note(text="y")


class Bench:
    """A client on in-memory SQS and S3."""

    def __init__(self, kind: Kind, app: App, *, provisioned: bool = True) -> None:
        clock = VirtualClock()
        self.app = app
        self.sqs = MemorySqs(clock)
        self.store = MemoryStore()
        if provisioned:
            self.sqs.provision(app.topology)
        self.client = client_of(
            kind, app, self.sqs, store=self.store, clock=clock, sleep=clock.advance
        )

    async def submit(self, *notes: Note) -> list[str]:
        """Submit notes in one call; return their jobs' ids."""
        async with self.client as client:
            handles = await client.submit_many(self.app.types["note"], notes)
        return [handle.id for handle in handles]

    def payloads(self) -> list[Any]:
        """Return the submitted payloads, read as by a worker."""
        envelopes = [parse(message.body) for message in self.sqs.messages(QUEUE)]
        return [
            unpacked(each.payload_ref, self.store.objects.get(each.payload_ref.key))
            if each.payload_ref
            else each.payload
            for each in envelopes
        ]


@pytest.fixture
def app() -> App:
    app = App("shop")
    app.define("note", Note)
    return app


@pytest.fixture
def bench(kind: Kind, app: App) -> Bench:
    return Bench(kind, app)


async def test_large_and_small_payloads_go_together_and_arrive_as_they_were(bench: Bench) -> None:
    ids = await bench.submit(SMALL, LARGE, SMALL, LARGE)

    assert bench.payloads() == [each.model_dump() for each in (SMALL, LARGE, SMALL, LARGE)]
    assert list(bench.store.objects) == [f"payloads/{ids[1]}", f"payloads/{ids[3]}"]
    assert len(bench.sqs.calls) == 1  # they are so small that they fit into one request


async def test_a_message_of_exactly_the_limit_keeps_its_payload(bench: Bench, app: App) -> None:
    await bench.submit(SMALL)
    [message] = bench.sqs.messages(QUEUE)
    size = len(message.body) + sum(
        len(name) + len("String") + len(value) for name, value in message.attributes.items()
    )
    room = app.max_message_bytes - size

    await bench.submit(Note(text="y" * (room + 1)), Note(text="y" * (room + 2)))

    assert len(bench.store.objects) == 1
    assert [len(payload["text"]) for payload in bench.payloads()] == [1, room + 1, room + 2]


@pytest.mark.looptime
async def test_no_message_is_sent_whose_payload_could_not_be_kept(bench: Bench) -> None:
    bench.store.fail("put", ServiceUnavailable("S3 does not answer"), times=TRIES)

    with pytest.raises(ServiceUnavailable, match="S3 does not answer"):
        await bench.submit(LARGE)
    assert bench.sqs.calls == []


async def test_a_payload_that_is_kept_at_the_second_try_is_submitted(bench: Bench) -> None:
    bench.store.fail("put", ServiceUnavailable("S3 does not answer"))

    await bench.submit(SMALL, LARGE)

    assert bench.payloads() == [SMALL.model_dump(), LARGE.model_dump()]


async def test_a_payload_that_was_kept_without_an_answer_is_submitted(bench: Bench) -> None:
    bench.store.fail("put", ServiceUnavailable("no answer"), applied=True)

    _, job_id = await bench.submit(SMALL, LARGE)

    assert bench.store.calls == [("put", f"payloads/{job_id}")] * 2
    assert bench.payloads() == [SMALL.model_dump(), LARGE.model_dump()]


async def test_a_payload_replaces_no_object(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = UUID("019b7ca4-7a2e-7000-8000-000000000001")
    monkeypatch.setattr("headgate.jobs.submission.prepare.new_job_id", lambda _now: job_id)
    bench.store.objects = {f"payloads/{job_id}": b"a stranger's"}

    await bench.submit(LARGE)

    assert bench.store.objects == {f"payloads/{job_id}": b"a stranger's"}
    with pytest.raises(PayloadLost):
        bench.payloads()


async def test_small_jobs_are_submitted_though_the_large_ones_among_them_are_not(
    bench: Bench,
) -> None:
    bench.store.missing = True

    with pytest.raises(PartlySubmitted, match=r"1 of 3 jobs.*BucketMissing: .*cdk deploy") as some:
        await bench.submit(SMALL, LARGE, SMALL)
    [refusal] = some.value.refusals
    assert (refusal.index, refusal.sender_fault) == (1, True)
    assert bench.payloads() == [SMALL.model_dump()] * 2


async def test_what_sqs_fails_of_a_batch_is_named_by_its_own_place(bench: Bench) -> None:
    bench.store.missing = True
    bench.sqs.faults.fail_entries("send", indexes=[1], sender_fault=True)

    with pytest.raises(PartlySubmitted) as some:
        await bench.submit(LARGE, SMALL, SMALL)
    assert [refusal.index for refusal in some.value.refusals] == [0, 2]


async def test_a_bucket_that_is_missing_is_named_at_submission(bench: Bench) -> None:
    bench.store.missing = True

    with pytest.raises(BucketMissing, match="cdk deploy"):
        await bench.submit(LARGE)


async def test_the_object_is_there_before_the_message(kind: Kind, app: App) -> None:
    bench = Bench(kind, app, provisioned=False)

    with pytest.raises(QueueMissing):
        await bench.submit(LARGE)
    assert len(bench.store.objects) == 1


async def test_a_payload_too_large_to_be_kept_is_refused_before_anything_is_sent(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.jobs.client.submitting.large_payloads.LARGEST", 500_000)
    with pytest.raises(PayloadTooLarge, match=r"'note' .* at most 500,000 are kept"):
        await bench.submit(Note(text="y" * 600_000))
    assert bench.payloads() == []
    assert bench.store.objects == {}


def test_a_harness_shows_and_runs_large_payloads_like_others(app: App) -> None:
    seen: list[int] = []

    @app.types["note"].handler
    async def note(note: Note) -> None:
        seen.append(len(note.text))

    harness = Harness(app)
    harness.client.submit(app.types["note"], LARGE)

    assert harness.assert_submitted(app.types["note"], LARGE).payload == LARGE
    harness.drain()
    assert seen == [300_000]


@pytest.mark.parametrize("limit", [0, 1_023, MAX_MESSAGE_BYTES + 1])
def test_a_limit_that_sqs_or_sense_forbids_is_refused(limit: int) -> None:
    with pytest.raises(
        ConfigurationError, match=r"max_message_bytes=\.\.\.\) must lie between 1,024"
    ):
        App("shop", max_message_bytes=limit)


# --- the bucket's name ---------------------------------------------------------------------------


def test_the_bucket_is_named_after_app_stage_account_and_region() -> None:
    bucket = App("shop", stage="prod").topology.bucket

    named = bucket.name_in("111122223333", "ap-southeast-1")
    assert named == "shop-prod-payloads-111122223333-ap-southeast-1"


def test_a_long_app_names_bucket_is_valid_and_unique() -> None:
    one = App("a" * 24, stage="production-of-one").topology.bucket
    two = App("a" * 24, stage="production-of-two").topology.bucket

    names = {each.name_in("111122223333", "ap-southeast-1") for each in (one, two)}
    assert len(names) == 2
    assert all(len(name) <= 63 for name in names)


def test_the_environment_may_name_the_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_BUCKET", "of-my-own")

    assert App("shop").topology.bucket.name_in("1", "eu-central-1") == "of-my-own"


def test_payloads_outlive_a_message_that_dies_is_replayed_and_dies_again(app: App) -> None:
    spec = app.topology.queue("jobs", Priority.NORMAL)
    assert app.topology.payload_retention == 2 * (spec.retention + spec.dlq_retention)
