"""Jobs without a payload run wherever others do; on the wire their payload is an empty object."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest

from headgate import App, AsyncClient, JobContext, JobType, Priority, Schedule
from headgate.errors import PayloadInvalid
from headgate.events import JobCompleted
from headgate.jobs.core.clock import SystemClock
from headgate.jobs.testing import Harness
from tests.support.backends import async_over
from tests.support.functions import Function
from tests.unit.workers.rig import Rig


class Pool:
    """A resource."""


class Nightly:
    """An app with a job of each shape that takes no payload, and a record of runs."""

    def __init__(self) -> None:
        self.app = app = App("shop")
        self.mail = app.queue("mail", priorities=[Priority.NORMAL])
        self.ran: list[str] = []

        @app.resource
        def pool() -> Iterator[Pool]:
            yield Pool()

        @self.mail.job("bare", schedule=Schedule.rate(timedelta(hours=1)))
        def bare() -> None:
            self.ran.append("bare")

        @self.mail.job("async-bare")
        async def async_bare() -> None:
            self.ran.append("async-bare")

        @self.mail.job("with-context")
        async def with_context(ctx: JobContext) -> None:
            self.ran.append(ctx.type)
            await ctx.submit(bare)

        @self.mail.job("with-resource")
        def with_resource(ctx: JobContext, pool: Pool) -> None:
            assert isinstance(pool, Pool)
            self.ran.append(ctx.type)

        contract = self.mail.define("contract")

        @contract.handler
        async def of_a_contract(ctx: JobContext) -> None:
            self.ran.append(ctx.type)

        self.bare = bare
        self.jobs: list[JobType[None, None]] = [
            bare,
            async_bare,
            with_context,
            with_resource,
            contract,
        ]

    @property
    def expected(self) -> list[str]:
        """Return the expected runs, if each is submitted once: one of them submits another."""
        return sorted([*(job.name for job in self.jobs), "bare"])


def test_they_are_submitted_without_one_and_run_in_the_harness() -> None:
    shop = Nightly()
    jobs = Harness(shop.app)
    for job in shop.jobs:
        jobs.client.submit(job)
    bodies = [json.loads(each.body) for each in jobs.sqs.messages("shop-mail-normal")]
    assert [body["payload"] for body in bodies] == [{}] * 5
    assert jobs.assert_submitted(shop.bare, None).payload is None
    jobs.drain()
    assert sorted(shop.ran) == shop.expected


async def test_a_worker_runs_them_in_its_loop_and_in_threads() -> None:
    shop = Nightly()
    rig = Rig(shop.app, clock=SystemClock())
    async with AsyncClient(shop.app, backend=async_over(rig.sqs)) as client:
        for job in shop.jobs:
            await client.submit(job)
        await client.submit_many(shop.bare, [None, None])
    async with rig.working(receive_wait=timedelta(seconds=1)):
        await rig.happens(JobCompleted, 8)
    assert sorted(shop.ran) == sorted([*shop.expected, "bare", "bare"])


def test_a_function_runs_them() -> None:
    shop = Nightly()
    with closing(Function(shop.app, "shop-mail-normal")) as function:
        for job in shop.jobs:
            function.submit(job, None)
        function.drain()
    assert sorted(shop.ran) == shop.expected


@pytest.mark.parametrize("payload", [{}, {"detail": "of an event"}])
def test_what_another_writer_puts_there_is_not_read(payload: Any) -> None:
    assert Nightly().bare.load(payload) is None


@pytest.mark.parametrize("payload", [None, [], "text"])
def test_what_is_no_object_is_refused(payload: Any) -> None:
    with pytest.raises(PayloadInvalid, match="'bare'"):
        Nightly().bare.load(payload)


def test_a_payload_that_nobody_takes_is_refused_where_it_is_submitted() -> None:
    shop = Nightly()
    jobs = Harness(shop.app)
    unknown: Any = {"to": "ada"}
    with pytest.raises(PayloadInvalid, match="jobs of 'bare' have no payload, got a dict"):
        jobs.client.submit(shop.bare, unknown)
