"""Signed messages through the functions: the consumer refuses strangers', the bridge signs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest
from pydantic import BaseModel

from headgate import App, Backoff, Client, Retry, Schedule, Signing
from headgate.errors import ServiceUnavailable, TransportError
from headgate.jobs.core.concurrency import Threads
from headgate.jobs.core.events import Event, Events, JobCompleted, MessageUnrunnable
from headgate.jobs.core.immediate import ImmediateSecretStore
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.messages.envelope import parse
from headgate.jobs.messages.keyring import FRESH_S, Keyring
from headgate.jobs.messages.signatures import Destination, SigningKey, parted, signed
from headgate.jobs.schedules.bridging import Bridge
from headgate.jobs.schedules.firing import schedule_input
from headgate.jobs.schedules.inputs import read_input
from headgate.jobs.schedules.routes import Routes
from headgate.jobs.testing import MemoryBackend, MemorySecrets
from headgate.lambdas import bridge
from tests.support.functions import Function

MAIL, DEAD = "shop-jobs-normal", "shop-jobs-normal-dlq"
SECRET, KEY = "shop-signing", b"a key of thirty-two bytes or more"
PARKING = Retry(max_attempts=2, backoff=Backoff.fixed(10))


class Note(BaseModel):
    text: str = ""


class Shop:
    """An app whose messages are signed, as a function runs it."""

    def __init__(self) -> None:
        self.app = App("shop", signing=Signing(), parking=PARKING)
        self.ran: list[str] = []

        @self.app.job("send", schedule=Schedule.rate(timedelta(hours=1)))
        async def send(note: Note) -> None:
            self.ran.append(note.text)

        @self.app.job("refund")
        async def refund(note: Note) -> None:
            self.ran.append(f"refund {note.text}")

        self.send = send
        self.function = Function(self.app, MAIL)
        self.function.backend.secrets.put(SECRET, KEY)

    def taken(self) -> OutgoingMessage:
        """Submit a job to a queue elsewhere, and return its message."""
        backend = MemoryBackend(self.app)
        backend.secrets.put(SECRET, KEY)
        with Client(self.app, backend=backend) as client:
            client.submit(self.send, Note(text="ada"))
        [message] = backend.sqs.messages(MAIL)
        return OutgoingMessage(body=message.body, attributes=message.attributes)

    def receives(self, *bodies: str) -> None:
        messages = [OutgoingMessage(body=body) for body in bodies]
        assert self.function.sqs.sync.send(MAIL, messages) == []


STRANGE: dict[str, tuple[Callable[[str], str], str]] = {
    "altered": (lambda body: body.replace('"ada"', '"eve"'), "signature-invalid"),
    "another type": (lambda body: body.replace('"send"', '"refund"'), "signature-invalid"),
    "of another queue": (
        lambda body: signed(body, SigningKey(KEY), Destination(queue="shop-jobs-high")),
        "signature-invalid",
    ),
    "forged": (
        lambda body: signed(body, SigningKey(KEY[::-1]), Destination(queue=MAIL)),
        "signature-invalid",
    ),
    "unsigned": (lambda body: parted(body)[0], "unsigned"),
}


def test_a_function_runs_what_is_signed_and_parks_all_else_with_the_reason() -> None:
    shop = Shop()
    body = shop.taken().body
    shop.receives(body, *(change(body) for change, _ in STRANGE.values()))
    shop.function.drain()
    letters = shop.function.messages(DEAD)
    assert {letter.body: letter.attributes["Reason"] for letter in letters} == {
        change(body): reason for change, reason in STRANGE.values()
    }
    assert shop.ran == ["ada"]
    told = [each for each in shop.function.events if isinstance(each, MessageUnrunnable)]
    assert {each.reason for each in told} == {"unsigned", "signature-invalid"}
    shop.function.close()


def test_a_function_that_can_not_read_the_key_gives_everything_back() -> None:
    shop = Shop()
    secrets = shop.function.backend.secrets
    secrets.fault = ServiceUnavailable("Secrets Manager is down")
    shop.receives(shop.taken().body)
    for _ in range(4):
        shop.function.invoke()
        shop.function.clock.advance(120)
    assert (shop.ran, shop.function.messages(DEAD)) == ([], [])
    secrets.fault = None
    shop.function.drain()
    [done] = [each for each in shop.function.events if isinstance(each, JobCompleted)]
    assert (shop.ran, done.attempt) == (["ada"], 1)
    shop.function.close()


@pytest.mark.parametrize("is_warm", [True, False], ids=["warm", "cold"])
def test_no_invocation_dies_while_secrets_manager_is_silent(is_warm: bool) -> None:
    shop = Shop()
    secrets = shop.function.backend.secrets
    if is_warm:
        shop.receives(shop.taken().body)
        shop.function.drain()
        shop.function.clock.advance(FRESH_S)

    async def say_nothing(_name: str) -> Sequence[bytes]:
        await asyncio.Event().wait()
        raise AssertionError

    shop.receives(shop.taken().body)
    with patch.object(secrets, "versions", say_nothing):
        shop.function.invoke()
    assert (shop.function.deaths, len(shop.ran)) == (0, 2 if is_warm else 0)
    shop.function.die()  # its read would never end
    shop.function.clock.advance(120)
    shop.function.drain()
    assert shop.ran == ["ada"] * (2 if is_warm else 1)
    done = [each for each in shop.function.events if isinstance(each, JobCompleted)]
    assert {each.attempt for each in done} == {1}
    shop.function.close()


def test_a_warm_function_learns_of_a_rotation() -> None:
    shop = Shop()
    shop.receives(shop.taken().body)
    shop.function.drain()
    shop.function.backend.secrets.put(SECRET, KEY[::-1])
    body = shop.taken().body
    shop.receives(signed(body, SigningKey(KEY[::-1]), Destination(queue=MAIL)))
    shop.function.drain()
    assert (shop.ran, shop.function.messages(DEAD)) == (["ada", "ada"], [])
    shop.function.close()


# --- the bridge -----------------------------------------------------------------------------------


class Bridged:
    """The bridge's handler as it is deployed: the secret's name is all that it is told."""

    def __init__(self, app: App) -> None:
        self.backend = MemoryBackend(app)
        self.secrets: MemorySecrets = self.backend.secrets
        self.secrets.put(SECRET, KEY)
        self._routes = Routes.of(app)
        self.told: list[Event] = []

    def fire(self, given: dict[str, Any]) -> OutgoingMessage:
        """Invoke the bridge; return the message that it has sent."""
        clock = self.backend.clock
        keyring = Keyring(
            ImmediateSecretStore(self.secrets.sync),
            SECRET,
            concurrency=Threads(),
            clock=clock,
            events=Events(self.told.append),
        )
        made = Bridge(self.backend.sqs.sync, None, clock.now, routes=self._routes, keyring=keyring)
        made.submit(read_input(given))
        [message] = self.backend.sqs.messages(MAIL)
        return OutgoingMessage(body=message.body)


def _firing(shop: Shop) -> dict[str, Any]:
    return schedule_input(shop.app, shop.send) | {
        "schedule_arn": "arn:aws:scheduler:eu-central-1:123456789012:schedule/shop/send",
        "scheduled_time": "2026-03-01T08:00:00Z",
        "execution_id": "1",
        "attempt_number": "1",
    }


def test_what_the_bridge_makes_of_a_firing_is_signed_and_runs() -> None:
    shop = Shop()
    shop.receives(Bridged(shop.app).fire(_firing(shop)).body)
    shop.function.drain()
    assert shop.ran == [""]
    shop.function.close()


def test_the_bridge_vouches_for_no_delayed_job_that_it_carries() -> None:
    shop = Shop()
    bridged = Bridged(shop.app)
    body = parted(shop.taken().body)[0].replace('"ada"', '"eve"')
    job_id = str(parse(body).id)
    given = {
        "delayed_until": "2026-03-01T08:00:00Z",
        "job_id": job_id,
        "type": "send",
        "queue_name": MAIL,
        "body": body,
        "attributes": {},
    }
    assert bridged.fire(given).body == body
    shop.receives(body)
    shop.function.drain()
    [letter] = shop.function.messages(DEAD)
    assert (letter.attributes["Reason"], shop.ran) == ("unsigned", [])
    shop.function.close()


def test_a_delayed_job_is_signed_by_its_submitter_and_carried() -> None:
    shop = Shop()
    function = shop.function
    function.submit(shop.send, Note(text="later"), delay=timedelta(days=2))
    function.clock.advance(2 * 86_400)
    function.drain()
    assert (shop.ran, function.messages(DEAD)) == (["later"], [])
    function.close()


def test_a_bridge_that_can_not_read_the_key_fails_and_is_invoked_again() -> None:
    shop = Shop()
    bridged = Bridged(shop.app)
    bridged.secrets.fault = ServiceUnavailable("Secrets Manager is down")
    with pytest.raises(TransportError, match="Secrets Manager is down"):
        bridged.fire(_firing(shop))
    assert not bridged.backend.sqs.messages(MAIL)


@pytest.mark.parametrize("secret", [None, SECRET])
def test_the_bridge_signs_if_its_environment_names_a_secret(secret: str | None) -> None:
    environ = {} if secret is None else {bridge.SECRET: secret}
    bridge._bridge.cache_clear()
    with (
        patch.dict("os.environ", {"AWS_REGION": "eu-central-1", **environ}),
        patch.object(bridge, "_ROUTES") as routes,
    ):
        routes.read_bytes.return_value = json.dumps({"groups": {}, "runs_from": {}}).encode()
        made = bridge._bridge()
    bridge._bridge.cache_clear()
    assert (made._keyring is not None) == (secret is not None)
