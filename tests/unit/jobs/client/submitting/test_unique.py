"""Unique submissions: of identical jobs one counts, and no job is lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from headgate import (
    App,
    AsyncClient,
    AsyncJobHandle,
    Client,
    DeadLetterFilter,
    DoNotRetry,
    JobContext,
    JobState,
    Priority,
    Tenant,
    Unique,
)
from headgate.errors import JobDropped as JobWasDropped
from headgate.jobs.client.submitting.key_claims import PENDING_S
from headgate.jobs.core.clock import SKEW_S
from headgate.jobs.core.events import (
    ClaimFailed,
    Event,
    JobCompleted,
    JobDeduplicated,
    JobDropped,
    JobSubmitted,
)
from headgate.jobs.core.ports.table import Item
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.errors import (
    ConfigurationError,
    OptionInvalid,
    PartlySubmitted,
    ServiceUnavailable,
    SettingsInvalid,
    TransportError,
)
from headgate.jobs.messages.envelope import UniqueBy, parse
from headgate.jobs.submission.prepare import prepare_many
from headgate.jobs.submission.unique_keys import place, unique_by
from headgate.jobs.testing import (
    Harness,
    LoopClock,
    MemorySqs,
    MemoryTable,
)
from tests.support.backends import async_over, over
from tests.support.clients import KINDS, Kind, awaited
from tests.unit.workers.rig import Wire

HOUR = timedelta(hours=1)


class Sync(BaseModel):
    shop: str = "a"
    full: bool = False


class Other(BaseModel):
    number: int = 0


class Bench:
    """A client with in-memory services; its pauses for a claim advance the clock."""

    def __init__(self, kind: Kind, **options: Any) -> None:
        self.app = App("shop")
        self.job: JobType[Sync, None] = self.app.define("sync", Sync, **options)
        self.other = self.app.define("other", Sync)
        self.harness = Harness(self.app)
        self.clock = self.harness.clock
        self.client = (
            awaited(self.harness.client) if kind == "Client" else self.harness.async_client
        )

    async def submit(self, payload: Sync | None = None, **overrides: Any) -> AsyncJobHandle[None]:
        return await self.client.submit(self.job, payload or Sync(), **overrides)

    @property
    def waiting(self) -> list[str]:
        return [each.id for each in self.harness.submitted(self.job)]

    def claimed_by_a_dead_submitter(self, payload: Sync) -> None:
        """Write the claim of a submitter that has died before it sent its job."""
        where, now = place(_by(payload)), self.clock.now()
        claim = Item(
            pk=where.pk,
            sk=where.sk,
            data={"job": "dead", "sent": False, "at": now.timestamp()},
            version=1,
            expires_at=now + HOUR,
        )
        assert self.harness.table.sync.replace(claim) is None

    def heard(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.harness.events if isinstance(event, kind)]


# --- identical jobs ------------------------------------------------------------------------------


def _by(payload: Any = None, tenant: str | None = None, **options: Any) -> UniqueBy:
    payload = payload or Sync()
    named = Tenant(org=tenant) if tenant else None
    return unique_by(Unique(within=HOUR, **options), "sync", payload, payload.model_dump(), named)


def test_the_same_payload_of_the_same_type_and_tenant_has_the_same_key() -> None:
    assert _by() == _by(Sync(shop="a")) != _by(Sync(shop="b"))
    assert _by(tenant="org-1") == _by(tenant="org-1") != _by(tenant="org-2")
    assert _by(tenant="org-1").key != _by().key
    assert _by(keep="last").key != _by().key, "the two don't understand each other's claims"


def test_the_order_of_a_mapping_makes_no_difference() -> None:
    unique = Unique(within=HOUR)
    one = unique_by(unique, "sync", None, {"a": 1, "b": {"c": 2, "d": 3}}, None)
    assert one == unique_by(unique, "sync", None, {"b": {"d": 3, "c": 2}, "a": 1}, None)


def test_an_explicit_key_replaces_the_payload() -> None:
    of_shop: Callable[[Sync], str] = lambda sync: sync.shop  # noqa: E731 - as users write it
    assert _by(Sync(full=True), key=of_shop) == _by(Sync(full=False), key=of_shop)
    assert _by(Sync(shop="x"), key="all") == _by(Sync(shop="y"), key="all")
    assert _by(key="a") == _by(key=of_shop)


def test_a_key_that_reads_like_a_payload_is_none() -> None:
    assert _by(key='{"full":false,"shop":"a"}').key != _by().key


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"within": "1h"}, r"Unique\(within=...\) must be a timedelta or a number .* got '1h'"),
        ({"within": True}, "must be a timedelta or a number of seconds, got True"),
        ({"within": 0}, "must be positive, got 0 s"),
        ({"within": timedelta(seconds=-1)}, "must not be negative"),
        ({"within": float("nan")}, "must be a timedelta or a number of seconds, got nan"),
        ({"within": timedelta(days=365, microseconds=1)}, "at most 365 days"),
        ({"within": 1e300}, "out of range"),
        ({"within": HOUR, "key": 5}, "must be a string or a function of the payload, got 5"),
        ({"within": HOUR, "key": ""}, "must be a string or a function of the payload, got ''"),
        ({"within": HOUR, "keep": "replace"}, "must be 'first' or 'last', got 'replace'"),
    ],
)
def test_values_that_make_no_sense_are_refused_where_they_are_written(
    values: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(SettingsInvalid, match=complaint):
        Unique(**values)


def test_a_number_is_seconds() -> None:
    assert Unique(within=90) == Unique(within=timedelta(seconds=90))
    assert Unique(within=0.5).within == timedelta(milliseconds=500)


@pytest.mark.parametrize("given", [HOUR, True, 0, "replace"])
@pytest.mark.looptime
async def test_an_option_that_is_no_unique_is_refused_with_what_to_write(
    kind: Kind, given: object
) -> None:
    write = r"write unique=Unique\(within=timedelta\(hours=1\)\)"
    with pytest.raises(ConfigurationError, match=f"'sync'.*must be a Unique, .*{write}"):
        Bench(kind, unique=given)
    bench = Bench(kind)
    with pytest.raises(OptionInvalid, match=f"'sync'.*must be a Unique or False, .*{write}"):
        await bench.submit(unique=given)
    assert bench.waiting == []


@pytest.mark.looptime
async def test_the_submissions_own_uniqueness_stands_for_the_types_as_a_whole(kind: Kind) -> None:
    bench = Bench(kind, unique=Unique(within=HOUR, key="all", keep="last"))
    handles = [
        await bench.submit(Sync(shop=shop), unique=Unique(within=HOUR)) for shop in ("a", "b", "a")
    ]
    assert [handle.is_duplicate for handle in handles] == [False, False, True]


def no_text(_sync: Sync) -> Any:
    """Return no key, as a function without a return type might."""


@pytest.mark.looptime
async def test_a_key_that_is_no_text_is_refused_without_showing_the_payload(kind: Kind) -> None:
    bench = Bench(kind, unique=Unique(within=HOUR, key=no_text))
    with pytest.raises(OptionInvalid, match="must return a non-empty string, got None"):
        await bench.submit()


# --- the first counts ----------------------------------------------------------------------------


@pytest.mark.looptime
async def test_the_second_submission_within_the_time_gets_the_first_one_s_job(kind: Kind) -> None:
    bench = Bench(kind)
    first = await bench.submit(unique=Unique(within=HOUR))
    bench.clock.advance(HOUR - timedelta(seconds=1))
    second = await bench.submit(unique=Unique(within=HOUR))
    assert (first.is_duplicate, second.is_duplicate) == (False, True)
    assert first.id == second.id
    assert bench.waiting == [first.id]
    [event] = bench.heard(JobDeduplicated)
    assert (event.kept, event.job_type) == (first.id, "sync")
    assert event.job_id != first.id
    assert len(bench.heard(JobSubmitted)) == 1


@pytest.mark.looptime
async def test_after_the_time_a_submission_counts_again(kind: Kind) -> None:
    bench = Bench(kind, unique=Unique(within=HOUR))
    first = await bench.submit()
    bench.clock.advance(HOUR + timedelta(seconds=1))
    second = await bench.submit()
    assert not second.is_duplicate
    assert bench.waiting == [first.id, second.id]


@pytest.mark.looptime
async def test_what_is_not_the_same_counts_by_itself(kind: Kind) -> None:
    bench = Bench(kind, unique=Unique(within=HOUR))
    await bench.submit()
    await bench.submit(tenant="org-1")
    await bench.submit(Sync(shop="b"))
    await bench.submit(unique=False)
    assert len(bench.waiting) == 4
    assert not bench.heard(JobDeduplicated)


@pytest.mark.looptime
async def test_within_one_call_the_first_job_of_a_key_counts(kind: Kind) -> None:
    bench = Bench(kind, unique=Unique(within=HOUR))
    payloads = [Sync(shop=shop) for shop in "abacbb"]
    handles = await bench.client.submit_many(bench.job, payloads)
    assert [handle.is_duplicate for handle in handles] == [False, False, True, False, True, True]
    ids = {sync.shop: handle.id for sync, handle in zip(payloads[:4], handles[:4], strict=True)}
    assert [ids[sync.shop] for sync in payloads] == [handle.id for handle in handles]
    assert len(bench.waiting) == 3


@pytest.mark.looptime
async def test_a_unique_job_costs_two_requests_to_the_table_and_a_duplicate_one(kind: Kind) -> None:
    bench = Bench(kind, unique=Unique(within=HOUR))
    await bench.submit()
    assert bench.harness.table.calls == ["replace", "replace"]
    await bench.submit()
    assert bench.harness.table.calls == ["replace", "replace", "replace"]


@pytest.mark.looptime
async def test_a_submission_that_is_not_unique_asks_the_table_for_nothing(kind: Kind) -> None:
    bench = Bench(kind)
    await bench.submit()
    assert bench.harness.table.calls == []


@pytest.mark.looptime
async def test_what_could_not_be_sent_is_not_in_the_way_of_the_next(kind: Kind) -> None:
    bench = Bench(kind, unique=Unique(within=HOUR))
    bench.harness.sqs.faults.raise_on("send", ServiceUnavailable("gone"), times=10)
    with pytest.raises(ServiceUnavailable):
        await bench.submit()
    bench.harness.sqs.faults.clear()
    handle = await bench.submit()
    assert not handle.is_duplicate
    assert bench.waiting == [handle.id]


@pytest.mark.looptime
async def test_refused_unique_jobs_are_listed_and_can_be_submitted_again(
    kind: Kind,
) -> None:
    bench = Bench(kind, unique=Unique(within=HOUR))
    bench.harness.sqs.faults.fail_entries("send", sender_fault=True, indexes=[1])
    payloads = [Sync(shop=shop) for shop in "aabbc"]
    with pytest.raises(PartlySubmitted) as raised:
        await bench.client.submit_many(bench.job, payloads)
    assert [refusal.index for refusal in raised.value.refusals] == [2, 3]
    assert raised.value.submitted == 5
    assert len(bench.waiting) == 2
    assert not (await bench.submit(Sync(shop="b"))).is_duplicate
    assert (await bench.submit(Sync(shop="c"))).is_duplicate


@pytest.mark.looptime
async def test_without_the_table_nothing_is_sent(kind: Kind) -> None:
    bench = Bench(kind, unique=Unique(within=HOUR))
    bench.harness.table.missing = True
    with pytest.raises(TransportError):
        await bench.submit()
    assert bench.waiting == []


@pytest.mark.looptime
async def test_a_claim_whose_answer_was_lost_is_not_in_the_way_of_the_next(kind: Kind) -> None:
    bench = Bench(kind, unique=Unique(within=HOUR))
    error = ServiceUnavailable("gone")
    bench.harness.table.faults.raise_on("replace", error, applied=True)
    with pytest.raises(ServiceUnavailable):
        await bench.submit()
    assert bench.waiting == []
    assert not (await bench.submit()).is_duplicate


@pytest.mark.looptime
async def test_a_job_that_was_sent_counts_though_its_claim_could_not_say_so(kind: Kind) -> None:
    bench = Bench(kind, unique=Unique(within=HOUR))
    faults = bench.harness.table.faults
    faults.slow_down("replace", 0)  # hits the first call
    faults.raise_on("replace", ServiceUnavailable("gone"))
    first = await bench.submit()
    assert not first.is_duplicate
    [failed] = bench.heard(ClaimFailed)
    assert failed.action == "confirm"
    second = await bench.submit()
    assert not second.is_duplicate, "nobody can know that the first was sent"
    assert bench.waiting == [first.id, second.id]


@pytest.mark.looptime
async def test_a_claim_of_a_submitter_that_died_is_taken_over_when_it_must_be_dead(
    kind: Kind,
) -> None:
    bench = Bench(kind, unique=Unique(within=HOUR))
    began = bench.clock.now()
    bench.claimed_by_a_dead_submitter(Sync())
    handle = await bench.submit()
    waited_s = (bench.clock.now() - began).total_seconds()
    assert PENDING_S + SKEW_S <= waited_s < PENDING_S + SKEW_S + 1
    assert bench.waiting == [handle.id]
    assert (await bench.submit()).id == handle.id


@pytest.mark.looptime
async def test_an_outage_after_the_first_jobs_of_a_call_lists_those_that_sqs_has(
    kind: Kind,
) -> None:
    bench = Bench(kind, unique=Unique(within=HOUR))
    bench.claimed_by_a_dead_submitter(Sync(shop="b"))
    faults = bench.harness.sqs.faults
    faults.fail_entries("send", indexes=[9])  # hits the first call, which has no such entry
    faults.raise_on("send", ServiceUnavailable("gone"), times=10)
    payloads = [Sync(shop=shop) for shop in "abab"]
    with pytest.raises(PartlySubmitted, match=r"did not take 2 of 4 jobs.*gone") as raised:
        await bench.client.submit_many(bench.job, payloads)
    faults.clear()
    assert [refusal.index for refusal in raised.value.refusals] == [1, 3]
    assert len({refusal.id for refusal in raised.value.refusals}) == 2
    assert set(raised.value.sent) == set(bench.waiting)
    assert len(bench.waiting) == 1
    assert not (await bench.submit(Sync(shop="b"))).is_duplicate


@pytest.mark.looptime
async def test_in_an_outage_a_call_does_not_wait_for_the_claims_of_others(kind: Kind) -> None:
    bench = Bench(kind, unique=Unique(within=HOUR))
    bench.claimed_by_a_dead_submitter(Sync(shop="b"))
    bench.harness.sqs.faults.raise_on("send", ServiceUnavailable("gone"), times=10)
    began = bench.clock.now()
    with pytest.raises(ServiceUnavailable):
        await bench.client.submit_many(bench.job, [Sync(shop=shop) for shop in "ab"])
    assert (bench.clock.now() - began).total_seconds() < PENDING_S


def _looped_shop() -> tuple[App, JobType[Sync, None], LoopClock]:
    """Return an app with a unique type, and the event loop's clock; within a running loop."""
    app = App("shop")
    return app, app.define("sync", Sync, unique=Unique(within=HOUR)), LoopClock()


@pytest.mark.looptime
async def test_a_hundred_submissions_at_a_time_by_ten_clients_send_one_job() -> None:
    app, sync, clock = _looped_shop()
    sqs, table = MemorySqs(clock), MemoryTable(clock)
    sqs.provision(app.topology)
    wire = Wire(sqs)
    wire.requests["send"] = lambda: asyncio.sleep(0.5)
    clients = [
        AsyncClient(app, backend=async_over(wire, table=table, clock=clock)) for _ in range(10)
    ]
    handles = await asyncio.gather(
        *(client.submit(sync, Sync()) for client in clients for _ in range(10))
    )
    assert clock.monotonic() < 2, "they wait for the one that sends, and no longer"
    assert len({handle.id for handle in handles}) == 1
    assert sum(not handle.is_duplicate for handle in handles) == 1
    [message] = sqs.messages("shop-jobs-normal")
    assert str(parse(message.body).id) == handles[0].id
    for client in clients:
        await client.close()


@pytest.mark.looptime
async def test_a_claim_is_renewed_while_sqs_keeps_its_sender_waiting() -> None:
    app, sync, clock = _looped_shop()
    sqs, table = MemorySqs(clock), MemoryTable(clock)
    sqs.provision(app.topology)
    hung = Wire(sqs)
    hung.requests["send"] = lambda: asyncio.sleep(4 * PENDING_S)
    async with (
        AsyncClient(app, backend=async_over(hung, table=table, clock=clock)) as slow,
        AsyncClient(app, backend=async_over(sqs, table=table, clock=clock)) as other,
    ):
        first = asyncio.create_task(slow.submit(sync, Sync()))
        await asyncio.sleep(1)
        second = await other.submit(sync, Sync())
        assert second.is_duplicate
        assert second.id == (await first).id
    assert len(sqs.messages("shop-jobs-normal")) == 1


@pytest.mark.looptime
async def test_a_call_that_is_cancelled_while_sqs_is_asked_settles_its_claim() -> None:
    app, sync, clock = _looped_shop()
    sqs, table = MemorySqs(clock), MemoryTable(clock)
    sqs.provision(app.topology)
    slow = Wire(sqs)
    slow.requests["send"] = lambda: asyncio.sleep(2)
    async with AsyncClient(app, backend=async_over(slow, table=table, clock=clock)) as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await client.submit(sync, Sync())
        await asyncio.sleep(4 * PENDING_S)
        assert (await client.submit(sync, Sync())).is_duplicate
    assert len(sqs.messages("shop-jobs-normal")) == 1


def test_a_synchronous_submitter_renews_its_claim_while_sending() -> None:
    bench = Bench("Client", unique=Unique(within=HOUR))
    renewed, table = threading.Event(), bench.harness.table.sync
    written: list[Item] = []

    class Told:
        def replace(self, item: Item) -> Item | None:
            written.append(item)
            if len(written) == 2:
                renewed.set()
            return table.replace(item)

        def __getattr__(self, name: str) -> Any:
            return getattr(table, name)

    class Hung:
        def send(self, queue: str, messages: Any) -> Any:
            assert renewed.wait(10), "the claim was not renewed while SQS did not answer"
            return bench.harness.sqs.sync.send(queue, messages)

    hung: Any = Hung()
    told: Any = Told()
    with (
        mock.patch("headgate.jobs.client.submitting.unique.RENEWED_S", 0.001),
        Client(bench.app, backend=over(hung, table=told, clock=bench.clock)) as client,
    ):
        handle = client.submit(bench.job, Sync())
    assert not written[1].data["sent"]
    assert written[-1].data["sent"]
    assert bench.harness.client.submit(bench.job, Sync()).id == handle.id


@pytest.mark.looptime
async def test_calls_with_the_same_keys_in_another_order_do_not_deadlock() -> None:
    app, sync, clock = _looped_shop()
    sqs, table = MemorySqs(clock), MemoryTable(clock)
    sqs.provision(app.topology)
    shops = [Sync(shop=str(number)) for number in range(20)]
    async with AsyncClient(app, backend=async_over(sqs, table=table, clock=clock)) as client:
        forth, back = await asyncio.gather(
            client.submit_many(sync, shops), client.submit_many(sync, shops[::-1])
        )
    assert clock.monotonic() < PENDING_S
    assert [handle.id for handle in forth] == [handle.id for handle in back[::-1]]
    assert len(sqs.messages("shop-jobs-normal")) == 20


@given(
    kind=st.sampled_from(KINDS),
    plan=st.lists(
        st.tuples(
            st.sampled_from(["submit", "submit", "submit", "lose", "refuse", "away", "wait"]),
            st.integers(0, 2),
        ),
        max_size=12,
    ),
)
@pytest.mark.looptime
async def test_every_submission_that_returned_has_its_job_in_the_queue(
    kind: Kind,
    plan: list[tuple[str, int]],
) -> None:
    bench = Bench(kind, unique=Unique(within=timedelta(minutes=10)))
    for action, number in plan:
        match action:
            case "lose":
                fault = ServiceUnavailable("no answer")
                bench.harness.table.faults.raise_on("replace", fault, applied=bool(number))
            case "refuse":
                bench.harness.sqs.faults.raise_on("send", ServiceUnavailable("gone"))
            case "away":
                bench.harness.table.faults.raise_on(None, ServiceUnavailable("away"), times=2)
            case "wait":
                bench.clock.advance(timedelta(minutes=4 * number))
            case _:
                try:
                    handle = await bench.submit(Sync(shop=str(number)))
                except TransportError:
                    continue
                assert handle.id in bench.waiting


# --- the last counts -----------------------------------------------------------------------------


def _last_counts() -> tuple[Harness, JobType[Sync, None], list[str]]:
    """Return a type of which the last submission within an hour counts, and the ids that ran."""
    app = App("shop")
    ran: list[str] = []

    @app.job("index", unique=Unique(within=HOUR, keep="last"))
    async def index(_sync: Sync, ctx: JobContext) -> None:
        ran.append(ctx.id)

    return Harness(app), index, ran


def test_a_later_submission_replaces_an_earlier_one_that_has_not_started() -> None:
    ran = []
    app = App("shop")

    @app.job(
        "index",
        unique=Unique(within=timedelta(minutes=5), key=lambda sync: sync.shop, keep="last"),
    )
    async def index(sync: Sync, ctx: JobContext) -> None:
        ran.append((sync.shop, sync.full, ctx.id))

    jobs = Harness(app)
    handles = []
    for full in (False, False, True):
        handles.append(jobs.client.submit(index, Sync(full=full), delay=timedelta(seconds=10)))
        jobs.clock.advance(3)
    other = jobs.client.submit(index, Sync(shop="b"))
    jobs.drain()
    assert ran == [("b", False, other.id), ("a", True, handles[-1].id)]
    assert not any(handle.is_duplicate for handle in handles)
    dropped = [event for event in jobs.events if isinstance(event, JobDropped)]
    assert [(event.job_id, event.kind, event.reason) for event in dropped] == [
        (handle.id, "replaced", f"replaced by the job {handles[-1].id}") for handle in handles[:2]
    ]
    assert len(jobs.completed(index)) == 2
    assert jobs.submitted(index) == []


@pytest.mark.parametrize(
    ("first_s", "then_s", "second_s"),
    [(3600, 300, 3600), (840, 60, 0), (3600, 60, 0), (60, 1, 3600)],
    ids=["by schedules", "the later one sooner", "a schedule's sooner", "the later one later"],
)
@pytest.mark.parametrize("is_fifo", [False, True])
def test_a_job_that_was_replaced_is_dropped_however_long_it_waited(
    is_fifo: bool, first_s: float, then_s: float, second_s: float
) -> None:
    ran: list[str] = []
    app = App("shop")
    queue = app.queue("index", fifo=True) if is_fifo else app.queue("index")
    unique = Unique(within=timedelta(minutes=5), keep="last")
    ordered: dict[str, Any] = {"group_by": lambda _sync: "all"} if is_fifo else {}

    @queue.job("index", unique=unique, **ordered)
    async def index(_sync: Sync, ctx: JobContext) -> None:
        ran.append(ctx.id)

    jobs = Harness(app)
    first = jobs.client.submit(index, Sync(), delay=first_s)
    jobs.clock.advance(then_s)
    second = jobs.client.submit(index, Sync(), delay=second_s or None)
    jobs.drain()
    assert ran == [second.id]
    assert first.state() is JobState.DROPPED


def test_a_job_that_has_run_is_not_in_the_way_of_the_next() -> None:
    jobs, index, ran = _last_counts()
    ids = []
    for _ in range(3):
        ids.append(jobs.client.submit(index, Sync()).id)
        jobs.drain()
    assert ran == ids


def test_of_submissions_within_one_millisecond_the_last_replaces_the_others() -> None:
    app = App("shop")
    ran = []

    @app.job("index", unique=Unique(within=HOUR, keep="last", key="all"))
    async def index(sync: Sync) -> None:
        ran.append(sync.shop)

    jobs = Harness(app)
    for number in range(20):
        jobs.client.submit(index, Sync(shop=str(number)))
    jobs.drain()
    assert ran == ["19"]


@pytest.mark.looptime
async def test_of_one_call_the_last_of_a_key_replaces_the_others_unsent(kind: Kind) -> None:
    bench = Bench(kind, unique=Unique(within=HOUR, keep="last", key=lambda sync: sync.shop))
    payloads = [Sync(shop="a"), Sync(shop="b"), Sync(shop="a", full=True)]
    handles = await bench.client.submit_many(bench.job, payloads)
    assert [handle.is_duplicate for handle in handles] == [True, False, False]
    assert handles[0].id == handles[2].id
    assert set(bench.waiting) == {handles[1].id, handles[2].id}


def test_a_replacement_that_can_not_be_sent_leaves_the_one_before() -> None:
    jobs, index, ran = _last_counts()
    first = jobs.client.submit(index, Sync())
    jobs.clock.advance(1)
    jobs.sqs.faults.raise_on("send", ServiceUnavailable("gone"), times=10)
    with pytest.raises(ServiceUnavailable):
        jobs.client.submit(index, Sync())
    jobs.sqs.faults.clear()
    jobs.drain()
    assert ran == [first.id]


def test_without_the_table_both_run_rather_than_none() -> None:
    jobs, index, ran = _last_counts()
    ids = [jobs.client.submit(index, Sync()).id]
    jobs.clock.advance(1)
    for action in ("replace", "get"):
        jobs.table.faults.raise_on(action, ServiceUnavailable("away"), times=100)
    ids.append(jobs.client.submit(index, Sync()).id)
    jobs.drain()
    assert sorted(ran) == sorted(ids)
    failed = [event.action for event in jobs.events if isinstance(event, ClaimFailed)]
    assert sorted(failed) == ["confirm", "look", "look"]


def test_a_replaced_job_is_told_as_dropped_and_as_nothing_else() -> None:
    jobs, index, _ = _last_counts()
    first = jobs.client.submit(index, Sync())
    jobs.clock.advance(1)
    later = jobs.client.submit(index, Sync())
    jobs.drain()
    told = [type(each) for each in jobs.events if getattr(each, "job_id", None) == first.id]
    assert told == [JobSubmitted, JobDropped]
    assert later.state() is JobState.COMPLETED
    assert first.state() is JobState.DROPPED
    assert first.history().attempts == ()
    with pytest.raises(JobWasDropped, match=f"without a run: replaced by the job {later.id}") as no:
        first.result()
    assert (no.value.job_id, no.value.kind) == (first.id, "replaced")


def test_a_completed_job_stays_so_when_its_second_message_is_dropped() -> None:
    jobs, index, _ = _last_counts()
    first = jobs.client.submit(index, Sync())
    [message] = jobs.sqs.messages("shop-jobs-normal")
    jobs.drain()
    jobs.clock.advance(1)
    jobs.client.submit(index, Sync())
    jobs.sqs.sync.send("shop-jobs-normal", [OutgoingMessage(body=message.body)])
    jobs.drain()
    told = [type(each) for each in jobs.events if getattr(each, "job_id", None) == first.id]
    assert told.count(JobCompleted) == told.count(JobDropped) == 1
    assert first.state() is JobState.COMPLETED
    assert first.result() is None


# --- in a handler --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["async", "plain"])
def test_a_handler_that_submits_a_duplicate_gets_the_first_jobs_handle(kind: str) -> None:
    app = App("shop")
    sync = app.define("sync", Sync, unique=Unique(within=HOUR))
    got: list[Any] = []

    @sync.handler
    async def _(_sync: Sync) -> None: ...

    if kind == "async":

        @app.job("order", priority=Priority.HIGH)
        async def order(_other: Other, ctx: JobContext) -> None:
            got.append(await ctx.submit(sync, Sync()))
    else:

        @app.job("order", priority=Priority.HIGH)
        def order(_other: Other, ctx: JobContext) -> None:
            got.append(ctx.submit(sync, Sync()))

    jobs = Harness(app)
    for number in range(3):
        jobs.client.submit(order, Other(number=number))
    jobs.drain()
    assert [handle.is_duplicate for handle in got] == [False, True, True]
    assert len({handle.id for handle in got}) == 1
    assert len(jobs.completed(sync)) == 1


def test_a_submission_that_is_made_again_under_its_own_id_is_sent_once() -> None:
    bench = Bench("Client", unique=Unique(within=HOUR))
    now = bench.clock.now()
    [submission] = prepare_many(bench.app, bench.app.topology, bench.job, [Sync()], {}, now)
    for _ in range(3):
        [became] = bench.harness.client._deliver([submission])
        assert became.id == submission.id
        assert became.duplicate_of is None
    assert bench.waiting == [submission.id]
    assert not bench.heard(JobDeduplicated)


def test_a_job_that_has_died_keeps_its_key_and_is_replayed_under_its_id() -> None:
    app, runs = App("shop"), list[int]()

    @app.job("pay", unique=Unique(within=timedelta(hours=1)))
    def pay(order: int) -> None:
        runs.append(order)
        if len(runs) == 1:
            raise DoNotRetry("the card is refused")

    jobs = Harness(app)
    first = jobs.client.submit(pay, 7)
    jobs.drain()
    again = jobs.client.submit(pay, 7)
    assert (again.is_duplicate, again.id, again.state()) == (True, first.id, JobState.DEAD)
    jobs.clock.advance(1)
    assert jobs.client.dead_letters.replay(DeadLetterFilter(ids=(first.id,))).sent == 1
    jobs.drain()
    assert (runs, first.state()) == ([7, 7], JobState.COMPLETED)
    assert not jobs.client.submit(pay, 7, unique=False).is_duplicate
