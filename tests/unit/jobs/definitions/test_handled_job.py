"""A decorated handler is the type of its jobs, and can still be called as a function."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from headgate import App, HandledJob, JobContext, JobType
from headgate.errors import ConfigurationError, HandlerMissing
from headgate.jobs.testing import Harness


class Greeting(BaseModel):
    to: str


ADA = Greeting(to="Ada")


@pytest.fixture
def app() -> App:
    return App("hello")


async def test_an_async_handler_is_awaited_with_what_it_is_given(app: App) -> None:
    @app.job("greet")
    async def greet(greeting: Greeting, ctx: JobContext | None = None) -> str:
        assert ctx is None
        return f"Hello, {greeting.to}!"

    assert await greet(ADA) == "Hello, Ada!"
    assert await asyncio.create_task(greet(greeting=ADA)) == "Hello, Ada!"  # type: ignore[call-arg]


def test_a_plain_handler_runs_in_the_calling_thread(app: App) -> None:
    @app.job("thread")
    def thread(_greeting: Greeting) -> int:
        return threading.get_ident()

    @app.job("bare")
    def bare() -> str:
        return "done"

    assert thread(ADA) == threading.get_ident()
    assert bare() == "done"


def test_a_handler_raises_to_its_caller_and_not_to_the_queue(app: App) -> None:
    @app.job("fails")
    def fails(greeting: Greeting) -> None:
        raise LookupError(greeting.to)

    with pytest.raises(LookupError, match="Ada"):
        fails(ADA)


def test_it_is_still_a_type_of_its_app_with_the_name_of_its_jobs(app: App) -> None:
    @app.job("greet")
    async def greet(greeting: Greeting) -> None:
        """Say hello."""

    assert app.types["greet"] is greet
    assert isinstance(greet, HandledJob)
    assert isinstance(greet, JobType)
    assert repr(greet) == "<JobType greet on jobs/normal>"
    assert (greet.name, greet.payload) == ("greet", Greeting)
    assert greet.__doc__ == "Say hello."
    assert [*inspect.signature(greet).parameters] == ["greeting"]


def test_a_contract_is_no_function(app: App) -> None:
    contract = app.define("greet", Greeting)
    assert not callable(contract)
    with pytest.raises(HandlerMissing):
        contract.require_handler()


def by_position(greeting: Greeting, ctx: JobContext, /) -> None: ...


def test_a_handler_that_is_refused_leaves_no_half_of_a_type(app: App) -> None:
    with pytest.raises(ConfigurationError, match="'greet'"):
        app.job("greet")(by_position)
    assert app.types == {}


def test_a_handler_of_two_types_needs_two_decorators_on_a_function(app: App) -> None:
    @app.job("greet")
    async def greet(greeting: Greeting) -> None: ...

    again: Callable[..., Any] = app.job("again")
    with pytest.raises(ConfigurationError, match="must be a function or a method"):
        again(greet)


def test_a_job_that_calls_another_runs_it_within_its_own(app: App) -> None:
    ran: list[str] = []

    @app.job("inner")
    async def inner(greeting: Greeting, ctx: JobContext) -> None:
        ran.append(f"{ctx.type}: {greeting.to}")

    @app.job("outer")
    async def outer(greeting: Greeting, ctx: JobContext) -> None:
        await inner(greeting, ctx)

    jobs = Harness(app)
    jobs.client.submit(outer, ADA)
    jobs.drain()
    assert ran == ["outer: Ada"]
    assert (len(jobs.completed(outer)), len(jobs.completed(inner))) == (1, 0)
