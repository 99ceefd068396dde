"""Bundles that SQS itself has moved to a dead-letter queue: they are read, replayed and erased."""

from __future__ import annotations

import asyncio
from typing import Any

from headgate import App, DeadLetterFilter, Signing, Tenant
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.messages.bundles import bodies_of
from headgate.jobs.messages.envelope import parse
from headgate.jobs.messages.job_ids import new_job_id
from headgate.testing import Harness
from tests.support.replays import bench_of

NORMAL, LETTERS = "shop-jobs-normal", "shop-jobs-normal-dlq"
KEY = b"a key of thirty-two bytes or more"


class Shop:
    """An app of whose jobs a whole bundle is dead."""

    def __init__(self) -> None:
        self.app = App("shop", signing=Signing())
        self.ran: list[str] = []

        @self.app.job("embed", bundle=True)
        def embed(note: dict[str, Any]) -> None:
            self.ran.append(note["text"])

        self.jobs = Harness(self.app)
        self.bench = bench_of(self.jobs)
        self.bench.backend.secrets.put("shop-signing", KEY)
        payloads = [{"text": text} for text in ("a", "b", "c")]
        handles = self.jobs.client.submit_many(embed, payloads, tenant="acme")
        self.ids = [handle.id for handle in handles]
        asyncio.run(self._redrive())

    async def _redrive(self) -> None:
        sqs = self.jobs.sqs
        [message] = await sqs.receive(NORMAL, limit=1, wait_s=0)
        await sqs.delete(NORMAL, [message.receipt])
        letter = OutgoingMessage(
            body=message.body, attributes=message.attributes, group=message.group
        )
        assert await sqs.send(LETTERS, [letter]) == []


def test_a_dead_bundle_is_listed_by_what_its_jobs_have_in_common() -> None:
    shop = Shop()
    [letter] = shop.jobs.client.dead_letters.list(DeadLetterFilter()).letters
    assert (letter.job_type, letter.tenant, letter.job_id) == ("embed", "acme", None)
    assert (letter.reason, letter.error_message) == ("redriven", "a bundle of 3 jobs")
    assert letter.origin == NORMAL


def test_a_dead_bundle_is_found_by_the_id_of_each_of_its_jobs() -> None:
    shop = Shop()
    letters = shop.jobs.client.dead_letters
    for job_id, text in zip(shop.ids, "abc", strict=True):
        details = letters.show(job_id, payload=True)
        assert details is not None
        assert (details.letter.job_id, details.payload) == (job_id, {"text": text})
        assert details.letter.error_message == "a bundle of 3 jobs"
    [listed] = letters.list(DeadLetterFilter(ids=(shop.ids[1],))).letters
    assert listed.job_id is None
    assert letters.show(str(new_job_id(shop.jobs.clock.now()))) is None


def test_a_job_of_a_dead_bundle_runs_again_by_its_id() -> None:
    shop = Shop()
    again = shop.jobs.client.jobs.rerun(shop.ids[1])
    shop.jobs.drain()
    assert shop.ran == ["b"]
    record = again.history()
    assert (record.parent, record.tenant) == (shop.ids[1], Tenant(org="acme"))
    assert len(shop.jobs.sqs.messages(LETTERS)) == 1


def test_the_id_of_one_job_replays_its_bundle_and_purges_nothing() -> None:
    shop = Shop()
    [letter] = shop.jobs.client.dead_letters.list().letters
    assert shop.jobs.client.dead_letters.purge(DeadLetterFilter(ids=(shop.ids[1],))).purged == 0
    shop.bench.replay(DeadLetterFilter(ids=(shop.ids[1],)))
    shop.jobs.drain()
    assert shop.ran == ["a", "b", "c"]
    other = Shop()
    [letter] = other.jobs.client.dead_letters.list().letters
    chosen = DeadLetterFilter(ids=(letter.message_id,))
    assert other.jobs.client.dead_letters.purge(chosen).purged == 1


def test_a_replayed_bundle_runs_all_of_its_jobs_under_their_ids() -> None:
    shop = Shop()
    shop.bench.replay(DeadLetterFilter(), set={"text": "mended"})
    [message] = shop.jobs.sqs.messages(NORMAL)
    jobs = [parse(body) for body in bodies_of(message.body)]
    assert [str(job.id) for job in jobs] == shop.ids
    assert all(job.source.startswith("replay:") for job in jobs)
    shop.jobs.drain()
    assert shop.ran == ["mended"] * 3
    assert shop.jobs.dead_letters() == []


def test_a_forged_job_keeps_its_whole_bundle_from_being_replayed() -> None:
    shop = Shop()
    sqs = shop.jobs.sqs.sync
    [letter] = sqs.receive(LETTERS, limit=1, wait_s=0)
    sqs.delete(LETTERS, [letter.receipt])
    forged = OutgoingMessage(
        body=letter.body.replace('"text":"b"', '"text":"x"'), attributes=letter.attributes
    )
    sqs.send(LETTERS, [forged])
    shop.bench.replay(DeadLetterFilter())
    assert shop.jobs.sqs.messages(NORMAL) == []
    assert len(shop.jobs.sqs.messages(LETTERS)) == 1


def test_a_tenant_s_dead_bundle_is_erased_with_its_jobs() -> None:
    shop = Shop()
    assert shop.jobs.client.erase(tenant="other").letters == 0
    assert shop.jobs.client.erase(tenant="acme").letters == 1
    assert shop.jobs.sqs.messages(LETTERS) == []
