"""The keys of a process: read when they are needed, anew for an unknown one, and not too often."""

from __future__ import annotations

import asyncio

import pytest

from headgate.errors import MessageUnsigned, ServiceUnavailable, SignatureInvalid, TransportError
from headgate.jobs.core.events import Event, Events, SigningKeysFailed
from headgate.jobs.messages.keyring import FRESH_S, GAP_S, Keyring, KeyUnknown
from headgate.jobs.messages.signatures import Destination, SigningKey, signed
from headgate.testing import MemorySecrets, VirtualClock

SECRET = "shop-signing"  # noqa: S105 - a name
FIRST, SECOND, THIRD = (name * 16 for name in (b"first ", b"second", b"third "))
PLACE = Destination(queue="shop-jobs-normal")
BODY = '{"v":1}'
DOWN = ServiceUnavailable("Secrets Manager is down")


class Process:
    """A process with a keyring of its own, over secrets that several may share."""

    def __init__(self, secrets: MemorySecrets, *, accept_unsigned: bool = False) -> None:
        self.clock = VirtualClock()
        self.told: list[Event] = []
        self.keyring = Keyring(
            secrets,
            SECRET,
            accept_unsigned=accept_unsigned,
            clock=self.clock,
            events=Events(self.told.append),
        )

    def signs(self) -> str:
        return asyncio.run(self.keyring.signed(BODY, PLACE))

    def refresh(self) -> None:
        asyncio.run(self.keyring.refresh())

    def check(self, body: str) -> None:
        self.keyring.check(body, PLACE)


def secrets_with(*values: bytes) -> MemorySecrets:
    """Return secrets whose key was each of these values in turn."""
    secrets = MemorySecrets()
    for value in values:
        secrets.put(SECRET, value)
    return secrets


def by(value: bytes) -> str:
    return signed(BODY, SigningKey(value), PLACE)


def test_the_newest_key_signs_and_the_one_before_it_still_counts() -> None:
    process = Process(secrets_with(FIRST, SECOND))
    assert process.signs() == by(SECOND)
    process.check(by(FIRST))
    process.check(by(SECOND))


def test_the_keys_are_read_once_and_again_after_five_minutes() -> None:
    secrets = secrets_with(FIRST)
    process = Process(secrets)
    for _ in range(100):
        process.signs()
    assert secrets.reads == 1
    secrets.put(SECRET, SECOND)
    process.clock.advance(FRESH_S)
    assert (process.signs(), secrets.reads) == (by(SECOND), 2)


def test_an_unknown_key_is_looked_for_before_its_message_is_called_forged() -> None:
    secrets = secrets_with(FIRST)
    process = Process(secrets)
    process.refresh()
    secrets.put(SECRET, SECOND)  # a rotation, of which another process has heard already
    process.clock.advance(GAP_S)
    with pytest.raises(KeyUnknown):
        process.check(by(SECOND))
    process.refresh()
    process.check(by(SECOND))
    with pytest.raises(KeyUnknown):
        process.check(by(THIRD))
    process.clock.advance(GAP_S)
    process.refresh()
    with pytest.raises(SignatureInvalid, match="neither the current nor the previous"):
        process.check(by(THIRD))


def test_a_key_that_was_not_found_is_looked_for_again_a_minute_later() -> None:
    secrets = secrets_with(FIRST)
    process = Process(secrets)
    process.refresh()
    with pytest.raises(KeyUnknown):
        process.check(by(SECOND))
    process.clock.advance(GAP_S)
    process.refresh()
    with pytest.raises(SignatureInvalid):
        process.check(by(SECOND))
    secrets.put(SECRET, SECOND)
    process.clock.advance(60)
    with pytest.raises(KeyUnknown):
        process.check(by(SECOND))
    process.refresh()
    process.check(by(SECOND))


def test_invented_keys_cost_one_read_in_five_seconds() -> None:
    secrets = secrets_with(FIRST)
    process = Process(secrets)
    for number in range(600):
        with pytest.raises((KeyUnknown, SignatureInvalid)):
            process.check(by(b"%032d" % number))
        process.refresh()
        process.clock.advance(0.05)
    assert secrets.reads <= 1 + 30 / GAP_S


def test_two_rotations_end_a_key() -> None:
    secrets = secrets_with(FIRST)
    process = Process(secrets)
    process.refresh()
    secrets.put(SECRET, SECOND)
    secrets.put(SECRET, THIRD)
    process.clock.advance(FRESH_S)
    process.refresh()
    with pytest.raises(KeyUnknown):
        process.check(by(FIRST))
    process.clock.advance(GAP_S)
    process.refresh()
    with pytest.raises(SignatureInvalid):
        process.check(by(FIRST))


def test_without_secrets_manager_nothing_is_refused_for_its_key() -> None:
    secrets = secrets_with(FIRST)
    secrets.fault = DOWN
    process = Process(secrets)
    for _ in range(100):
        process.refresh()
        with pytest.raises(KeyUnknown):
            process.check(by(FIRST))
        process.clock.advance(GAP_S)
    with pytest.raises(ServiceUnavailable):
        process.signs()
    assert {type(event) for event in process.told} == {SigningKeysFailed}
    secrets.fault = None
    process.clock.advance(GAP_S)
    process.refresh()
    process.check(by(FIRST))


def test_known_keys_outlast_secrets_manager() -> None:
    secrets = secrets_with(FIRST)
    process = Process(secrets)
    process.refresh()
    secrets.fault = DOWN
    process.clock.advance(10 * FRESH_S)
    assert process.signs() == by(FIRST)
    process.check(by(FIRST))
    assert len(process.told) == 1


def test_a_secret_that_is_no_key_is_as_one_that_can_not_be_read() -> None:
    process = Process(secrets_with(b"short"))
    with pytest.raises(TransportError, match="32 random bytes or more, got 5"):
        process.signs()
    with pytest.raises(KeyUnknown):
        process.check(by(FIRST))


def test_an_unsigned_message_is_refused_unless_the_app_is_being_changed() -> None:
    secrets = secrets_with(FIRST)
    with pytest.raises(MessageUnsigned):
        Process(secrets).check(BODY)
    lenient = Process(secrets, accept_unsigned=True)
    lenient.refresh()
    lenient.check(BODY)
    with pytest.raises(SignatureInvalid):
        lenient.check(by(FIRST).replace('"v":1', '"v":2'))


def test_verify_reads_the_keys_itself() -> None:
    secrets = secrets_with(FIRST)
    process = Process(secrets)
    asyncio.run(process.keyring.verify(by(FIRST), PLACE))
    secrets.put(SECRET, SECOND)
    process.clock.advance(GAP_S)
    asyncio.run(process.keyring.verify(by(SECOND), PLACE))
    process.clock.advance(GAP_S)
    with pytest.raises(SignatureInvalid):
        asyncio.run(process.keyring.verify(by(THIRD), PLACE))
