"""Jobs as values: made by their types, submitted alone or together, by both clients."""

from __future__ import annotations

import random
import string
from datetime import timedelta
from typing import Any, cast

import pytest
from pydantic import BaseModel

from headgate import App, Encryption, JobContext, NewJob, Unique
from headgate.errors import (
    DelayInvalid,
    OptionInvalid,
    PartlySubmitted,
    PayloadInvalid,
    PayloadTooLarge,
    QueueMissing,
    ServiceUnavailable,
    UnknownJobType,
)
from headgate.jobs.testing import Done, Harness
from tests.support.clients import Kind, awaited, client_of


class Greeting(BaseModel):
    to: str


class Payment(BaseModel):
    amount: int


class Shop:
    """An app with types on two queues, its harness, and one of its clients."""

    def __init__(self, kind: Kind) -> None:
        self.app = App("shop", priorities="all")
        self.ran: list[str] = []

        @self.app.job("greet")
        def greet(greeting: Greeting) -> str:
            self.ran.append(greeting.to)
            return greeting.to

        @self.app.queue("money").job("capture", priority="high")
        def capture(payment: Payment, ctx: JobContext) -> int:
            self.ran.append(f"{payment.amount} of {ctx.tenant.org if ctx.tenant else None}")
            return payment.amount

        @self.app.job("nightly")
        def nightly() -> None:
            self.ran.append("nightly")

        self.greet, self.capture, self.nightly = greet, capture, nightly
        self.jobs = Harness(self.app)
        self.client = awaited(self.jobs.client) if kind == "Client" else self.jobs.async_client

    def in_queue(self, name: str) -> int:
        return len(self.jobs.sqs.messages(f"shop-{name}"))


@pytest.fixture
def shop(kind: Kind) -> Shop:
    return Shop(kind)


async def test_a_job_as_a_value_is_submitted_with_its_options(shop: Shop) -> None:
    job = shop.capture.new(Payment(amount=3), tenant="org-1", priority="low")
    handle = await shop.client.submit(job)
    assert shop.in_queue("money-low") == 1
    await shop.jobs.adrain()
    assert shop.ran == ["3 of org-1"]
    assert await shop.client.handle(handle.id, shop.capture).result() == 3


async def test_a_value_may_be_submitted_again_and_is_another_job_then(shop: Shop) -> None:
    job = shop.greet.new(Greeting(to="Ada"))
    first, second = await shop.client.submit(job), await shop.client.submit(job)
    assert first.id != second.id
    await shop.jobs.adrain()
    assert shop.ran == ["Ada", "Ada"]


async def test_jobs_of_several_types_go_to_their_queues_in_one_call(shop: Shop) -> None:
    jobs: list[NewJob[Any]] = [
        shop.greet.new(Greeting(to="Ada"), tenant="x"),
        shop.capture.new(Payment(amount=3)),
        shop.nightly.new(),
        shop.greet.new(Greeting(to="Bob"), delay=timedelta(hours=2)),
        shop.greet.new(Greeting(to="Cy"), unique=Unique(within=timedelta(hours=1))),
        shop.greet.new(Greeting(to="Cy"), unique=Unique(within=timedelta(hours=1))),
        shop.capture.new(Payment(amount=4), tenant="org-1"),
    ]
    handles = await shop.client.submit_many(jobs)
    assert [handle.is_duplicate for handle in handles] == [False] * 5 + [True, False]
    assert handles[4].id == handles[5].id
    assert len(shop.jobs.scheduler.schedules) == 1
    await shop.jobs.adrain()
    assert sorted(shop.ran) == sorted(["Ada", "3 of None", "nightly", "Bob", "Cy", "4 of org-1"])
    results = [await shop.client.handle(each.id).result() for each in handles[:2]]
    assert results == ["Ada", 3]


async def test_none_is_sent_where_one_is_not_valid(shop: Shop) -> None:
    unfit: Any = {"amount": "much"}
    for wrong, error in (
        (shop.capture.new(unfit), PayloadInvalid),
        (shop.capture.new(Payment(amount=3), delay=timedelta(-1)), DelayInvalid),
        (App("other").define("greet", Greeting).new(Greeting(to="Ada")), UnknownJobType),
        (Greeting(to="Ada"), UnknownJobType),
    ):
        jobs: Any = [shop.greet.new(Greeting(to="Ada")), wrong]
        with pytest.raises(Exception, match=r"capture|greet") as raised:
            await shop.client.submit_many(jobs)
        assert isinstance(raised.value, error)
    assert shop.in_queue("jobs-normal") == shop.in_queue("money-high") == 0


async def test_a_queue_that_fails_keeps_no_others_from_their_jobs(shop: Shop) -> None:
    shop.jobs.sqs.faults.raise_on("send", QueueMissing("shop-jobs-normal"), times=1)
    jobs: list[NewJob[Any]] = [
        shop.greet.new(Greeting(to="Ada")),
        shop.capture.new(Payment(amount=3)),
        shop.greet.new(Greeting(to="Bob")),
    ]
    with pytest.raises(PartlySubmitted) as partly:
        await shop.client.submit_many(jobs)
    assert [(each.index, each.code) for each in partly.value.refusals] == [
        (0, "QueueMissing"),
        (2, "QueueMissing"),
    ]
    assert partly.value.submitted == 3
    assert len(partly.value.sent) == 1
    await shop.jobs.adrain()
    assert shop.ran == ["3 of None"]


@pytest.mark.parametrize("first", [True, False])
async def test_a_payload_that_only_its_sealing_makes_too_large_hides_none_that_was_sent(
    kind: Kind, *, first: bool
) -> None:
    app = App("shop", encryption=Encryption())
    greet = app.define("greet", Greeting)
    jobs = Harness(app)
    client = awaited(jobs.client) if kind == "Client" else jobs.async_client
    # A schedule takes 256 KiB, and no compression makes up for what a ciphertext takes as text.
    letters = string.digits + string.ascii_letters + "!#$%&()*+"
    text = "".join(random.Random(0).choices(letters, k=255_000))  # noqa: S311 - no secret
    large = greet.new(Greeting(to=text), delay=timedelta(hours=1))
    small = greet.new(Greeting(to="Ada"))
    if first:
        with pytest.raises(PayloadTooLarge):
            await client.submit_many([large, small])
        assert jobs.submitted(greet) == []
    else:
        with pytest.raises(PartlySubmitted) as partly:
            await client.submit_many([small, large])
        assert [(each.index, each.code) for each in partly.value.refusals] == [
            (1, "PayloadTooLarge")
        ]
        assert [each.id for each in jobs.submitted(greet)] == [*partly.value.sent]


@pytest.mark.looptime
async def test_an_outage_is_raised_as_itself(kind: Kind, shop: Shop) -> None:
    shop.jobs.sqs.faults.raise_on("send", ServiceUnavailable("no connection"), times=1000)
    jobs: list[NewJob[Any]] = [
        shop.greet.new(Greeting(to="Ada")),
        shop.capture.new(Payment(amount=3)),
    ]
    with pytest.raises(ServiceUnavailable):
        await client_of(kind, shop.app, shop.jobs.sqs).submit_many(jobs)


async def test_options_beside_values_are_refused(shop: Shop) -> None:
    job, more = shop.greet.new(Greeting(to="Ada")), cast("Any", {"tenant": "x"})
    submit, submit_many = cast("Any", shop.client.submit), cast("Any", shop.client.submit_many)
    with pytest.raises(OptionInvalid, match=r"'greet': .* give them to \.new"):
        await submit(job, **more)
    with pytest.raises(OptionInvalid, match=r"'greet': .* give them to \.new"):
        await submit(job, Greeting(to="Bob"))
    for jobs, options in (([job], more), (job, {}), (shop.greet, {})):
        with pytest.raises(OptionInvalid, match="submit_many takes a type with its payloads"):
            await submit_many(jobs, **options)
    assert await shop.client.submit_many([]) == []
    assert shop.in_queue("jobs-normal") == 0


def test_a_handler_and_the_harness_take_values_too() -> None:
    shop = Shop("Client")

    @shop.app.job("outer")
    async def outer(ctx: JobContext) -> None:
        await ctx.submit(shop.greet.new(Greeting(to="Ada"), tenant="x"))

    assert shop.jobs.run(outer.new()) == Done(result=None)
    shop.jobs.drain()
    assert shop.ran == ["Ada"]
