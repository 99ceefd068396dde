"""The copies of ``client.dead_letters``: listed, shown and restored, whoever made them."""

from __future__ import annotations

import gzip
from datetime import timedelta
from typing import Any

import pytest

from headgate import App, AsyncClient, DeadLetterFilter, Encryption, Retry, Signing
from headgate.errors import ConfigurationError
from headgate.jobs.core.naming import DEAD_LETTERS_KEPT
from headgate.jobs.errors import ServiceUnavailable
from headgate.jobs.messages.job_ids import new_job_id
from headgate.jobs.messages.large_payloads import parcel, payload_key
from headgate.jobs.messages.outgoing import message_of
from headgate.jobs.testing.memory import store
from headgate.testing import Harness
from tests.support.clients import Kind, client_of
from tests.support.sweep_bench import SweepBench

ALL = DeadLetterFilter()
LETTERS = "shop-test-jobs-normal-dlq"
ADA = "Ada Lovelace"
"""With a space, which no hash and no base64 has by chance."""


@pytest.fixture
def bench() -> SweepBench:
    return SweepBench()


def client(kind: Kind, bench: SweepBench) -> AsyncClient:
    return client_of(
        kind, bench.app, bench.sqs, table=bench.table, store=bench.store, clock=bench.clock
    )


async def purged(kind: Kind, bench: SweepBench) -> list[str]:
    """Purge letters of two types, a day apart; return their jobs' ids."""
    ids = [bench.die("send-email", error="TimeoutError", tenant={"org": "acme"})]
    bench.clock.advance(timedelta(days=1))
    ids.append(bench.die("capture"))
    assert (await client(kind, bench).dead_letters.purge(ALL)).purged == 2
    return ids


def offloaded(bench: SweepBench, payload: Any) -> tuple[str, str]:
    """Let a job die whose payload is in the bucket; return its id, and the payload's key."""
    job_id = new_job_id(bench.clock.now())
    kept = parcel(payload_key(job_id), payload)
    bench.store.objects[kept.ref.key] = kept.packed()
    return bench.die("send-email", id=job_id, payload=None, payload_ref=kept.ref), kept.ref.key


async def test_what_was_purged_is_listed_the_latest_day_first(
    kind: Kind, bench: SweepBench
) -> None:
    ids = await purged(kind, bench)
    page = await client(kind, bench).dead_letters.copies()
    assert [each.letter.job_id for each in page.copies] == ids[::-1]
    assert page.complete
    [latest, _] = page.copies
    assert latest.expires_at == bench.clock.now() + DEAD_LETTERS_KEPT
    first = await client(kind, bench).dead_letters.copies(limit=1)
    assert ([each.letter.job_id for each in first.copies], first.complete) == ([ids[1]], False)


async def test_what_the_sweep_saved_is_listed_too(kind: Kind, bench: SweepBench) -> None:
    job_id = bench.die("send-email")
    bench.clock.advance(timedelta(days=13))
    assert bench.swept().saved == 1
    [copy] = (await client(kind, bench).dead_letters.copies()).copies
    assert (copy.letter.job_id, copy.letter.queue) == (job_id, LETTERS)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (DeadLetterFilter(types=("capture",)), [1]),
        (DeadLetterFilter(errors=("TimeoutError",)), [0]),
        (DeadLetterFilter(tenants=("acme",)), [0]),
        (DeadLetterFilter(queues=("payments",)), [1]),
        (DeadLetterFilter(since=timedelta(hours=2)), [1]),
        (DeadLetterFilter(until=timedelta(hours=2)), [0]),
    ],
)
async def test_copies_are_selected_by_the_filter_of_letters(
    bench: SweepBench, wanted: DeadLetterFilter, found: list[int]
) -> None:
    ids = await purged("AsyncClient", bench)
    page = await client("AsyncClient", bench).dead_letters.copies(wanted)
    assert [each.letter.job_id for each in page.copies] == [ids[number] for number in found]


async def test_one_copy_is_shown_with_its_payload(kind: Kind, bench: SweepBench) -> None:
    job_id, key = offloaded(bench, {"to": "ada"})
    letters = client(kind, bench).dead_letters
    await letters.purge(ALL)
    del bench.store.objects[key]  # payloads expire sooner
    details = await letters.show_copy(job_id, payload=True)
    assert details is not None
    assert (details.payload, details.payload_fault) == ({"to": "ada"}, "")
    assert await letters.show_copy("another") is None


async def test_a_restored_letter_lies_where_it_was_and_is_replayed_like_any_other(
    kind: Kind, bench: SweepBench
) -> None:
    job_id, key = offloaded(bench, {"to": "ada"})
    letters = client(kind, bench).dead_letters
    [before] = bench.sqs.messages(LETTERS)
    await letters.purge(ALL)
    packed = bench.store.objects.pop(key)
    assert (await letters.restore(DeadLetterFilter(ids=(job_id,)))).restored == 1
    assert bench.store.objects[key] == packed
    [after] = bench.sqs.messages(LETTERS)
    assert (after.body, after.attributes) == (before.body, before.attributes)
    bench.clock.advance(1)
    assert (await letters.replay(ALL)).sent == 1
    assert (await letters.restore(DeadLetterFilter(types=("none",)))).restored == 0


async def test_a_letter_whose_payload_is_another_one_is_left_and_told(
    kind: Kind, bench: SweepBench
) -> None:
    offloaded(bench, {"to": "ada"})
    sound = bench.die("send-email")
    letters = client(kind, bench).dead_letters
    await letters.purge(ALL)
    [beside] = [key for key in bench.store.objects if key.endswith(".payload.gz")]
    bench.store.objects[beside] = b"x" * 100_000
    outcome = await letters.restore(ALL)
    [failure] = outcome.failures
    assert beside.removesuffix(".payload.gz") in failure
    [restored] = bench.sqs.messages(LETTERS)
    assert (outcome.restored, restored.attributes["JobId"]) == (1, sound)


async def test_a_payload_that_outlived_its_letter_stays_as_it_is(bench: SweepBench) -> None:
    _, key = offloaded(bench, {"to": "ada"})
    letters = client("AsyncClient", bench).dead_letters
    await letters.purge(ALL)
    bench.store.objects[key] = b"renewed"
    assert (await letters.restore(ALL)).restored == 1
    assert bench.store.objects[key] == b"renewed"


async def test_objects_that_are_no_copies_are_left_out(
    kind: Kind, bench: SweepBench, caplog: pytest.LogCaptureFixture
) -> None:
    ids = await purged(kind, bench)
    prefix = f"dead-letters/{LETTERS}"
    bench.store.objects |= {
        f"{prefix}/2026-01-31/x.json.gz": b"not gzip",
        f"{prefix}/yesterday/x.json.gz": b"",
        f"{prefix}/x.json.gz": b"",
        "dead-letters/another-dlq/2026-01-31/x.json.gz": b"",
    }
    page = await client(kind, bench).dead_letters.copies()
    assert {each.letter.job_id for each in page.copies} == {*ids}
    assert "is no copy of a dead letter" in caplog.text


async def test_more_copies_than_a_page_lists_are_found(
    kind: Kind, bench: SweepBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MAX_LISTED", 2)
    ids = [bench.die("send-email") for _ in range(5)]
    letters = client(kind, bench).dead_letters
    await letters.purge(ALL)
    assert {each.letter.job_id for each in (await letters.copies()).copies} == {*ids}


async def test_days_before_since_are_not_even_listed(bench: SweepBench) -> None:
    letters = client("AsyncClient", bench).dead_letters
    bench.die("send-email")
    await letters.purge(ALL)
    bench.clock.advance(timedelta(days=30))
    late = bench.die("send-email")
    await letters.purge(ALL)
    everything = await letters.copies()
    page = await letters.copies(DeadLetterFilter(since=timedelta(days=9)))
    assert [each.letter.job_id for each in page.copies] == [late]
    assert page.requests == everything.requests - 1


async def test_the_letters_of_a_list_have_no_content(kind: Kind, bench: SweepBench) -> None:
    [job_id, _] = await purged(kind, bench)
    letters = client(kind, bench).dead_letters
    assert {each.letter.content for each in (await letters.copies()).copies} == {None}
    details = await letters.show_copy(job_id)
    assert details is not None
    assert details.attributes["JobId"] == job_id
    assert (details.copy.letter.content, details.payload) == (None, None)


async def test_a_limit_below_one_and_a_bucket_that_fails_are_told(
    kind: Kind, bench: SweepBench
) -> None:
    letters = client(kind, bench).dead_letters
    with pytest.raises(ConfigurationError, match="at least 1"):
        await letters.copies(limit=0)
    bench.store.fail("page", ServiceUnavailable("S3 is down"))
    with pytest.raises(ServiceUnavailable):
        await letters.copies()


def test_a_sealed_and_signed_letter_is_shown_open_and_runs_once_it_is_back() -> None:
    app, ran = App("shop", signing=Signing(), encryption=Encryption()), list[str]()

    @app.job("send", retry=Retry(max_attempts=1))
    def send(note: dict[str, str]) -> None:
        ran.append(note["text"])
        if len(ran) == 1:
            raise TimeoutError

    jobs = Harness(app)
    job = jobs.client.submit(send, {"text": ADA})
    jobs.drain()
    letters = jobs.client.dead_letters
    assert letters.purge(ALL).copied == 1
    assert all(ADA.encode() not in gzip.decompress(each) for each in jobs.store.objects.values())
    shown = letters.show_copy(job.id, payload=True)
    assert shown is not None
    assert shown.payload == {"text": ADA}
    assert letters.restore(ALL).restored == 1
    jobs.clock.advance(1)
    assert letters.replay(ALL).sent == 1
    jobs.drain()
    assert (ran, jobs.dead_letters()) == ([ADA, ADA], [])


def test_a_restored_letter_that_nobody_had_signed_is_not_replayed() -> None:
    app = App("shop", signing=Signing())
    app.define("send", dict)
    jobs = Harness(app)
    envelope = SweepBench(app=app).envelope("send", payload={})
    assert jobs.sqs.sync.send("shop-jobs-normal-dlq", [message_of(envelope)]) == []
    letters = jobs.client.dead_letters
    assert (letters.purge(ALL).copied, letters.restore(ALL).restored) == (1, 1)
    jobs.clock.advance(1)
    report = letters.replay(ALL)
    assert (report.sent, report.refused) == (0, 1)
