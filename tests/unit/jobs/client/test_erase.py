"""``client.erase``: nothing of the tenant stays, all of the others does, wherever it is cut off."""

from __future__ import annotations

import gzip
import json
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any, cast

import pytest
from pydantic import BaseModel

from headgate import App, Client, DeadLetterFilter, Discard, Encryption, Schedule, Tenant, cron
from headgate.jobs.aws.dynamo.attributes import Attributes, decode, encode, size_of
from headgate.jobs.client.erasing.report import Erased
from headgate.jobs.core.naming import ASKED
from headgate.jobs.core.ports.table import Item
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.core.retention import RecordsLevel
from headgate.jobs.errors import ScheduleGroupMissing, ServiceUnavailable, SettingsInvalid
from headgate.jobs.records.audit.entry import AUDIT
from headgate.jobs.records.items import partition
from headgate.jobs.retry.signals import DoNotRetry
from headgate.jobs.schedules.due import invocation
from headgate.jobs.testing import Harness
from headgate.jobs.testing.memory import table
from tests.support.backends import over
from tests.support.clients import Kind

ACME, OTHER = "acme", "other"
HOUR = timedelta(hours=1)


class Note(BaseModel):
    text: str


class Shop:
    """An app in memory whose stores hold something of two tenants everywhere."""

    def __init__(
        self, *, records: RecordsLevel = "full", encryption: Encryption | None = None
    ) -> None:
        self.app = app = App(
            "shop", records=records, max_message_bytes=2_000, encryption=encryption
        )
        self.receipts = 0

        @app.job("note")
        def note(note: Note) -> str:
            if note.text.startswith("die"):
                raise DoNotRetry(note.text)
            return note.text if note.text.startswith("done") else note.text * 500

        @app.job("receipt", once=True)
        def receipt(note: Note) -> str:
            self.receipts += 1
            if note.text.startswith("discard"):
                raise Discard(note.text)
            if note.text.startswith("fails once") and self.receipts == 1:
                raise ConnectionError("refused")
            return note.text

        self.note, self.receipt = note, receipt
        self.jobs = Harness(app)

    def live(self, tenant: str) -> None:
        """Have something happen to jobs of a tenant; each has the tenant's canary in its data."""
        self._run(tenant, "die", "die " * 1_000)
        self.jobs.client.dead_letters.purge(DeadLetterFilter(tenants=(tenant,)))
        self._run(tenant, "die", "die " * 1_000, "done", "done " * 1_000, "much " * 200)

    def small(self, tenant: str) -> None:
        """Have one thing of each kind of a tenant, and nothing that is large."""
        self._run(tenant, "die")
        self.jobs.client.dead_letters.purge(DeadLetterFilter(tenants=(tenant,)))
        self._run(tenant, "die " * 1_000, "done")

    def plan(self, tenant: str) -> None:
        """Have jobs of a tenant wait in schedules."""
        self._submit(tenant, "later", delay=timedelta(days=1))
        note = Note(text=f"daily canary-{tenant}")
        daily = Schedule.cron("0 8 * * ? *")
        self.jobs.client.schedules.create(
            f"of-{tenant}", self.note, note, schedule=daily, tenant=tenant
        )

    def wait(self, tenant: str) -> None:
        """Leave a job of a tenant in its queue."""
        self._submit(tenant, "waiting " * 1_000)

    async def finish(self, tenant: str) -> str:
        """Have a job of a tenant complete; return its id."""
        job = self.jobs.client.submit(self.note, Note(text="done"), tenant=tenant)
        await self.jobs.adrain()
        return job.id

    def rerun(self, job_id: str, tenant: str | None) -> None:
        """Run a job again for a tenant; the new one is its child."""
        self.jobs.clock.advance(timedelta(seconds=1))
        self.jobs.client.jobs.rerun(job_id, payload=Note(text="done"), tenant=tenant)

    async def erase(self, kind: Kind, tenant: str | Tenant, **options: Any) -> Erased:
        """Erase a tenant's data with either client."""
        return await erase(kind, self.jobs, tenant, **options)

    def texts(self) -> list[str]:
        """Return all that is anywhere but in the audit, as text."""
        topology, jobs = self.app.topology, self.jobs
        names = [*(spec.name for spec in topology.queues), *(s.dlq_name for s in topology.queues)]
        messages = [each.body for name in names for each in jobs.sqs.messages(name)]
        items = [json.dumps(each) for each in _stored(self)]
        objects = [gzip.decompress(each).decode() for each in jobs.store.objects.values()]
        schedules = [each.input for each in jobs.scheduler.schedules]
        return [*messages, *items, *objects, *schedules]

    def of(self, tenant: str) -> list[str]:
        """Return all that is anywhere of a tenant."""
        return [text for text in self.texts() if f"canary-{tenant}" in text or tenant in text]

    def _run(self, tenant: str, *texts: str) -> None:
        for text in texts:
            self._submit(tenant, text)
        self.jobs.drain()

    def _submit(self, tenant: str, text: str, **options: Any) -> None:
        note = Note(text=f"{text} canary-{tenant}")
        self.jobs.client.submit(self.note, note, tenant=tenant, **options)


async def erase(kind: Kind, jobs: Harness, tenant: str | Tenant, **options: Any) -> Erased:
    """Erase a tenant's data with either client."""
    if kind == "Client":
        return jobs.client.erase(tenant=tenant, **options)
    return await jobs.async_client.erase(tenant=tenant, **options)


@pytest.fixture
def shop() -> Shop:
    shop = Shop()
    shop.live(ACME)
    shop.live(OTHER)
    shop.plan(ACME)
    shop.plan(OTHER)
    return shop


async def test_nothing_of_the_tenant_is_left_and_all_of_others_is(shop: Shop, kind: Kind) -> None:
    others = shop.of(OTHER)
    assert len(others) > 10

    erased = await shop.erase(kind, ACME)

    assert shop.of(ACME) == []
    assert shop.of(OTHER) == others
    assert erased.complete
    assert (erased.letters, erased.copies, erased.schedules) == (2, 2, 2)
    assert (await shop.erase(kind, ACME)).found == 0


async def test_a_dry_run_counts_the_same_and_changes_nothing(shop: Shop, kind: Kind) -> None:
    shop.wait(ACME)
    before = shop.texts()

    planned = await shop.erase(kind, Tenant(org=ACME, workspace="w"), dry_run=True)
    assert sorted(shop.texts()) == sorted(before)

    erased = await shop.erase(kind, ACME)
    assert planned.dry_run
    assert _counts(planned) == _counts(erased)


@pytest.mark.parametrize("encryption", [None, Encryption()], ids=["open", "sealed"])
@pytest.mark.parametrize("text", ["done", "discard"])
async def test_the_claim_of_a_job_that_runs_once_stays_and_loses_what_it_said(
    text: str, encryption: Encryption | None, kind: Kind
) -> None:
    shop = Shop(encryption=encryption)
    shop.jobs.client.submit(shop.receipt, Note(text=f"{text} canary-acme"), tenant=ACME)
    [message] = shop.jobs.sqs.messages("shop-jobs-normal")
    await shop.jobs.adrain()

    await shop.erase(kind, ACME)

    assert shop.of(ACME) == []
    claims = [item for each in _stored(shop) if (item := decode(each)).sk == "claim"]
    assert [each.data["state"] for each in claims] == ["done"]
    assert not any({"result", "result_sealed"} & each.data.keys() for each in claims)
    shop.jobs.sqs.sync.send("shop-jobs-normal", [OutgoingMessage(body=message.body)])
    await shop.jobs.adrain()
    assert shop.receipts == 1


@pytest.mark.parametrize("records", ["failures", "off"])
async def test_a_claim_is_emptied_where_no_record_tells_of_its_job(
    records: RecordsLevel, kind: Kind
) -> None:
    shop = Shop(records=records)
    for tenant in (ACME, OTHER):
        note = Note(text=f"paid canary-{tenant}")
        shop.jobs.client.submit(shop.receipt, note, tenant=tenant)
    messages = shop.jobs.sqs.messages("shop-jobs-normal")
    await shop.jobs.adrain()
    others = shop.of(OTHER)

    planned = await shop.erase(kind, ACME, dry_run=True)
    erased = await shop.erase(kind, ACME)
    assert _counts(planned) == _counts(erased)
    assert (erased.jobs, erased.items, erased.cancelled) == (1, 1, 0)
    assert shop.of(ACME) == []
    assert shop.of(OTHER) == others
    assert (await shop.erase(kind, ACME)).found == 0

    again = [OutgoingMessage(body=each.body) for each in messages]
    shop.jobs.sqs.send_now("shop-jobs-normal", again)
    await shop.jobs.adrain()
    assert shop.receipts == 2


async def test_a_claim_is_found_once_all_records_of_its_job_have_expired(kind: Kind) -> None:
    shop = Shop()
    shop.jobs.client.submit(shop.receipt, Note(text="fails once canary-acme"), tenant=ACME)
    await shop.jobs.adrain()
    shop.jobs.clock.advance(timedelta(days=31))

    erased = await shop.erase(kind, ACME)
    assert (erased.jobs, erased.cancelled) == (1, 0)
    [claim] = [item for each in _stored(shop) if (item := decode(each)).sk == "claim"]
    assert claim.data["state"] == "done"
    assert "acme" not in repr(claim)


async def test_a_claim_that_changes_while_it_is_emptied_is_left_and_told_of(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(records="failures")
    shop.jobs.client.submit(shop.receipt, Note(text="paid canary-acme"), tenant=ACME)
    await shop.jobs.adrain()
    [claim] = [item for each in _stored(shop) if (item := decode(each)).sk == "claim"]
    newer = replace(claim, version=claim.version + 1)
    store = shop.jobs.table._store
    write = store.replace

    def first_another(item: Item, encoded: Attributes) -> Item | None:
        if item.sk == "claim":
            write(newer, encode(newer))
        return write(item, encoded)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(store, "replace", first_another)
        erased = await shop.erase(kind, ACME)
    assert not erased.complete
    assert (await shop.erase(kind, ACME)).complete
    assert shop.of(ACME) == []


async def test_what_became_no_job_is_erased_with_its_copies(shop: Shop, kind: Kind) -> None:
    jobs, queue = shop.jobs, shop.app.topology.failed_firings_name
    jobs.sqs.create_queue(queue)
    jobs.clock.advance(timedelta(minutes=1))
    _fail_to_submit(shop, queue)
    jobs.client.dead_letters.purge(DeadLetterFilter())
    _fail_to_submit(shop, queue)

    planned = await shop.erase(kind, ACME, dry_run=True)
    erased = await shop.erase(kind, ACME)
    assert _counts(planned) == _counts(erased)
    assert erased.complete
    assert shop.of(ACME) == []
    left = [each.body for each in jobs.sqs.messages(queue)]
    assert len(left) == 4
    assert not any("acme" in each for each in left)
    copies = [gzip.decompress(each).decode() for each in jobs.store.objects.values()]
    assert len([each for each in copies if queue in each and "canary-other" in each]) == 4


def _fail_to_submit(shop: Shop, queue: str) -> None:
    """Leave letters of what schedules hold, as EventBridge and as Lambda leave them."""
    jobs = shop.jobs
    for spec in jobs.scheduler.schedules:
        given = invocation(spec, f"arn:aws:scheduler:eu-central-1:1:{spec.name}", jobs.clock.now())
        for body in (given, json.dumps({"requestPayload": json.loads(given)})):
            jobs.sqs.send_now(queue, [OutgoingMessage(body=body)])


async def test_a_dry_run_counts_a_job_once_whose_items_are_on_two_pages(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(records="failures")
    for _ in range(20):
        shop.jobs.client.submit(shop.note, Note(text="die"), tenant=ACME)
    await shop.jobs.adrain()
    planned = await shop.erase(kind, ACME, dry_run=True)
    assert planned.jobs == 20
    largest = max(size_of(each) for each in _stored(shop))
    monkeypatch.setattr(table, "_PAGE_BYTES", largest + 1)
    assert _counts(await shop.erase(kind, ACME, dry_run=True)) == _counts(planned)


async def test_a_waiting_job_is_ended_unrun_and_erased_by_a_second_run(kind: Kind) -> None:
    shop = Shop()
    shop.wait(ACME)

    erased = await shop.erase(kind, ACME)
    assert erased.cancelled == 1
    [waiting] = shop.of(ACME)
    assert '"payload_ref"' in waiting  # the message, which nobody can take out of its queue

    await shop.jobs.adrain()
    assert shop.jobs.completed(shop.note) == []
    await shop.erase(kind, ACME)
    assert shop.of(ACME) == []


async def test_another_tenants_job_under_the_same_id_keeps_what_may_be_its_own(
    shop: Shop, kind: Kind
) -> None:
    [theirs] = [each for each in _submitted(shop) if each["tenant"]["org"] == OTHER][:1]
    job_id = theirs["id"]
    stolen = Item(pk=partition(job_id), sk="progress", data={"tenant": {"org": ACME}})
    shop.jobs.table._store.put([stolen], [encode(stolen)], None)
    others = shop.of(OTHER)

    await shop.erase(kind, ACME)

    assert shop.of(ACME) == []
    assert shop.of(OTHER) == others


async def test_a_tenants_jobs_leave_the_lists_of_children_that_they_are_in(kind: Kind) -> None:
    shop = Shop()
    parents = [await shop.finish(tenant) for tenant in (ACME, OTHER)]
    for parent in parents:
        for tenant in (ACME, OTHER):
            shop.rerun(parent, tenant)
        shop.rerun(parent, None)
    await shop.jobs.adrain()
    others = shop.of(OTHER)
    planned = await shop.erase(kind, ACME, dry_run=True)

    erased = await shop.erase(kind, ACME)

    assert _counts(planned) == _counts(erased)
    assert erased.jobs == 3
    assert shop.of(ACME) == []
    assert shop.of(OTHER) == others
    left = [[each.tenant for each in shop.jobs.client.jobs.children(p).jobs] for p in parents]
    assert left == [[Tenant(org=OTHER)], [Tenant(org=OTHER), None]]


async def test_a_waiting_child_is_known_by_its_entry_alone_and_cancelled(kind: Kind) -> None:
    shop = Shop(records="outcomes")
    shop.rerun(await shop.finish(OTHER), ACME)

    erased = await shop.erase(kind, ACME)

    assert (erased.jobs, erased.cancelled) == (1, 1)
    await shop.jobs.adrain()
    assert [each.tenant for each in shop.jobs.completed(shop.note)] == [Tenant(org=OTHER)]


async def test_strange_copies_schedules_and_items_are_left_and_counted(
    shop: Shop, kind: Kind
) -> None:
    strange = {"dead-letters/q/day/1.json.gz": b"no gzip", "dead-letters/q/day/2.json.gz": b""}
    shop.jobs.store.objects |= strange
    odd = [Item(pk="job#no-uuid", sk="submitted", data={"tenant": {"org": ACME}})]
    shop.jobs.table._store.put(odd, [encode(each) for each in odd], None)

    erased = await shop.erase(kind, ACME)

    assert erased.unread == 2
    assert erased.complete
    assert shop.jobs.store.objects.items() >= strange.items()


async def test_schedules_are_erased_where_delays_are_short(kind: Kind) -> None:
    app = App("shop", long_delays=False)

    @app.job("daily", schedule=cron("0 8 * * ? *"))
    def daily() -> None: ...

    @app.job("note")
    def note(note: Note) -> None: ...

    jobs = Harness(app)
    for tenant in (ACME, OTHER):
        jobs.client.schedules.create(
            f"of-{tenant}", note, Note(text=""), schedule=Schedule.rate(HOUR), tenant=tenant
        )

    erased = await erase(kind, jobs, ACME)

    assert (erased.schedules, erased.complete) == (1, True)
    assert {each.name for each in jobs.client.schedules.list()} == {"daily", f"of-{OTHER}"}


async def test_schedules_are_not_asked_for_where_the_app_has_none(kind: Kind) -> None:
    jobs = Harness(App("shop", long_delays=False))
    jobs.scheduler.error = ScheduleGroupMissing(jobs.app.topology.schedule_group)

    assert (await erase(kind, jobs, ACME)).complete


async def test_an_erasure_that_failed_is_run_again(shop: Shop, kind: Kind) -> None:
    shop.jobs.store.fail("delete", ServiceUnavailable("S3 is down"))
    with pytest.raises(ServiceUnavailable):
        await shop.erase(kind, ACME)

    erased = await shop.erase(kind, ACME)
    assert erased.complete
    assert shop.of(ACME) == []


async def test_a_tenant_has_a_name(shop: Shop, kind: Kind) -> None:
    with pytest.raises(SettingsInvalid, match="a tenant's name is not empty"):
        await shop.erase(kind, "")


async def test_the_audit_keeps_its_entries_and_no_payload(shop: Shop, kind: Kind) -> None:
    erased = await shop.erase(kind, ACME)

    erasure, *earlier = shop.jobs.client.audit.list(target=ACME).entries
    assert (erasure.action, str(erasure.target)) == ("erase", f"tenant {ACME}")
    assert (erasure.outcome, erasure.count) == ("done", erased.found)
    assert [str(each.target) for each in earlier] == [
        f"schedule of-{ACME}",
        f"dead letters tenants={ACME}",
    ]
    items = shop.jobs.table.sync.query(AUDIT)
    assert "canary" not in repr(items)


def test_progress_is_told_after_each_part(shop: Shop) -> None:
    told: list[int] = []

    shop.jobs.client.erase(tenant=ACME, tell=lambda erased: told.append(erased.found))

    assert len(told) >= 5
    assert told == sorted(told)


def test_killed_before_any_request_and_run_again_nothing_is_left() -> None:
    requests = _cut_off_before(10**6)
    for number in range(requests):
        _cut_off_before(number)


class _Killed(BaseException):
    pass


class _Counted:
    """A port whose requests are counted, and one of which the process does not live to make."""

    def __init__(self, port: object, made: list[int], last: int) -> None:
        self._port, self._made, self._last = port, made, last

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._port, name)

        def counted(*args: Any, **options: Any) -> Any:
            if len(self._made) == self._last:
                raise _Killed
            self._made.append(1)
            return call(*args, **options)

        return counted


def _cut_off_before(last: int) -> int:
    """Cut an erasure off before a request, run another, and look; return how many were made."""
    shop = Shop()
    for tenant in (ACME, OTHER):
        shop.small(tenant)
    for tenant in (ACME, OTHER):
        shop.plan(tenant)
    others, jobs, made = shop.of(OTHER), shop.jobs, list[int]()
    parts = (jobs.sqs.sync, jobs.table.sync, jobs.scheduler.sync, jobs.store.sync)
    sqs, table, scheduler, store = (_Counted(part, made, last) for part in parts)
    backend = over(
        cast("Any", sqs),
        table=cast("Any", table),
        scheduler=cast("Any", scheduler),
        store=cast("Any", store),
        clock=jobs.clock,
        sleep=jobs.clock.advance,
    )
    with suppress(_Killed):
        Client(shop.app, backend=backend).erase(tenant=ACME)
    jobs.clock.advance(timedelta(minutes=10))  # what the killed process held shows again
    shop.jobs.client.erase(tenant=ACME)
    assert shop.of(ACME) == [], f"cut off before request {last}"
    assert shop.of(OTHER) == others
    return len(made)


def _counts(erased: Erased) -> dict[str, Any]:
    return {name: value for name, value in asdict(erased).items() if name != "dry_run"}


def _submitted(shop: Shop) -> list[dict[str, Any]]:
    """Return the submissions that the table holds, with their jobs' ids."""
    items = map(decode, _stored(shop))
    return [
        {**item.data, "id": item.pk.removeprefix(ASKED)} for item in items if item.sk == "submitted"
    ]


def _stored(shop: Shop) -> list[Attributes]:
    store = shop.jobs.table._store
    kept = [items for pk, items in store._partitions.items() if pk != AUDIT]
    return [each for items in kept for each in items.values()]
