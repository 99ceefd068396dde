"""Data keys: the service that makes and unwraps them, and a cache of them in one process.

Envelope encryption: each data key is made by a key service (KMS), which returns it twice, in plain
for this process and wrapped for the message. Only the service can unwrap it, for who may ask it to.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import field
from typing import Protocol, TypeVar

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.keys.encryption import Encryption
from headgate.jobs.values.light_dataclass import light_dataclass

T = TypeVar("T")

Context = tuple[tuple[str, str], ...]
"""KMS's encryption context as pairs, sorted by name; it is no secret, and stands in CloudTrail.
https://docs.aws.amazon.com/kms/latest/developerguide/encrypt_context.html"""

MOST_OPENED = 1_000
"""Unwrapped data keys that a process keeps; the one unwrapped the longest ago goes first."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class DataKey:
    """A key of 256 bits that encrypts payloads and results."""

    plain: bytes = field(repr=False)
    wrapped: bytes
    """The same, encrypted by the key service."""


class AsyncKeys(Protocol):
    """A key service, for an event loop. Any method may raise a `TransportError`."""

    async def generate(self, key: str, context: Mapping[str, str]) -> DataKey:
        """Return a new data key, wrapped by the key of that name for that context."""
        ...

    async def unwrap(self, key: str, wrapped: bytes, context: Mapping[str, str]) -> bytes:
        """Return a data key in plain; raise `PayloadUnopenable` if the key never wrapped it so."""
        ...


class Keys(Protocol):
    """`AsyncKeys` for synchronous code, from any thread."""

    def generate(self, key: str, context: Mapping[str, str]) -> DataKey: ...

    def unwrap(self, key: str, wrapped: bytes, context: Mapping[str, str]) -> bytes: ...


class _Sealing:
    """The data key that seals what comes next, and how much it has sealed."""

    def __init__(self, key: DataKey, ends_at: float) -> None:
        self._key = key
        self._ends_at = ends_at
        self._messages = self._bytes = 0
        self._lock = threading.Lock()

    def take(self, size: int, bounds: Encryption, now: float) -> DataKey | None:
        """Return the key for ``size`` more bytes; None once it has reached one of its bounds."""
        with self._lock:
            is_new = not self._messages  # it seals at least one message, however large
            fits = self._messages < bounds.max_messages and self._bytes + size <= bounds.max_bytes
            if now >= self._ends_at or not (is_new or fits):
                return None
            self._messages += 1
            self._bytes += size
            return self._key


class KeyRing:
    """The data keys of one process, and the only one who asks for them.

    Requests for one key are made once, however many wait for it. Safe to share between threads or
    tasks, as its lock is.

    Args:
        keys: the key service.
        lock: makes the locks between the tasks, or threads, that wait for one key.
        clock: tells the time.
    """

    def __init__(
        self,
        keys: AsyncKeys,
        *,
        lock: Callable[[], AbstractAsyncContextManager[object]],
        clock: Clock,
    ) -> None:
        self._keys = keys
        self._new_lock = lock
        self._clock = clock
        self._locks: dict[Hashable, AbstractAsyncContextManager[object]] = {}
        self._sealing: dict[tuple[str, Context], _Sealing] = {}
        self._opened: OrderedDict[tuple[str, Context, bytes], tuple[bytes, float]] = OrderedDict()

    async def for_sealing(
        self, key: str, context: Context, size: int, bounds: Encryption
    ) -> DataKey:
        """Return a data key that may seal ``size`` bytes.

        Raises:
            TransportError: a new one is needed, and the key service can't be asked, or refuses.
        """
        place = (key, context)
        if (found := self._taken(place, size, bounds)) is not None:
            return found

        async def ask() -> DataKey:
            if (found := self._taken(place, size, bounds)) is not None:
                return found  # another has asked meanwhile
            new = await self._keys.generate(key, dict(context))
            ends_at = self._clock.monotonic() + bounds.max_age.total_seconds()
            self._sealing[place] = sealing = _Sealing(new, ends_at)
            self._keep(key, context, new, ends_at)
            return sealing.take(size, bounds, self._clock.monotonic()) or new

        return await self._alone(place, ask)

    async def for_opening(
        self, key: str, context: Context, wrapped: bytes, bounds: Encryption
    ) -> bytes:
        """Return a wrapped data key in plain.

        Raises:
            PayloadUnopenable: the key never wrapped it for that context.
            TransportError: the key service can't be asked, or refuses.
        """
        place = (key, context, wrapped)
        if (found := self._found(place)) is not None:
            return found

        async def ask() -> bytes:
            if (found := self._found(place)) is not None:
                return found
            plain = await self._keys.unwrap(key, wrapped, dict(context))
            ends_at = self._clock.monotonic() + bounds.max_age.total_seconds()
            self._keep(key, context, DataKey(plain=plain, wrapped=wrapped), ends_at)
            return plain

        return await self._alone(place, ask)

    def _taken(self, place: tuple[str, Context], size: int, bounds: Encryption) -> DataKey | None:
        sealing = self._sealing.get(place)
        return None if sealing is None else sealing.take(size, bounds, self._clock.monotonic())

    def _found(self, place: tuple[str, Context, bytes]) -> bytes | None:
        plain, ends_at = self._opened.get(place, (b"", 0.0))
        return plain if plain and self._clock.monotonic() < ends_at else None

    def _keep(self, key: str, context: Context, opened: DataKey, ends_at: float) -> None:
        self._opened[key, context, opened.wrapped] = opened.plain, ends_at
        if len(self._opened) > MOST_OPENED:
            self._opened.popitem(last=False)

    async def _alone(self, place: Hashable, ask: Callable[[], Awaitable[T]]) -> T:
        """Make one request at a time for one key."""
        lock = self._locks.setdefault(place, self._new_lock())
        try:
            async with lock:
                return await ask()
        finally:
            self._locks.pop(place, None)
