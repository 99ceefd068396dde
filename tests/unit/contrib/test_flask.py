"""Flask: one client for all threads, and the application context around handlers."""

from __future__ import annotations

import pytest
from flask import Flask, current_app, has_app_context

from headgate import App, Batch, BatchContext, Client
from headgate.contrib.flask import Headgate
from headgate.testing import Done, Harness


@pytest.fixture
def app() -> App:
    return App("shop")


def test_handlers_run_in_the_application_context(app: App) -> None:
    web = Flask("shop")
    web.config["SENDER"] = "hello@example.com"
    jobs = Headgate(app, web)

    @app.job("plain")
    def plain() -> str:
        return str(current_app.config["SENDER"])

    @app.job("async")
    async def asynchronous() -> str:
        return str(current_app.config["SENDER"])

    assert web.extensions["headgate"] is jobs
    for job in (plain, asynchronous):
        assert Harness(app).run(job) == Done(result="hello@example.com")


def test_batch_handlers_run_in_the_application_context_however_many_jobs_they_have(
    app: App,
) -> None:
    web = Flask("shop")
    Headgate(app, web)
    seen: list[tuple[int, bool]] = []

    @app.job("plain", batch=Batch(10))
    def plain(items: list[int], _ctx: BatchContext) -> None:
        seen.append((len(items), has_app_context()))

    @app.job("async", batch=Batch(10))
    async def asynchronous(items: list[int], _ctx: BatchContext) -> None:
        seen.append((len(items), has_app_context()))

    harness = Harness(app)
    for job in (plain, asynchronous):
        for payloads in ([1], [2, 3]):
            harness.client.submit_many(job, payloads)
            harness.drain()
    assert seen == [(1, True), (2, True)] * 2


def test_the_client_is_made_once_on_first_use(app: App) -> None:
    made: list[Client] = []

    def make_client() -> Client:
        made.append(Harness(app).client)
        return made[-1]

    jobs = Headgate(app, make_client=make_client)
    assert not made
    assert jobs.client is jobs.client is made[0]
    assert len(made) == 1


def test_a_worker_without_the_web_app_runs_handlers_all_the_same(app: App) -> None:
    Headgate(app)

    @app.job("plain")
    def plain() -> int:
        return 1

    assert Harness(app).run(plain) == Done(result=1)
