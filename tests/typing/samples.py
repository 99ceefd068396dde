"""Samples of code that uses `jobs`, for type checkers. Checked, and never run.

A line that must be an error names it in a ``type: ignore``: mypy reports the line if the error does
not occur, since unused ignores are errors.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from logging import Logger
from typing import Annotated, Any, TypedDict, TypeVar, Union, Unpack, assert_type

from pydantic import BaseModel

from headgate import (
    App,
    AsyncClient,
    AsyncJobHandle,
    AuditEntry,
    Backoff,
    Batch,
    BatchContext,
    Breaker,
    Client,
    CrashLimit,
    JobContext,
    JobHandle,
    JobOptions,
    JobState,
    JobType,
    Keep,
    Lane,
    NewJob,
    Pause,
    Priority,
    Queue,
    RateLimit,
    RetryBudget,
    RetryLater,
    Router,
    Schedule,
    Spool,
    SubmitOptions,
    Tenant,
    Unique,
    acting_as,
    cron,
)
from headgate.infra import ConsumerGroup, Thresholds, WorkerGroup
from headgate.jobs.records.history import JobRecord, ProgressRecord
from headgate.jobs.schedules.registry import ScheduleInfo, UnreadableSchedule
from headgate.jobs.testing import Done, Failed, Harness, Outcome, Submitted

P = TypeVar("P")
R = TypeVar("R")


class Email(BaseModel):
    to: str


class Wrong(BaseModel):
    to: str


class Count(TypedDict):
    a: int


@dataclass
class Receipt:
    number: int


app = App("shop")
email = Email(to="ada@example.com")


router = Router(queue="mail")
mail = Queue("mail")


# --- declaring -----------------------------------------------------------------------------------


@app.job("async-one")
async def async_one(_email: Email) -> Receipt:
    return Receipt(1)


@app.job("async-two", priority=Priority.HIGH, timeout=timedelta(seconds=30))
async def async_two(_email: Email, ctx: JobContext) -> Receipt:
    return Receipt(ctx.attempt)


@app.job("plain-one", priority="high")
def plain_one(_email: Email) -> Receipt:
    return Receipt(1)


@app.job("plain-two")
def plain_two(payload: Email, ctx: JobContext) -> None: ...


@app.job("bare")
async def bare() -> Receipt:
    return Receipt(1)


@app.job("plain-bare")
def plain_bare() -> None: ...


@app.job("nightly", schedule=Schedule.rate(timedelta(days=1)))
async def nightly(ctx: JobContext) -> Receipt:
    return Receipt(ctx.attempt)


@app.job("plain-nightly")
def plain_nightly(ctx: JobContext, log: Logger) -> None: ...


@router.job("routed", priority="high")
async def routed(_email: Email, ctx: JobContext) -> Receipt:
    return Receipt(ctx.attempt)


@mail.job("mailed")
def mailed(_email: Email) -> Receipt:
    return Receipt(1)


@app.job("batched", batch=Batch(10, wait=1))
async def batched(_items: list[Email], ctx: BatchContext) -> list[Receipt]:
    return [Receipt(job.attempt) for job in ctx.jobs]


@app.job("batched-plain", batch=Batch(10), priority="high")
def batched_plainly(_items: Sequence[Email], _ctx: BatchContext) -> None: ...


@app.job("batched-gather", batch=Batch(10))
async def batched_gather(items: list[Email], _ctx: BatchContext) -> list[Receipt | BaseException]:
    return await asyncio.gather(*map(async_one, items), return_exceptions=True)


# There is no such priority.
@router.job("misrouted", priority="highest")  # type: ignore[arg-type]
async def misrouted(_email: Email) -> None: ...


class Pool: ...


@app.resource
async def pool() -> AsyncIterator[Pool]:
    yield Pool()


@app.resource(scope="job")
def replica(pool: Pool, _ctx: JobContext) -> Iterator[Annotated[Pool, "replica"]]:
    yield pool


@app.around
async def around(_ctx: JobContext, _pool: Pool) -> AsyncIterator[None]:
    yield


app.resource(scope="attempt")  # type: ignore[call-overload]
app.resource(Pool)  # type: ignore[type-var]
app.around(plain_bare)  # type: ignore[type-var]
assert_type(pool(), AsyncIterator[Pool])
Harness(app, resources={Pool: Pool(), Annotated[Pool, "replica"]: Pool()})


def types_of_routers_and_queues(client: Client) -> None:
    app.include(router, mail)
    app.include(app)  # type: ignore[arg-type]
    assert_type(contract(routed), JobType[Email, Receipt])
    assert_type(contract(mailed), JobType[Email, Receipt])
    assert_type(router.define("silent-one", Email), JobType[Email, None])
    assert_type(mail.define("paying-one", Email, returns=Receipt), JobType[Email, Receipt])
    assert_type(client.submit(routed, email), JobHandle[Receipt])


nothing = app.define("nothing")
paying_nothing = app.define("paying-nothing", returns=Receipt)


def contract(job: JobType[P, R]) -> JobType[P, R]:
    """Return a handled job as its submitters see it."""
    return job


def types_of_batches(client: Client) -> None:
    assert_type(contract(batched), JobType[Email, Receipt])
    assert_type(contract(batched_plainly), JobType[Email, None])
    assert_type(contract(batched_gather), JobType[Email, Receipt])
    assert_type(client.submit(batched, email), JobHandle[Receipt])
    assert_type(client.submit_many(batched, [email]), list[JobHandle[Receipt]])
    client.submit(batched, [email])  # type: ignore[arg-type]
    defined = app.define("defined-batch", Email, returns=Receipt, batch=Batch(10))

    @defined.handler
    async def run(items: list[Email], ctx: BatchContext) -> list[Receipt | BaseException]:
        assert_type(await batched(items, ctx), Sequence[Receipt | BaseException] | None)
        return [Receipt(1)]

    @defined.handler  # type: ignore[arg-type]
    async def wrong(_items: list[Wrong], _ctx: BatchContext) -> None: ...


def types_without_a_payload(client: Client) -> None:
    assert_type(contract(bare), JobType[None, Receipt])
    assert_type(contract(plain_bare), JobType[None, None])
    assert_type(contract(nightly), JobType[None, Receipt])
    assert_type(contract(plain_nightly), JobType[None, None])
    assert_type(nothing, JobType[None, None])
    assert_type(paying_nothing, JobType[None, Receipt])
    assert_type(client.submit(nightly), JobHandle[Receipt])
    assert_type(client.submit(nothing, delay=timedelta(minutes=1)), JobHandle[None])
    assert_type(client.submit_many(nightly, [None, None]), list[JobHandle[Receipt]])

    @nothing.handler
    async def run() -> None: ...

    @paying_nothing.handler
    def run_plainly(ctx: JobContext) -> Receipt:
        return Receipt(ctx.attempt)


def submissions_without_a_payload_at_fault(client: Client) -> None:
    client.submit(nightly, email)  # type: ignore[misc]
    client.submit(async_one)  # type: ignore[arg-type]


def types_of_declarations() -> None:
    assert_type(contract(async_one), JobType[Email, Receipt])
    assert_type(contract(async_two), JobType[Email, Receipt])
    assert_type(contract(plain_one), JobType[Email, Receipt])
    assert_type(contract(plain_two), JobType[Email, None])


def declarations_at_fault() -> None:
    @app.job("late", timeout="30s")  # type: ignore[arg-type]
    def late(payload: Email) -> None: ...

    @app.job("urgent", priority="urgent")  # type: ignore[arg-type]
    def urgent(payload: Email) -> None: ...

    @app.job("from-one", accepts_from="uploads")  # type: ignore[arg-type]
    async def from_one(_email: Email) -> None: ...

    App("some", priorities="some")  # type: ignore[arg-type]

    @app.job("one-other", other_priorities="high")  # type: ignore[arg-type]
    def one_other(payload: Email) -> None: ...

    @app.job("misspelt", prioriy=Priority.LOW)  # type: ignore[call-arg]
    def misspelt(payload: Email) -> None: ...


async def handlers_called_as_functions(ctx: JobContext, log: Logger) -> None:
    assert_type(await async_one(email), Receipt)
    assert_type(await async_two(email, ctx), Receipt)
    assert_type(plain_one(email), Receipt)
    plain_two(email, ctx)
    assert_type(await bare(), Receipt)
    plain_bare()
    assert_type(await nightly(ctx), Receipt)
    plain_nightly(ctx, log)
    tasks = [asyncio.create_task(async_one(email))]
    assert_type(await asyncio.gather(*tasks), list[Receipt])


async def handlers_called_at_fault(ctx: JobContext) -> None:
    await async_one(Wrong(to="a"))  # type: ignore[arg-type]
    await async_two(email)  # type: ignore[call-arg]
    await async_one(email, ctx)  # type: ignore[call-arg]
    plain_one(email).amount  # type: ignore[attr-defined]  # noqa: B018
    await plain_one(email)  # type: ignore[misc]
    silent(email)  # type: ignore[operator]


# --- contracts apart from their handlers ---------------------------------------------------------

silent = app.define("silent", Email)
paying = app.define("paying", Email, returns=Receipt)
counting = app.define("counting", Count)
either = app.define("either", Union[Email, Wrong])  # noqa: UP007 - as users write it, too
maybe_paying = app.define("maybe-paying", Email, returns=Union[Receipt, None])  # noqa: UP007
all_of_it = app.define("all-of-it", Email | Wrong, returns=Receipt | None)


def types_of_contracts() -> None:
    assert_type(silent, JobType[Email, None])
    assert_type(paying, JobType[Email, Receipt])
    assert_type(counting, JobType[Count, None])
    assert_type(either, JobType[Any, Any])
    assert_type(maybe_paying, JobType[Email, Any])
    assert_type(all_of_it, JobType[Any, Any])


def handlers_that_fit() -> None:
    @silent.handler
    async def quiet(payload: Email, ctx: JobContext) -> None: ...

    @silent.handler
    def plain(payload: Email) -> None: ...

    @paying.handler
    async def pay(_email: Email) -> Receipt:
        return Receipt(1)

    @paying.handler
    def pay_plainly(_email: Email, _ctx: JobContext) -> Receipt:
        return Receipt(1)

    assert_type(plain, Callable[[Email], None])
    assert_type(pay, Callable[[Email], Awaitable[Receipt]])


def handlers_at_fault() -> None:
    @paying.handler  # type: ignore[arg-type]
    async def forgetful(payload: Email) -> None: ...

    @paying.handler  # type: ignore[arg-type]
    def forgetful_plainly(payload: Email) -> None: ...

    @silent.handler  # type: ignore[arg-type]
    async def talkative(_email: Email, _ctx: JobContext) -> int:
        return 1

    @silent.handler  # type: ignore[arg-type]
    def talkative_plainly(_email: Email) -> int:
        return 1

    @silent.handler  # type: ignore[arg-type]
    async def of_another(payload: Wrong) -> None: ...

    @silent.handler
    def with_a_resource(payload: Email, ctx: JobContext, log: Logger) -> None: ...


# --- submitting ----------------------------------------------------------------------------------


def submissions(client: Client) -> None:
    assert_type(client.submit(async_one, email), JobHandle[Receipt])
    assert_type(client.submit(plain_two, email), JobHandle[None])
    assert_type(client.submit(paying, email), JobHandle[Receipt])
    assert_type(client.submit_many(plain_one, [email]), list[JobHandle[Receipt]])
    client.submit(
        async_two,
        email,
        delay=timedelta(minutes=1),
        priority=Priority.LOW,
        max_attempts=3,
        backoff=Backoff.steps(10, 60),
        timeout=timedelta(seconds=5),
        tenant="org-1",
        keep=timedelta(hours=1),
    )
    client.submit(async_two, email, at=datetime(2026, 1, 1, tzinfo=UTC), tenant=Tenant(org="o"))
    client.submit(async_two, email, priority="low")
    assert_type(client.submit(counting, {"a": 1}), JobHandle[None])
    assert_type(client.submit_many(counting, [{"a": 1}, {"a": 2}]), list[JobHandle[None]])
    client.submit(either, Wrong(to="a"))


def submissions_with_options_that_may_be_none(
    client: Client, delay: timedelta | None, at: datetime | None, org: str | None
) -> None:
    client.submit(async_two, email, delay=delay, at=at, tenant=org, group=org, priority=None)
    client.submit(async_two, email, max_attempts=None, timeout=delay, unique=None)
    client.submit(async_two, email, backoff=None, keep=Keep(failed=delay or 60))


# --- durations -----------------------------------------------------------------------------------


minute = timedelta(minutes=1)


@app.job("in-seconds", timeout=30, keep=3600, schedule=Schedule.rate(900, flexible_window=60.0))
async def in_seconds(payload: Email | None = None) -> None: ...


@app.job("in-minutes", timeout=minute, keep=minute, schedule=Schedule.rate(minute))
async def in_minutes(payload: Email | None = None) -> None: ...


def durations(client: Client) -> None:
    assert_type(in_seconds.timeout, timedelta | None)
    client.submit(async_one, email, delay=0.5, timeout=30)
    client.submit(async_one, email, delay=minute, timeout=minute)
    client.submit(async_one, email, expires=minute)
    client.submit(async_one, email, expires=datetime(2030, 1, 31, tzinfo=UTC))
    client.submit(async_one, email).wait(minute)
    App("seconds", timeout=30, keep=0)
    App("every", priorities="all")
    used = App("used", priorities="used")
    used.define("others", Email, other_priorities=["critical", Priority.LOW])
    App("timedeltas", timeout=minute, keep=Keep(minute, failed=86_400))


def durations_of_policies() -> None:
    assert_type(RateLimit(20, per=1).per, timedelta)
    RateLimit(20, per=minute, key="tenant", scope="fleet")
    RateLimit(20, key=lambda payload: str(payload["endpoint"]))
    RateLimit(200_000, per=60, cost=lambda prompt: len(prompt.text) / 4)
    RateLimit(1000, per=60, cost=10)
    assert_type(RetryBudget(20, per=minute).per, timedelta)
    assert_type(Breaker(window=30, open_for=minute).open_for, timedelta)
    assert_type(CrashLimit(within=300).within, timedelta)
    assert_type(Keep(3600, failed=minute).completed, timedelta)
    assert_type(Lane(visibility=30, start_within=minute, share=0.1).visibility, timedelta)
    assert_type(Lane(visibility=30, start_within=9, share=0, gather=1).gather, timedelta | None)
    assert_type(RetryLater(5).after, timedelta)
    assert_type(Spool("jobs.spool", lease=120).lease, timedelta)
    Backoff.exponential(base=timedelta(seconds=5), cap=60)
    Backoff.adaptive(base=1, cap=minute)
    Backoff.steps(60, timedelta(minutes=5), 900.0)
    Backoff.custom(lambda failed: failed.attempt * minute)


def durations_of_deployments() -> None:
    group = WorkerGroup(typical=0.2, stop_timeout=timedelta(minutes=1))
    assert_type(group.stop_timeout, timedelta)
    function = ConsumerGroup(name="mail", handler="a.b", timeout=60, max_batching_window=minute)
    assert_type(function.timeout, timedelta)
    assert_type(Thresholds(oldest=3600).oldest, timedelta)


def durations_of_tests(jobs: Harness) -> None:
    jobs.clock.advance(60)
    jobs.clock.advance(minute)
    jobs.table.faults.slow_down("put", minute)
    jobs.sqs.create_queue("other", visibility=30, delay=0.5, retention=timedelta(days=1))


def durations_at_fault() -> None:
    WorkerGroup(stop_timeout="60s")  # type: ignore[arg-type]
    RateLimit(20, per="1s")  # type: ignore[arg-type]
    RateLimit(20, 1)  # type: ignore[call-arg]
    RateLimit(20, key="org")  # type: ignore[arg-type]
    RateLimit(20, cost="1")  # type: ignore[arg-type]
    Lane(visibility="30s", start_within=0, share=0)  # type: ignore[arg-type]
    Lane(start_within=0, share=0)  # type: ignore[call-arg]
    Backoff.fixed("5s")  # type: ignore[arg-type]
    RetryLater("5s")  # type: ignore[arg-type]
    Schedule.rate("15 minutes")  # type: ignore[arg-type]
    RateLimit(20).per = minute  # type: ignore[misc]


# --- uniqueness ----------------------------------------------------------------------------------


def key_of_count(payload: Count) -> str:
    return str(payload["a"])


def key_of_number(payload: Email) -> int:
    return len(payload.to)


within = timedelta(hours=1)
unique_type = app.define("unique-type", Email, unique=Unique(within=90, key=lambda e: e.to))
unique_last = app.define("unique-last", Count, unique=Unique(within=within, keep="last"))


@app.job("unique-job", unique=Unique(within=within, key="all"))
async def unique_job(payload: Email) -> None: ...


def unique_submissions(client: Client) -> None:
    client.submit(unique_type, email, unique=False)
    client.submit(unique_type, email, unique=Unique(within=within, key="all"))
    client.submit(unique_last, {"a": 1}, unique=Unique(within=within, key=key_of_count))
    client.submit_many(unique_type, [email], unique=Unique(within=within, keep="first"))
    assert_type(unique_type.new(email, unique=False), NewJob[None])
    assert_type(Unique(within=90).within, timedelta)


def uniqueness_at_fault(client: Client) -> None:
    Unique()  # type: ignore[call-arg]
    Unique(within="1h")  # type: ignore[arg-type]
    Unique(within=within, key=key_of_number)  # type: ignore[arg-type]
    Unique(within=within, keep="replace")  # type: ignore[arg-type]
    Unique(within=within).keep = "last"  # type: ignore[misc]
    client.submit(unique_type, email, unique=True)  # type: ignore[call-overload]
    client.submit(unique_type, email, unique="last")  # type: ignore[call-overload]
    app.define("no-unique", Email, unique=False)  # type: ignore[call-overload]


# --- jobs as values ------------------------------------------------------------------------------


def jobs_as_values(client: Client) -> None:
    assert_type(async_one.new(email), NewJob[Receipt])
    assert_type(nightly.new(tenant="org-1"), NewJob[Receipt])
    assert_type(counting.new({"a": 1}, delay=None), NewJob[None])
    assert_type(client.submit(async_one.new(email, priority="low")), JobHandle[Receipt])
    assert_type(client.submit_many([async_one.new(email)]), list[JobHandle[Receipt]])
    client.submit_many([async_one.new(email, tenant="x"), counting.new({"a": 1}), nightly.new()])


def jobs_as_values_at_fault(client: Client) -> None:
    async_one.new(Wrong(to="a"))  # type: ignore[arg-type]
    counting.new({})  # type: ignore[typeddict-item]
    async_one.new(email, delay="1m")  # type: ignore[arg-type]
    client.submit(async_one.new(email), tenant="x")  # type: ignore[call-overload]
    client.submit_many([email])  # type: ignore[arg-type]


def submissions_at_fault(client: Client) -> None:
    client.submit(async_one, Wrong(to="a"))  # type: ignore[arg-type]
    client.submit(plain_one, {"to": "a"})  # type: ignore[arg-type]
    client.submit(counting, {"b": 1})  # type: ignore[arg-type]
    client.submit(paying, None)  # type: ignore[arg-type]
    client.submit(paying, Email)  # type: ignore[arg-type]
    client.submit_many(async_one, email)  # type: ignore[arg-type]
    client.submit_many(async_one, [email, Wrong(to="a")])  # type: ignore[list-item]
    client.submit(async_one, email, delay="1m")  # type: ignore[call-overload]
    client.submit(async_one, email, at="2026-01-01")  # type: ignore[call-overload]
    client.submit(async_one, email, priority="lower")  # type: ignore[call-overload]
    client.submit(async_one, email, max_attempts="3")  # type: ignore[call-overload]
    client.submit(async_one, email, timeout="5s")  # type: ignore[call-overload]
    client.submit(async_one, email, tenant=42)  # type: ignore[call-overload]
    client.submit(async_one, email, prioriy=Priority.LOW)  # type: ignore[call-overload]
    client.submit_many(async_one, [email], delayed=timedelta(0))  # type: ignore[call-overload]
    client.submit("async-one", email)  # type: ignore[call-overload]


async def async_submissions(client: AsyncClient) -> None:
    assert_type(await client.submit(async_one, email), AsyncJobHandle[Receipt])
    assert_type(await client.submit(plain_two, email), AsyncJobHandle[None])
    assert_type(await client.submit_many(plain_one, [email]), list[AsyncJobHandle[Receipt]])
    await client.submit(async_two, email, delay=timedelta(minutes=1), tenant="org-1")
    assert_type(await client.submit(counting, {"a": 1}), AsyncJobHandle[None])
    assert_type(await client.submit(async_one.new(email)), AsyncJobHandle[Receipt])
    assert_type(await client.submit_many([paying.new(email)]), list[AsyncJobHandle[Receipt]])


async def async_submissions_at_fault(client: AsyncClient) -> None:
    client.submit(async_one, email)  # type: ignore[unused-coroutine]
    await client.submit(async_one, Wrong(to="a"))  # type: ignore[arg-type]
    await client.submit_many(async_one, [email, Wrong(to="a")])  # type: ignore[list-item]
    await client.submit(async_one, email, delay="1m")  # type: ignore[call-overload]
    await client.submit(async_one, email, tenant=42)  # type: ignore[call-overload]
    await client.submit(async_one, email, prioriy=Priority.LOW)  # type: ignore[call-overload]


# --- results -------------------------------------------------------------------------------------


def results(client: Client) -> None:
    job = client.submit(async_one, email)
    assert_type(job.result(timeout=30), Receipt)
    assert_type(job.state(), JobState)
    assert_type(job.wait(), JobState)
    assert_type(job.progress(), ProgressRecord | None)
    assert_type(job.history(), JobRecord)
    assert_type(client.handle("id", paying).result(), Receipt)
    assert_type(client.handle("id").id, str)


def results_at_fault(client: Client) -> None:
    client.handle(42)  # type: ignore[call-overload]
    client.handle("id", "async-one")  # type: ignore[call-overload]
    client.submit(async_one, email).result(timeout="30s")  # type: ignore[arg-type]
    client.submit(async_one, email).result().amount  # type: ignore[attr-defined]  # noqa: B018


async def async_results(client: AsyncClient) -> None:
    job = await client.submit(async_one, email)
    assert_type(await job.result(timeout=30), Receipt)
    assert_type(await job.state(), JobState)
    assert_type(await job.history(), JobRecord)
    assert_type(await client.handle("id", paying).result(), Receipt)


async def of_a_handler(ctx: JobContext) -> None:
    assert_type(await ctx.submit(paying, email), AsyncJobHandle[Receipt])
    assert_type(await (await ctx.submit(paying.new(email))).result(), Receipt)
    assert_type(ctx.submit(paying, email).result(timeout=5), Receipt)
    await ctx.submit(counting, {"a": 1}, priority="low", delay=None)


# --- testing -------------------------------------------------------------------------------------


def inspections(jobs: Harness) -> None:
    assert_type(jobs.submitted(async_one), list[Submitted[Email]])
    assert_type(jobs.run(async_one, email, attempt=3, tenant="org-1"), Outcome)
    assert_type(jobs.run(counting, {"a": 1}), Outcome)
    assert_type(jobs.run(nightly), Outcome)
    assert_type(jobs.run(async_one.new(email), attempt=2), Outcome)
    jobs.run(async_one, Wrong(to="a"))  # type: ignore[arg-type]
    match jobs.run(async_one, email):
        case Failed(error=error):
            assert_type(error, BaseException)
        case Done(result=result):
            assert_type(result, Any)
    assert_type(jobs.assert_submitted(async_one, email).payload, Email)
    jobs.assert_submitted(async_one, Wrong(to="a"))  # type: ignore[arg-type]
    assert_type(jobs.assert_submitted(counting, {"a": 1}).payload, Count)


# --- options that are passed on ------------------------------------------------------------------


def submitted_for_others(client: Client, **options: Unpack[SubmitOptions]) -> JobHandle[Any]:
    client.submit(nightly, **options)
    return client.submit(async_one, email, **options)


def declared_for_others(app: App, name: str, **options: Unpack[JobOptions]) -> JobType[Email, Any]:
    return app.define(name, Email, **options)


def options_passed_on(client: Client, app: App) -> None:
    submitted_for_others(client, delay=60, tenant="org-1")
    submitted_for_others(client, dealy=60)  # type: ignore[call-arg]
    declared_for_others(app, "passed-on", rate_limit=RateLimit(20, per=1), once=True)
    declared_for_others(app, "passed-on", priority="urgent")  # type: ignore[arg-type]


# --- schedules -----------------------------------------------------------------------------------


def a_schedule_takes_its_types_payload(client: Client) -> None:
    hourly = Schedule.rate(timedelta(hours=1))
    made = client.schedules.create("hourly", async_one, email, schedule=hourly, tenant="org-1")
    assert_type(made, ScheduleInfo)
    client.schedules.create("nightly", nightly, schedule=hourly)
    client.schedules.create("nightly", nightly, None, schedule=hourly, limit=3)
    client.schedules.create("counting", counting, {"a": 1}, schedule=hourly, priority="low")
    client.schedules.create("value", async_one.new(email, tenant="org-1"), schedule=hourly)
    assert_type(client.schedules.next_times("hourly", 3), Sequence[datetime])


def schedules_at_fault(client: Client) -> None:
    hourly = Schedule.rate(timedelta(hours=1))
    client.schedules.create("hourly", async_one, Wrong(to="a"), schedule=hourly)  # type: ignore[arg-type]
    client.schedules.create("hourly", async_one, schedule=hourly)  # type: ignore[arg-type]
    client.schedules.create("hourly", nightly, email, schedule=hourly)  # type: ignore[misc]
    client.schedules.create("hourly", counting, {"b": 1}, schedule=hourly)  # type: ignore[arg-type]
    client.schedules.create("hourly", async_one, email, schedule="hourly")  # type: ignore[call-overload]
    client.schedules.create("hourly", async_one, email, schedule=hourly, tennant="a")  # type: ignore[call-overload]
    client.schedules.create("hourly", async_one.new(email), schedule=hourly, tenant="a")  # type: ignore[call-overload]


def schedules_are_read(client: Client) -> None:
    for each in client.schedules.list():
        assert_type(each, ScheduleInfo | UnreadableSchedule)


async def awaited_schedules_are_the_same(client: AsyncClient) -> None:
    made = await client.schedules.create(
        "once", async_one, email, schedule=Schedule.at(datetime.now(UTC))
    )
    assert_type(made, ScheduleInfo)
    await client.schedules.create("counting", counting, {"a": 1}, schedule=cron("0 2 * * ? *"))
    await client.schedules.create("nightly", nightly, schedule=cron("0 2 * * ? *"))
    await client.schedules.create("value", nightly.new(), schedule=cron("0 2 * * ? *"))
    assert_type(await client.schedules.cancel_delayed("id"), bool)


# --- pauses --------------------------------------------------------------------------------------


def pauses(client: Client, tenant: Tenant, until: datetime) -> None:
    made = client.pauses.create(queue="mail", priority="low", lasts=60, reason="why")
    assert_type(made, Pause)
    client.pauses.create(queue=mail, priority=Priority.LOW, lasts=timedelta(hours=2))
    client.pauses.create(job_type=async_one, until=until)
    client.pauses.create(tenant=tenant)
    assert_type(client.pauses.remove(tenant="org-1"), bool)
    assert_type(client.pauses.list(), list[Pause])


async def async_pauses(client: AsyncClient) -> None:
    assert_type(await client.pauses.create(queue="mail"), Pause)
    assert_type(await client.pauses.remove(queue="mail"), bool)


def pauses_at_fault(client: Client) -> None:
    client.pauses.create(queue="mail", priority="urgent")  # type: ignore[arg-type]


# --- the audit -----------------------------------------------------------------------------------


def audit(app: App, client: Client, since: datetime) -> None:
    Client(app, actor="nightly clean-up")
    with acting_as("ada"):
        client.pauses.create(queue="mail")
    page = client.audit.list(since=since, until=60, actor="ada", action="pause", limit=10)
    assert_type(page.entries, Sequence[AuditEntry])
    assert_type(client.audit.list(after=page.next).skipped, int)


async def async_audit(client: AsyncClient) -> None:
    assert_type((await client.audit.list(target="mail")).entries, Sequence[AuditEntry])


def audit_at_fault(client: Client) -> None:
    client.audit.list(since="yesterday")  # type: ignore[arg-type]
    client.pauses.create(queue="mail", actor="ada")  # type: ignore[call-arg]
