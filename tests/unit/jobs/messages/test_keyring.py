"""The keys of a process: read when they are needed, anew for an unknown one, and not too often."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from headgate.errors import MessageUnsigned, ServiceUnavailable, SignatureInvalid, TransportError
from headgate.jobs.core.concurrency import Tasks, Threads
from headgate.jobs.core.events import Event, Events, SigningKeysFailed
from headgate.jobs.core.immediate import ImmediateSecretStore, drive
from headgate.jobs.messages import keyring as keyring_module
from headgate.jobs.messages.keyring import FRESH_S, GAP_S, PATIENCE_S, Keyring, KeyUnknown
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
            concurrency=Tasks(),
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


# --- one read for all, and nobody with a key waits for long ---------------------------------------


class Silent(MemorySecrets):
    """A Secrets Manager that doesn't answer while it `hangs`."""

    def __init__(self) -> None:
        super().__init__()
        self.put(SECRET, FIRST)
        self.hangs = True
        self.asked = 0
        self.answer = asyncio.Event()

    async def versions(self, name: str) -> Sequence[bytes]:
        self.asked += 1
        if self.hangs:
            await self.answer.wait()
        return await super().versions(name)


async def test_callers_without_a_key_wait_for_one_read() -> None:
    secrets = secrets_with(FIRST)
    keyring = Process(secrets).keyring
    made = await asyncio.gather(*(keyring.signed(BODY, PLACE) for _ in range(20)))
    assert (set(made), secrets.reads) == ({by(FIRST)}, 1)


async def test_a_read_that_fails_fails_for_all_who_wait_for_it() -> None:
    secrets = secrets_with(FIRST)
    secrets.fault = DOWN
    process = Process(secrets)
    calls = (process.keyring.signed(BODY, PLACE) for _ in range(3))
    assert await asyncio.gather(*calls, return_exceptions=True) == [DOWN] * 3
    assert (secrets.reads, len(process.told)) == (1, 1)


async def test_a_cancelled_caller_leaves_the_read_to_the_others() -> None:
    secrets = Silent()
    keyring = Process(secrets).keyring
    first, second = (asyncio.create_task(keyring.signed(BODY, PLACE)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    secrets.answer.set()
    assert (await second, secrets.asked) == (by(FIRST), 1)


@pytest.mark.looptime
async def test_with_known_keys_a_silent_secrets_manager_costs_a_second() -> None:
    secrets, loop = Silent(), asyncio.get_running_loop()
    secrets.hangs = False
    process = Process(secrets)
    await process.keyring.refresh()
    secrets.hangs = True
    process.clock.advance(FRESH_S)
    began = loop.time()
    signing = [process.keyring.signed(BODY, PLACE) for _ in range(3)]
    assert await asyncio.gather(*signing) == [by(FIRST)] * 3
    assert loop.time() - began == PATIENCE_S
    process.clock.advance(PATIENCE_S)
    await process.keyring.verify(by(FIRST), PLACE)
    await process.keyring.signed(BODY, PLACE)
    assert loop.time() - began == PATIENCE_S, "it is waited for once, and not by each"
    secrets.put(SECRET, SECOND)
    secrets.answer.set()
    await asyncio.sleep(1)
    assert await process.keyring.signed(BODY, PLACE) == by(SECOND)
    assert secrets.asked == 2


@pytest.mark.looptime
async def test_keys_of_an_idle_process_are_read_before_they_sign() -> None:
    secrets = secrets_with(FIRST)
    process = Process(secrets)
    await process.keyring.refresh()
    secrets.put(SECRET, SECOND)
    secrets.put(SECRET, THIRD)  # which ends the first
    process.clock.advance(86_400)
    signing = [process.keyring.signed(BODY, PLACE) for _ in range(3)]
    assert await asyncio.gather(*signing) == [by(THIRD)] * 3


async def test_a_strangers_key_holds_up_no_signature() -> None:
    secrets = Silent()
    secrets.hangs = False
    process = Process(secrets)
    await process.keyring.refresh()
    secrets.hangs = True
    process.clock.advance(GAP_S)
    looking = asyncio.create_task(process.keyring.verify(by(SECOND), PLACE))
    await asyncio.sleep(0)
    signing = process.keyring.signed(BODY, PLACE)
    assert drive(signing) == by(FIRST), "without suspending"
    secrets.put(SECRET, SECOND)
    secrets.answer.set()
    await looking


@pytest.mark.looptime
async def test_whoever_has_little_time_waits_no_longer_for_the_first_key() -> None:
    secrets, loop = Silent(), asyncio.get_running_loop()
    keyring = Process(secrets).keyring
    began = loop.time()
    await keyring.refresh(at_most_s=12)
    assert loop.time() - began == 12
    with pytest.raises(KeyUnknown):
        keyring.check(by(FIRST), PLACE)
    await keyring.close()


async def test_closing_ends_a_read_that_is_under_way() -> None:
    secrets = Silent()
    keyring = Process(secrets).keyring
    await keyring.refresh(at_most_s=0)
    await keyring.close()
    [own] = asyncio.all_tasks()
    assert own is asyncio.current_task()


def test_a_read_that_its_event_loop_has_left_behind_is_begun_again() -> None:
    secrets = Silent()
    process = Process(secrets)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(process.keyring.refresh(at_most_s=0))
    [left] = asyncio.all_tasks(loop)
    loop.close()
    secrets.hangs = False
    process.clock.advance(GAP_S)
    assert process.signs() == by(FIRST)
    left.get_coro().close()


class SlowSecrets:
    """A synchronous Secrets Manager that answers once it may."""

    def __init__(self) -> None:
        self.values = [FIRST]
        self.asked, self.may_answer = threading.Event(), threading.Event()
        self.may_answer.set()

    def versions(self, _name: str) -> Sequence[bytes]:
        self.asked.set()
        assert self.may_answer.wait(30)
        return [*self.values]


def _of_threads(secrets: SlowSecrets, clock: VirtualClock) -> Keyring:
    store = ImmediateSecretStore(secrets)
    return Keyring(store, SECRET, concurrency=Threads(), clock=clock, events=Events())


def test_threads_without_a_key_wait_for_one_read() -> None:
    secrets, asking = SlowSecrets(), threading.Semaphore(0)

    class Asked(VirtualClock):
        """A clock that tells when somebody looks at it."""

        def monotonic(self) -> float:
            asking.release()
            return super().monotonic()

    keyring, made = _of_threads(secrets, Asked()), list[str | Exception]()

    def sign() -> None:
        try:
            made.append(drive(keyring.signed(BODY, PLACE)))
        except TransportError as error:
            made.append(error)

    secrets.may_answer.clear()
    threads = [threading.Thread(target=sign) for _ in range(3)]
    threads[0].start()
    assert secrets.asked.wait(30)
    while asking.acquire(blocking=False):
        pass  # the first one's looks
    for thread in threads[1:]:
        thread.start()
    for _ in range(4):  # twice each: for the keys' age, and to see whether a read is due
        assert asking.acquire(timeout=30)
    secrets.may_answer.set()
    for thread in threads:
        thread.join()
    assert made == [by(FIRST)] * 3


def test_a_thread_with_a_key_goes_on_while_it_is_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyring_module, "PATIENCE_S", 0.0)
    secrets, clock = SlowSecrets(), VirtualClock()
    keyring = _of_threads(secrets, clock)
    drive(keyring.refresh())
    secrets.may_answer.clear()
    secrets.values = [SECOND, FIRST]
    clock.advance(FRESH_S)
    assert drive(keyring.signed(BODY, PLACE)) == by(FIRST)
    secrets.may_answer.set()
    drive(keyring.verify(by(SECOND), PLACE))  # waits for that read, as it lacks the key
    assert drive(keyring.signed(BODY, PLACE)) == by(SECOND)
