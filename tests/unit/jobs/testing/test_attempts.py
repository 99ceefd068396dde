"""`Harness.run`: one attempt of a job, and its outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from headgate import App, Discard, JobContext, Retry, RetryLater
from headgate.errors import HeadgateError, JobTimeout, PayloadInvalid
from headgate.events import JobCompleted, JobFailed
from headgate.jobs.testing import Deferred, Discarded, Done, Failed, Harness


class Greeting(BaseModel):
    to: str = "Ada"


class Pool:
    """A resource."""


class Hello:
    """An app, its harness and a job that does as its payload says."""

    def __init__(self) -> None:
        self.app = App("hello")
        self.seen: list[tuple[int, int, str | None]] = []
        self.heard: list[str] = []

        @self.app.resource
        def pool() -> Iterator[Pool]:
            yield Pool()

        @self.app.job("greet", retry=Retry(max_attempts=5))
        async def greet(greeting: Greeting, ctx: JobContext, pool: Pool) -> str:
            assert isinstance(pool, Pool)
            org = ctx.tenant.org if ctx.tenant else None
            self.seen.append((ctx.attempt, ctx.max_attempts, org))
            match greeting.to:
                case "nobody":
                    raise LookupError(greeting.to)
                case "later":
                    raise RetryLater(after=timedelta(minutes=1), reason="asleep")
                case "never":
                    raise Discard("gone")
                case "others":
                    await ctx.submit(greet, Greeting(to="Bob"))
            return f"Hello, {greeting.to}!"

        @greet.on_complete
        async def told(event: JobCompleted) -> None:
            self.heard.append(event.job_type)

        self.greet = greet
        self.jobs = Harness(self.app)


def test_an_attempt_that_returns_is_done_with_its_result() -> None:
    hello = Hello()
    assert hello.jobs.run(hello.greet, Greeting()) == Done(result="Hello, Ada!")
    assert hello.seen == [(1, 5, None)]
    assert hello.heard == ["greet"]


@pytest.mark.parametrize("attempt", [1, 3, 5])
def test_the_handler_sees_which_attempt_it_is(attempt: int) -> None:
    hello = Hello()
    hello.jobs.run(hello.greet, Greeting(), attempt=attempt, tenant="org-1")
    assert hello.seen == [(attempt, 5, "org-1")]


@pytest.mark.parametrize("attempt", [0, -1, 6])
def test_an_attempt_that_the_job_does_not_have_is_refused(attempt: int) -> None:
    hello = Hello()
    with pytest.raises(ValueError, match=f"between 1 and 5, got {attempt}"):
        hello.jobs.run(hello.greet, Greeting(), attempt=attempt)
    assert hello.seen == []


def test_an_override_may_give_the_job_more_attempts() -> None:
    hello = Hello()
    hello.jobs.run(hello.greet, Greeting(), attempt=30, max_attempts=30)
    assert hello.seen == [(30, 30, None)]


def test_a_failure_is_an_outcome_after_which_nothing_is_tried_again() -> None:
    hello = Hello()
    outcome = hello.jobs.run(hello.greet, Greeting(to="nobody"), attempt=5)
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.error, LookupError)
    assert "raise LookupError(greeting.to)" in outcome.traceback
    assert sum(isinstance(event, JobFailed) for event in hello.jobs.events) == 1
    hello.jobs.drain()
    assert len(hello.seen) == 1
    assert hello.jobs.dead_letters() == []


def test_what_a_handler_asks_for_is_an_outcome() -> None:
    hello = Hello()
    later = hello.jobs.run(hello.greet, Greeting(to="later"))
    assert later == Deferred(after_s=60, reason="asleep")
    assert hello.jobs.run(hello.greet, Greeting(to="never")) == Discarded(reason="gone")


def test_an_attempt_past_its_timeout_has_failed() -> None:
    app = App("hello")

    @app.job("hangs", timeout=timedelta(milliseconds=10))
    async def hangs() -> None:
        await asyncio.Event().wait()

    outcome = Harness(app).run(hangs)
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.error, JobTimeout)


def test_what_the_handler_submits_waits_in_the_queues() -> None:
    hello = Hello()
    hello.jobs.run(hello.greet, Greeting(to="others"))
    [bob] = hello.jobs.submitted(hello.greet)
    assert bob.payload == Greeting(to="Bob")


def test_a_payload_that_does_not_fit_is_refused_as_by_a_client() -> None:
    hello = Hello()
    unfit: Any = {"to": 5}
    with pytest.raises(PayloadInvalid, match="to"):
        hello.jobs.run(hello.greet, unfit)


async def test_a_test_in_an_event_loop_awaits_it() -> None:
    hello = Hello()
    assert await hello.jobs.arun(hello.greet, Greeting()) == Done(result="Hello, Ada!")
    with pytest.raises(HeadgateError, match=r"await jobs\.arun"):
        hello.jobs.run(hello.greet, Greeting())
