"""``fallback="inline"``: jobs run where they are submitted while SQS can't be reached."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from headgate import (
    App,
    AsyncClient,
    Backoff,
    Client,
    Discard,
    DoNotRetry,
    Events,
    JobContext,
    Retry,
    RetryLater,
    Unique,
)
from headgate.jobs.client.inline.course import LONGEST_S
from headgate.jobs.core.batcher import Pacing
from headgate.jobs.core.clock import Clock, SystemClock
from headgate.jobs.core.events import (
    Event,
    JobCompleted,
    JobDeadLettered,
    JobFailed,
    JobInline,
    JobRetryScheduled,
    JobStarted,
    JobSubmitted,
)
from headgate.jobs.errors import (
    AccessDenied,
    AppImportError,
    HandlerMissing,
    InlineFailed,
    PartlySubmitted,
    ServiceUnavailable,
)
from headgate.jobs.testing import MemorySqs, MemoryTable, VirtualClock
from tests.support.backends import over
from tests.support.clients import Kind, client_of
from tests.support.spool_bench import EMAIL, FOR_EVER, NORMAL, Email

OUTAGE = ServiceUnavailable("no connection")
AT_ONCE = Retry(max_attempts=3, backoff=Backoff.fixed(0))


class Pool:
    """A resource."""

    open = 0


class Database:
    """A resource that can't be opened."""

    def __init__(self) -> None:
        raise ConnectionRefusedError("no database")


class Rig:
    """An app whose handlers record what they do, on an unreachable SQS."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.app = App("shop", stage="test")
        self.did: list[Any] = []
        self.errors: list[BaseException] = []
        """The errors that the next attempts raise."""
        self.events: list[Event] = []

        @self.app.resource
        async def pool() -> AsyncIterator[Pool]:
            Pool.open += 1
            yield Pool()
            Pool.open -= 1

        @self.app.job("send-email", retry=AT_ONCE)
        async def send_email(email: Email, ctx: JobContext, pool: Pool) -> None:
            self._do(f"{email.to} #{ctx.attempt} pool {pool.open}")

        @self.app.job("plain", retry=AT_ONCE)
        def plain(email: Email, ctx: JobContext) -> None:
            self._do(f"{email.to} #{ctx.attempt}")

        @self.app.job("slow-to-retry", retry=Retry(max_attempts=3, backoff=Backoff.fixed(60)))
        async def slow_to_retry(email: Email) -> None:
            self._do(email.to)

        @self.app.job("isolated", isolation="process")
        def isolated(email: Email) -> None:
            self._do(email.to)

        @self.app.job("charge", once=True)
        async def charge(email: Email) -> None:
            self._do(email.to)

        @self.app.job("parent", retry=AT_ONCE)
        async def parent(email: Email, ctx: JobContext) -> None:
            self._do("parent")
            await ctx.submit(plain, email, unique=Unique(within=timedelta(hours=1)))

        self.email, self.plain, self.slow_to_retry = send_email, plain, slow_to_retry
        self.isolated, self.parent, self.charge = isolated, parent, charge
        self.clock = VirtualClock()
        self.sqs = MemorySqs(self.clock)
        self.table = MemoryTable(self.clock)
        self.sqs.provision(self.app.topology)
        self.sqs.faults.raise_on("send", OUTAGE, times=FOR_EVER)
        self.clients_clock: Clock = SystemClock()

    def client(self) -> AsyncClient:
        """Return a client that falls back; a synchronous one runs jobs in a thread."""
        return client_of(
            self.kind,
            self.app,
            self.sqs,
            table=self.table,
            clock=self.clients_clock,
            pacing=Pacing(tries=1),
            in_thread=True,
            events=Events(self.events.append),
            fallback="inline",
        )

    def told(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def _do(self, what: str) -> None:
        self.did.append(what)
        if self.errors:
            raise self.errors.pop(0)


@pytest.fixture
def rig(kind: Kind) -> Rig:
    return Rig(kind)


async def test_when_submit_returns_the_job_has_run_with_its_resources(rig: Rig) -> None:
    handle = await rig.client().submit(rig.email, EMAIL)
    assert rig.did == ["ada@example.com #1 pool 1"]
    assert Pool.open == 0
    [inline] = rig.told(JobInline)
    assert (inline.job_id, inline.reason) == (handle.id, "no connection")
    assert [type(event) for event in rig.events] == [JobInline, JobStarted, JobCompleted]


async def test_a_synchronous_handler_runs_in_place_too(rig: Rig) -> None:
    await rig.client().submit(rig.plain, EMAIL)
    assert rig.did == ["ada@example.com #1"]


async def test_many_inline_jobs_run_in_the_order_of_submission(rig: Rig) -> None:
    await rig.client().submit_many(rig.plain, [Email(to=str(number)) for number in range(12)])
    assert rig.did == [f"{number} #1" for number in range(12)]


async def test_a_failure_is_tried_again_by_the_policy_of_its_type(rig: Rig) -> None:
    rig.errors = [ConnectionError("reset"), ConnectionError("reset")]
    await rig.client().submit(rig.plain, EMAIL)
    assert [what[-2:] for what in rig.did] == ["#1", "#2", "#3"]
    assert len(rig.told(JobFailed)) == len(rig.told(JobRetryScheduled)) == 2


async def test_a_job_that_is_given_up_raises_with_its_own_error_as_the_cause(rig: Rig) -> None:
    last = ConnectionError("the third")
    rig.errors = [ConnectionError("the first"), ConnectionError("the second"), last]
    with pytest.raises(InlineFailed, match=r"'plain' .* after 3 attempt.*the third") as raised:
        await rig.client().submit(rig.plain, EMAIL)
    assert raised.value.__cause__ is last
    assert raised.value.attempts == 3
    assert raised.value.job_type == "plain"
    assert rig.told(JobDeadLettered) == []  # there is none


async def test_an_error_that_is_not_worth_another_attempt_is_raised_at_once(rig: Rig) -> None:
    rig.errors = [DoNotRetry("the address is gone")]
    with pytest.raises(InlineFailed, match="after 1 attempt"):
        await rig.client().submit(rig.plain, EMAIL)


async def test_a_retry_beyond_the_submitters_patience_is_given_up(rig: Rig) -> None:
    rig.errors = [ConnectionError("reset")]
    with pytest.raises(InlineFailed) as raised:
        await rig.client().submit(rig.slow_to_retry, EMAIL)
    assert isinstance(raised.value.__cause__, ConnectionError)
    assert len(rig.did) == 1


async def test_a_job_that_asks_for_a_later_run_is_given_up_and_says_so(rig: Rig) -> None:
    rig.errors = [RetryLater(timedelta(minutes=1), "the shop is closed")]
    with pytest.raises(InlineFailed, match="the shop is closed"):
        await rig.client().submit(rig.plain, EMAIL)


async def test_a_job_that_discards_itself_is_done(rig: Rig) -> None:
    rig.errors = [Discard("not needed")]
    await rig.client().submit(rig.plain, EMAIL)


async def test_of_many_each_failure_is_listed_and_the_others_have_run(rig: Rig) -> None:
    rig.errors = [DoNotRetry("the address is gone")]
    with pytest.raises(PartlySubmitted) as raised:
        await rig.client().submit_many(rig.plain, [EMAIL] * 3)
    [refusal] = raised.value.refusals
    assert (refusal.index, refusal.code) == (0, "InlineFailed")
    assert len(rig.did) == 3


@pytest.mark.parametrize(
    ("job", "delay", "why"),
    [
        ("plain", timedelta(seconds=1), "it has a delay, and is not due yet"),
        ("isolated", None, "'isolated' has isolation=\"process\""),
        ("charge", None, "'charge' has once=True, and without the table nothing could claim it"),
    ],
)
async def test_a_job_that_may_not_run_in_place_is_refused_and_the_error_says_why(
    rig: Rig, job: str, delay: timedelta | None, why: str
) -> None:
    client = rig.client()
    options: dict[str, Any] = {"delay": delay} if delay else {}
    with pytest.raises(ServiceUnavailable) as refused:
        await client.submit(getattr(rig, job), EMAIL, **options)
    assert f"it was not run in place either: {why}" in str(refused.value)
    assert refused.value.__cause__ is not None
    assert rig.did == []


async def test_what_a_job_submits_while_it_runs_in_place_runs_in_place_as_well(rig: Rig) -> None:
    client = rig.client()
    await client.submit(rig.parent, EMAIL)
    await client.submit(rig.parent, EMAIL)
    assert rig.did == ["parent", "ada@example.com #1", "parent"], "the child is unique"


@pytest.mark.parametrize("plain", [False, True])
async def test_a_unique_job_that_submits_its_equal_in_place_gets_its_own_handle(
    rig: Rig, *, plain: bool
) -> None:
    once = Unique(within=timedelta(hours=1))
    if plain:

        @rig.app.job("poll", unique=once, timeout=10)
        def poll_in_thread(email: Email, ctx: JobContext) -> None:
            rig.did.append(ctx.submit(poll_in_thread, email).id)

        job = await rig.client().submit(poll_in_thread, EMAIL)
    else:

        @rig.app.job("poll", unique=once, timeout=10)
        async def poll(email: Email, ctx: JobContext) -> None:
            rig.did.append((await ctx.submit(poll, email)).id)

        job = await rig.client().submit(poll, EMAIL)
    assert rig.did == [job.id]


async def test_when_sqs_takes_the_job_nothing_runs_here(rig: Rig) -> None:
    rig.sqs.faults.clear()
    await rig.client().submit(rig.plain, EMAIL)
    assert rig.did == []
    assert len(rig.sqs.messages(NORMAL)) == len(rig.told(JobSubmitted)) == 1


async def test_an_error_that_is_no_outage_is_raised_and_nothing_runs(rig: Rig) -> None:
    rig.sqs.faults.clear()
    rig.sqs.faults.raise_on("send", AccessDenied("no"))
    with pytest.raises(AccessDenied):
        await rig.client().submit(rig.plain, EMAIL)
    assert rig.did == []


async def test_a_resource_that_cannot_be_opened_is_the_cause_of_the_failure(rig: Rig) -> None:
    @rig.app.resource
    async def database() -> AsyncIterator[Database]:
        yield Database()

    with pytest.raises(InlineFailed, match="no database") as raised:
        await rig.client().submit(rig.plain, EMAIL)
    assert isinstance(raised.value.__cause__, ConnectionRefusedError)


async def test_a_synchronous_client_runs_inline_even_inside_an_event_loop() -> None:
    rig = Rig("Client")
    client = Client(rig.app, fallback="inline", backend=over(rig.sqs.sync))
    client.submit(rig.email, EMAIL)  # in the loop's own thread, which it blocks
    assert len(rig.did) == 1


async def test_a_missing_handler_is_reported_at_the_first_submission(
    rig: Rig,
) -> None:
    rig.app.define("no-handler", Email)
    rig.sqs.faults.clear()
    with pytest.raises(HandlerMissing, match="no-handler"):
        await rig.client().submit(rig.plain, EMAIL)
    assert rig.sqs.calls == []


def test_handlers_are_imported_when_the_client_is_entered() -> None:
    app = App("shop", stage="test", handlers=["no.such.module"])
    client = Client(app, fallback="inline", backend=over(MemorySqs(VirtualClock()).sync))
    with pytest.raises(AppImportError, match=r"no\.such\.module"), client:
        pass


async def test_an_async_submission_that_is_cancelled_ends_the_job_that_runs_for_it() -> None:
    rig = Rig("AsyncClient")
    began = asyncio.Event()
    ended: list[str] = []

    @rig.app.job("long")
    async def long(_email: Email) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("long")

    submitting = asyncio.create_task(rig.client().submit(long, EMAIL))
    await began.wait()
    submitting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await submitting
    assert ended == ["long"]


# --- chains and long lists -----------------------------------------------------------------------


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_chain_of_jobs_nests_no_thread_and_no_call_per_level(
    rig: Rig, is_async: bool
) -> None:
    threads: set[int] = set()

    async def links(email: Email, ctx: JobContext) -> None:
        threads.add(threading.active_count())
        if (left := int(email.to)) > 0:
            await ctx.submit(chain, Email(to=str(left - 1)))
            rig.did.append(left)  # it continues before the next one runs

    def links_synchronously(email: Email, ctx: JobContext) -> None:
        threads.add(threading.active_count())
        if (left := int(email.to)) > 0:
            _ = ctx.submit(chain, Email(to=str(left - 1)))
            rig.did.append(left)

    chain = rig.app.job("chain", retry=AT_ONCE)(links if is_async else links_synchronously)
    await rig.client().submit(chain, Email(to="40"))
    assert rig.did == list(range(40, 0, -1))
    assert len(rig.told(JobCompleted)) == 41
    # Pools add a few threads of their own, and tests before this one may leave some that are
    # ending; a thread for each level would add 40.
    assert max(threads) - min(threads) < 20


async def test_a_chain_without_an_end_is_ended_after_a_minute(rig: Rig) -> None:
    clock = rig.clients_clock = VirtualClock()

    @rig.app.job("chain", retry=AT_ONCE)
    async def chain(email: Email, ctx: JobContext) -> None:
        clock.advance(1)
        rig.did.append("chain")
        await ctx.submit(chain, email)

    with pytest.raises(InlineFailed) as raised:
        await rig.client().submit(chain, EMAIL)
    assert len(rig.did) == LONGEST_S
    assert isinstance(raised.value.__cause__, ServiceUnavailable), "as without a fallback"


async def test_what_a_job_submitted_and_a_minute_had_no_room_for_is_told(rig: Rig) -> None:
    clock = rig.clients_clock = VirtualClock()

    @rig.app.job("slow")
    async def slow(_email: Email) -> None:
        clock.advance(40)
        rig.did.append("slow")

    @rig.app.job("spreads")
    async def spreads(email: Email, ctx: JobContext) -> None:
        for _ in range(4):
            await ctx.submit(slow, email)

    with pytest.raises(InlineFailed, match="not begun within 60 s of the call") as raised:
        await rig.client().submit(spreads, EMAIL)
    assert raised.value.attempts == 0
    assert rig.did == ["slow", "slow"]


async def test_inline_jobs_not_started_within_a_minute_are_refused(
    rig: Rig,
) -> None:
    clock = rig.clients_clock = VirtualClock()

    @rig.app.job("slow")
    async def slow(_email: Email) -> None:
        clock.advance(25)
        rig.did.append("slow")

    with pytest.raises(PartlySubmitted) as raised:
        await rig.client().submit_many(slow, [EMAIL] * 8)
    assert len(rig.did) == 3
    assert [refusal.index for refusal in raised.value.refusals] == [3, 4, 5, 6, 7]
    assert {refusal.code for refusal in raised.value.refusals} == {"ServiceUnavailable"}


async def test_the_waits_of_a_long_list_are_bounded_together(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.jobs.client.inline.course.PATIENCE_S", 1.5)
    slow_to_retry = Retry(max_attempts=2, backoff=Backoff.fixed(1))

    @rig.app.job("flaky", retry=slow_to_retry)
    async def flaky(_email: Email) -> None:
        rig.did.append("flaky")
        raise ConnectionError("reset")

    with pytest.raises(PartlySubmitted) as raised:
        await rig.client().submit_many(flaky, [EMAIL] * 3)
    assert len(raised.value.refusals) == 3
    assert len(rig.did) == 4, "the first is tried again, and there is no time for the others"


async def test_the_failure_of_a_nested_inline_job_reaches_the_submitter(
    rig: Rig,
) -> None:
    @rig.app.job("fails", retry=AT_ONCE)
    async def fails(_email: Email) -> None:
        raise DoNotRetry("the address is gone")

    @rig.app.job("starts-it", retry=AT_ONCE)
    async def starts_it(email: Email, ctx: JobContext) -> None:
        await ctx.submit(fails, email)
        rig.did.append("started it")

    with pytest.raises(InlineFailed, match="the address is gone") as raised:
        await rig.client().submit(starts_it, EMAIL)
    assert raised.value.job_type == "fails"
    assert rig.did == ["started it"], "which has not failed, and is not tried again"


async def test_what_a_job_has_left_behind_submits_in_a_call_of_its_own() -> None:
    rig = Rig("AsyncClient")
    client = rig.client()
    over, left = asyncio.Event(), list[asyncio.Task[Any]]()

    async def later() -> None:
        await over.wait()
        await client.submit(rig.plain, EMAIL)

    @rig.app.job("leaves")
    async def leaves(_email: Email) -> None:
        left.append(asyncio.create_task(later()))

    await client.submit(leaves, EMAIL)
    assert rig.did == []
    over.set()
    await left[0]
    assert rig.did == ["ada@example.com #1"]


async def test_a_result_that_json_can_not_hold_fails_its_submission(rig: Rig) -> None:
    @rig.app.job("odd")
    async def odd(_email: Email) -> object:
        return object()

    with pytest.raises(InlineFailed, match="ResultNotSerializable: the handler returned an object"):
        await rig.client().submit(odd, EMAIL)
