"""The cache of data keys: its bounds, and one request for all who wait."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from headgate import Encryption
from headgate.jobs.core.immediate import ImmediateKeys, ImmediateLock, drive
from headgate.jobs.core.keys.key_ring import MOST_OPENED, KeyRing
from headgate.jobs.errors import ServiceUnavailable, SettingsInvalid
from headgate.testing import MemoryKeys, VirtualClock

KEY, CONTEXT = "alias/a", (("app", "shop"), ("type", "send"))


def _ring(keys: MemoryKeys, clock: VirtualClock | None = None) -> KeyRing:
    return KeyRing(ImmediateKeys(keys.sync), lock=ImmediateLock, clock=clock or VirtualClock())


def test_a_data_key_seals_no_more_messages_than_its_bound() -> None:
    keys, bounds = MemoryKeys(), Encryption(max_messages=3)
    ring = _ring(keys)
    used = [drive(ring.for_sealing(KEY, CONTEXT, 1, bounds)).plain for _ in range(7)]
    assert [used.count(each) for each in dict.fromkeys(used)] == [3, 3, 1]


def test_a_data_key_seals_no_more_bytes_than_its_bound_but_one_message_of_any_size() -> None:
    keys, bounds = MemoryKeys(), Encryption(max_bytes=100)
    ring = _ring(keys)
    used = [drive(ring.for_sealing(KEY, CONTEXT, size, bounds)).plain for size in (60, 40, 1, 500)]
    assert used[0] == used[1]
    assert len(set(used[1:])) == 3


def test_a_data_key_is_used_no_longer_than_its_age() -> None:
    keys, clock, bounds = MemoryKeys(), VirtualClock(), Encryption(max_age=60)
    ring = _ring(keys, clock)
    first = drive(ring.for_sealing(KEY, CONTEXT, 1, bounds))
    clock.advance(59)
    assert drive(ring.for_sealing(KEY, CONTEXT, 1, bounds)) == first
    clock.advance(1)
    assert drive(ring.for_sealing(KEY, CONTEXT, 1, bounds)) != first
    drive(ring.for_opening(KEY, CONTEXT, first.wrapped, bounds))
    assert keys.calls[-1] == ("unwrap", KEY), "an expired key is unwrapped anew"


def test_each_context_has_a_data_key_of_its_own() -> None:
    keys, bounds = MemoryKeys(), Encryption()
    ring = _ring(keys)
    other = (("app", "shop"), ("type", "charge"))
    one = drive(ring.for_sealing(KEY, CONTEXT, 1, bounds))
    assert drive(ring.for_sealing(KEY, other, 1, bounds)) != one


async def test_those_who_wait_for_one_key_share_a_request() -> None:
    keys, bounds = MemoryKeys(), Encryption()
    ring = KeyRing(keys, lock=asyncio.Lock, clock=VirtualClock())
    made = await asyncio.gather(*(ring.for_sealing(KEY, CONTEXT, 1, bounds) for _ in range(20)))
    assert len({each.plain for each in made}) == 1
    assert keys.calls == [("generate", KEY)]


async def test_a_request_that_fails_is_made_again_by_the_next() -> None:
    keys, bounds = MemoryKeys(), Encryption()
    ring = KeyRing(keys, lock=asyncio.Lock, clock=VirtualClock())
    keys.fail("generate", ServiceUnavailable("KMS is down"))
    with pytest.raises(ServiceUnavailable):
        await ring.for_sealing(KEY, CONTEXT, 1, bounds)
    assert (await ring.for_sealing(KEY, CONTEXT, 1, bounds)).plain


def test_a_process_keeps_a_bounded_number_of_opened_keys() -> None:
    keys, bounds = MemoryKeys(), Encryption()
    ring = _ring(keys)
    made = [keys.wrap(KEY, dict(CONTEXT)).wrapped for _ in range(MOST_OPENED + 1)]
    for wrapped in made:
        drive(ring.for_opening(KEY, CONTEXT, wrapped, bounds))
    drive(ring.for_opening(KEY, CONTEXT, made[-1], bounds))
    assert len(keys.calls) == len(made)
    drive(ring.for_opening(KEY, CONTEXT, made[0], bounds))
    assert len(keys.calls) == len(made) + 1


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"keys": "alias/jobs"}, "takes a list"),
        ({"keys": ["jobs"]}, "takes aliases and ARNs"),
        ({"keys": ["alias/a", "alias/a"]}, "names a key twice"),
        ({"max_messages": 0}, "max_messages"),
        ({"max_messages": 2**33}, "max_messages"),
        ({"max_bytes": 1.5}, "max_bytes"),
        ({"max_age": timedelta(milliseconds=1)}, "max_age"),
    ],
)
def test_a_setting_that_can_not_hold_is_refused(options: dict[str, object], fault: str) -> None:
    with pytest.raises(SettingsInvalid, match=fault):
        Encryption(**options)  # type: ignore[arg-type]  # what a user without types may write
