"""An error's text is redacted before it is logged, recorded, reported or parked, on every host."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr, field_serializer

from headgate import App, Backoff, Client, Discard, DoNotRetry, Retry, RetryLater
from headgate.jobs.core.event_log import log_event
from headgate.jobs.core.events import HookFailed, JobDeadLettered, JobDiscarded, JobFailed
from headgate.jobs.definitions.handlers.resources import OpenResources
from headgate.jobs.testing import Harness, MemoryBackend
from headgate.workers.isolation import child_main
from tests.unit.lambdas.test_consume import Function
from tests.unit.workers.rig import DEAD_MAIL, MAIL, Rig

_ENDS: Any = (JobDeadLettered, JobDiscarded)

CARD = "4111-1111-1111-1111"
TOKEN = "tok-5f2a"  # noqa: S105 - of no account


class Payment(BaseModel):
    token: SecretStr = SecretStr(TOKEN)

    @field_serializer("token", when_used="json")
    def _as_it_is(self, token: SecretStr) -> str:
        return token.get_secret_value()


def _declined(payment: Payment) -> None:
    raise ValueError(f"{CARD} declined with {payment.token.get_secret_value()}")


def _never(payment: Payment) -> None:
    raise DoNotRetry(f"{CARD} with {payment.token.get_secret_value()}")


def _discarded(payment: Payment) -> None:
    raise Discard(f"{CARD} with {payment.token.get_secret_value()}")


def _later(payment: Payment) -> None:
    raise RetryLater(1, f"{CARD} with {payment.token.get_secret_value()}")


def _app(handler: Callable[[Payment], None], *, plain: bool = True, **options: Any) -> App:
    app = App("shop", redact=[r"\d{4}(-\d{4}){3}"], records="full", **options)
    queue = app.queue("mail", priorities=["normal"])
    retry = Retry(max_attempts=2, backoff=Backoff.fixed(1))
    declared = queue.define("pay", Payment, retry=retry)
    if plain:
        declared.handler(handler)
        return app

    @declared.handler
    async def pay(payment: Payment) -> None:
        handler(payment)

    return app


def _submit(app: App, backend: MemoryBackend[Any]) -> None:
    with Client(app, backend=backend) as client:
        client.submit(app.types["pay"], Payment())


def _check(events: list[Any], table: Any, letters: list[Any], logged: str) -> None:
    """Check that nothing has a secret but the messages' bodies, which are the payload."""
    attributes = [letter.attributes for letter in letters]
    for where in (events, table._store._partitions, attributes, logged):
        assert CARD not in repr(where)
        assert TOKEN not in repr(where)
    assert any("[redacted]" in repr(event) for event in events)


@pytest.mark.looptime
@pytest.mark.parametrize("plain", [True, False], ids=["thread", "event loop"])
@pytest.mark.parametrize("handler", [_declined, _never, _discarded])
async def test_a_worker_keeps_what_is_redacted_out_of_all_it_writes(
    handler: Callable[[Payment], None], plain: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    app = _app(handler, plain=plain)
    rig = Rig(app)
    rig.subscribers.append(log_event)
    _submit(app, rig.backend)
    async with rig.working():
        await rig.happens(_ENDS)
    logged = "".join(repr(vars(record)) for record in caplog.records)
    _check(rig.events, rig.table, rig.sqs.messages(DEAD_MAIL), logged)


@pytest.mark.parametrize("handler", [_declined, _never, _discarded])
def test_so_does_a_function(handler: Callable[[Payment], None]) -> None:
    app = _app(handler)
    function = Function(app, MAIL)
    _submit(app, function.backend)
    for _ in range(3):
        if function.messages():
            function.invoke()
            function.clock.advance(2)
    function.consumer.close()
    assert function.messages() == []
    _check(function.events, function.table, function.messages(DEAD_MAIL), "")


def test_so_does_the_harness() -> None:
    app = _app(_declined)
    jobs = Harness(app)
    jobs.client.submit(app.types["pay"], Payment())
    jobs.drain()
    assert CARD not in repr(jobs.events)
    assert TOKEN not in repr(jobs.events)


def test_hooks_own_errors_are_redacted_too() -> None:
    app = _app(_declined)

    @app.on_failed
    def failing(_event: JobFailed) -> None:
        raise RuntimeError(f"no mail about {CARD}")

    async def work() -> Rig:
        rig = Rig(app)
        _submit(app, rig.backend)
        async with rig.working():
            await rig.happens(HookFailed)
        return rig

    rig = asyncio.run(work())
    assert {event.error for event in rig.heard(HookFailed)} == {
        "RuntimeError: no mail about [redacted]"
    }


@pytest.mark.parametrize("handler", [_declined, _never, _discarded, _later])
def test_a_child_process_redacts_before_it_answers(handler: Callable[[Payment], None]) -> None:
    app = _app(handler)
    jobs = Harness(app)
    jobs.client.submit(app.types["pay"], Payment())
    [message] = jobs.sqs.messages(MAIL)
    order = {
        "body": message.body,
        "queue": "mail",
        "attempt": 1,
        "max_attempts": 2,
        "deadline": "2030-01-01T00:00:00+00:00",
    }
    channel: Any = SimpleNamespace(send=lambda _frame: None, on_cancel=None)
    with asyncio.Runner() as runner:
        attempt = child_main._Attempt(app, order, channel, runner, OpenResources())
        frame = attempt.frame()
    assert CARD.encode() not in frame
    assert TOKEN.encode() not in frame
    assert b"[redacted]" in frame
