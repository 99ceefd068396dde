"""Django: jobs submitted once a transaction commits, and the app of the settings."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.test import override_settings

from headgate import App, Batch, BatchContext, Client, RateLimit
from headgate.contrib import django as integration
from headgate.contrib.django import (
    client,
    configured_app,
    manage_connections,
    submit_on_commit,
    using_client,
)
from headgate.errors import ConfigurationError, CostInvalid, DelayInvalid, PayloadInvalid
from headgate.jobs.messages.envelope import parse
from headgate.testing import Done, Harness

pytestmark = pytest.mark.usefixtures("django")


@pytest.fixture
def harness() -> Iterator[Harness]:
    app = App("shop")
    app.define("send", int)
    jobs = Harness(app)
    with using_client(jobs.client):
        yield jobs


def test_a_job_is_submitted_once_its_transaction_commits(harness: Harness) -> None:
    send = harness.app.types["send"]
    with transaction.atomic():
        submit_on_commit(send.new(1), send.new(2))
        assert harness.submitted(send) == []
    assert [each.payload for each in harness.submitted(send)] == [1, 2]


def test_a_transaction_that_rolls_back_submits_nothing(harness: Harness) -> None:
    send = harness.app.types["send"]
    with transaction.atomic():
        submit_on_commit(send.new(1))
        transaction.set_rollback(True)
    assert harness.submitted(send) == []


def test_without_a_transaction_it_is_submitted_at_once(harness: Harness) -> None:
    send = harness.app.types["send"]
    submit_on_commit(send.new(1))
    assert len(harness.submitted(send)) == 1


def test_a_wrong_payload_is_refused_before_the_commit(harness: Harness) -> None:
    send = harness.app.types["send"]
    with transaction.atomic(), pytest.raises(PayloadInvalid):
        submit_on_commit(send.new("not a number"))


def test_an_option_that_is_not_valid_is_refused_before_the_commit(harness: Harness) -> None:
    send = harness.app.types["send"]
    dear = harness.app.define("dear", int, rate_limit=RateLimit(10, per=1, cost=lambda cost: cost))
    with transaction.atomic():
        for refused, error in (
            (send.new(1, delay=-1), DelayInvalid),
            (dear.new(11), CostInvalid),
        ):
            with pytest.raises(error):
                submit_on_commit(send.new(1), refused)
        submit_on_commit(send.new(2))
    assert [each.payload for each in harness.submitted(send)] == [2]


def test_a_job_that_expires_before_the_commit_keeps_no_others_from_being_submitted(
    harness: Harness,
) -> None:
    send = harness.app.types["send"]
    with transaction.atomic():
        soon = harness.clock.now() + timedelta(seconds=5)
        submit_on_commit(send.new(1), send.new(2, expires=soon), send.new(3, delay=60))
        harness.clock.advance(6)
    assert [each.payload for each in harness.submitted(send)] == [1, 2, 3]
    delayed = parse(harness.sqs.messages("shop-jobs-normal")[-1].body)
    assert delayed.not_before == harness.clock.now() + timedelta(seconds=60), "from the commit on"


def test_settings_without_the_app_say_what_to_write() -> None:
    configured_app.cache_clear()
    with override_settings(HEADGATE_APP=None), pytest.raises(ConfigurationError) as raised:
        configured_app()
    assert 'write HEADGATE_APP = "shop.jobs:app"' in str(raised.value)


def test_the_client_is_made_once_for_the_app_of_the_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    configured_app.cache_clear()
    integration._own_client.cache_clear()
    assert client() is client()
    assert isinstance(client(), Client)
    assert configured_app().name == "bookshop"


def test_the_settings_may_name_a_spool(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    def make(_app: App, *, spool: Any) -> Client:
        given.append(spool)
        return Harness(App("shop")).client

    monkeypatch.setattr(integration, "Client", make)
    integration._own_client.cache_clear()
    with override_settings(HEADGATE_SPOOL="/var/lib/shop/jobs.spool"):
        client()
    integration._own_client.cache_clear()
    assert given == ["/var/lib/shop/jobs.spool"]


def test_old_connections_are_closed_around_a_plain_handler_in_its_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = App("shop")
    manage_connections(app)
    did: list[tuple[str, int]] = []

    def note(what: str) -> None:
        did.append((what, threading.get_ident()))

    monkeypatch.setattr(integration, "close_old_connections", lambda: note("close"))

    @app.job("plain")
    def plain() -> None:
        note("run")

    @app.job("async")
    async def asynchronous() -> None:
        note("run")

    assert Harness(app).run(plain) == Done()
    assert [what for what, _ in did] == ["close", "run", "close"]
    assert len({thread for _, thread in did}) == 1
    did.clear()
    assert Harness(app).run(asynchronous) == Done()
    assert [what for what, _ in did] == ["run"]


def test_the_connections_of_a_batchs_thread_are_looked_after_once_a_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = App("shop")
    manage_connections(app)
    did: list[tuple[str, int]] = []
    monkeypatch.setattr(
        integration, "close_old_connections", lambda: did.append(("close", threading.get_ident()))
    )

    @app.job("many", batch=Batch(10))
    def many(items: list[int], _ctx: BatchContext) -> None:
        did.append((f"run {len(items)}", threading.get_ident()))

    harness = Harness(app)
    harness.client.submit_many(many, [1, 2])
    harness.drain()
    assert [what for what, _ in did] == ["close", "run 2", "close"]
    assert len({thread for _, thread in did}) == 1
