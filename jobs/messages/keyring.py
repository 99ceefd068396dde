"""The keys that messages are signed and checked with, as one process knows them.

The keys of a secret are read when they are first needed, and again after `FRESH_S`, or when a
message names a key that isn't known. That happens right after a rotation, so such a message is
refused only once the keys have been read anew; until then it goes back to its queue. While Secrets
Manager can't be reached, the keys that are known stay in use, and nothing is refused for want of
one.

One read is under way at a time, beside whoever needs the keys. Those without a key wait until it
has ended; those with one wait for `PATIENCE_S` at most, and go on with what they have. They don't
go on at once, because a process may have been idle for days, and its keys be past use.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace

from headgate.jobs.core.backend import AsyncSecretStore
from headgate.jobs.core.clock import Clock
from headgate.jobs.core.concurrency import Parallelism, SideCall
from headgate.jobs.core.events import Events
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.errors import (
    ConfigurationError,
    MessageUnsigned,
    SignatureInvalid,
    TransportError,
)
from headgate.jobs.messages.bundles import bundle_body, jobs_of
from headgate.jobs.messages.signatures import Destination, SigningKey, parted, signed, verifies

FRESH_S = 300.0
"""Seconds after which the keys are read again: so long may a process sign with the key before."""

GAP_S = 5.0
"""Least seconds between two reads."""

PATIENCE_S = 1.0
"""Most seconds of a read for which anyone with a key waits: less than any function's timeout, and
more than Secrets Manager takes."""

_ABSENT_S = 60.0
"""Seconds for which a key that was not found counts as none of the app's."""

_MOST_IDS = 1_000
"""Maximum number of unknown keys that are remembered: anyone who may send can invent them."""


class KeyUnknown(Exception):
    """A signature's key is not known here yet; it may exist all the same.

    Args:
        key_id: the key's id.
        is_soon: True if it will be known within seconds; False while the keys can't be read.
    """

    def __init__(self, key_id: str, *, is_soon: bool) -> None:
        self.is_soon = is_soon
        why = "the keys are about to be read anew" if is_soon else "the keys can't be read"
        super().__init__(f"the signing key {key_id} is not known here, and {why}")


class Keyring:
    """Signs messages, and checks signatures.

    Args:
        store: reads secrets.
        secret: the name or the ARN of the secret.
        given: the keys themselves, the newest first; then no secret is read.
        accept_unsigned: whether a message without a signature is accepted.
        concurrency: runs the reads: in threads if ``store`` never suspends, else in tasks.
        clock: tells the time.
        events: receives an event each time that the keys can't be read.
    """

    def __init__(
        self,
        store: AsyncSecretStore,
        secret: str,
        *,
        given: Sequence[SigningKey] = (),
        accept_unsigned: bool = False,
        concurrency: Parallelism,
        clock: Clock,
        events: Events,
    ) -> None:
        self._store = store
        self._secret = secret
        self._given = bool(given)
        self._keys = tuple(given)
        self._accept_unsigned = accept_unsigned
        self._concurrency = concurrency
        self._clock = clock
        self._events = events
        self._reading: SideCall | None = None
        """The last read."""
        self._beginning = threading.Lock()
        self._tried_at = self._read_at = -math.inf
        self._error: TransportError | None = None
        """The error of the last read."""
        self._wanted: set[str] = set()
        """Ids of unknown keys to look for."""
        self._absent: dict[str, float] = {}
        """Ids of keys that were looked for and not found, with the time."""

    async def signed(self, body: str, to: Destination) -> str:
        """Return a body, signed with the newest key.

        Raises:
            TransportError: no key is known, and they can't be read.
        """
        if not self._is_fresh(self._clock.monotonic()):
            await self.refresh()
        if not self._keys:
            raise self._error or TransportError(f"the secret {self._secret!r} has no key")
        return signed(body, self._keys[0], to)

    async def signed_message(self, queue: str, message: OutgoingMessage) -> OutgoingMessage:
        """Return a message for a queue, by its physical name, with its body signed; as `signed`.

        In a bundle each job is signed, as if it were alone.
        """
        to = Destination.of(queue, message)
        if (jobs := jobs_of(message.body)) is None:
            return replace(message, body=await self.signed(message.body, to))
        return replace(message, body=bundle_body([await self.signed(job, to) for job in jobs]))

    def check(self, body: str, to: Destination) -> None:
        """Check the signature of a received body.

        Raises:
            MessageUnsigned: it has none.
            SignatureInvalid: none of the keys has made it for this body and destination.
            KeyUnknown: its key has to be looked for first.
        """
        text, signature = parted(body)
        if signature is None:
            if self._accept_unsigned:
                return
            raise MessageUnsigned(
                "the message has no signature, and App(signing=...) wants one: whoever sent it "
                "isn't deployed with signing yet, or may send, but doesn't have the key"
            )
        if (key := self._find(signature.key_id)) is None:
            raise self._unknown(signature.key_id)
        if not verifies(signature, key, text, to):
            raise SignatureInvalid(
                "the signature is not that of this message in this queue: it was altered, or sent "
                "here by someone who took it from another queue"
            )

    async def verify(self, body: str, to: Destination) -> None:
        """Check the signature of a body, reading the keys if it names one that is not known.

        Raises:
            MessageUnsigned, SignatureInvalid: as `check`.
            KeyUnknown: the keys can't be read now.
        """
        _, signature = parted(body)
        if signature is not None and self._find(signature.key_id) is None:
            self._want(signature.key_id)
            await self._read_anew(None)
        else:
            await self.refresh()
        self.check(body, to)

    async def refresh(self, *, at_most_s: float | None = None) -> None:
        """Read the keys, if that is due. A failure is an event, and leaves them as they are.

        A read that takes long goes on after the return.

        Args:
            at_most_s: seconds to wait while no key is known; None waits for the read's end. With
                keys it is `PATIENCE_S`.
        """
        await self._read_anew(PATIENCE_S if self._keys else at_most_s)

    async def close(self) -> None:
        """End a read that is under way in a task; the next call begins another. Idempotent."""
        if self._reading is not None:
            await self._reading.end()

    async def _read_anew(self, patience_s: float | None) -> None:
        """Begin a read if one is due, and wait for the one under way, as seen from its begin."""
        with self._beginning:
            now = self._clock.monotonic()
            reading = self._reading
            if reading is None or reading.is_over:
                if not self._is_due(now):
                    return
                self._tried_at = now
                reading = self._concurrency.begin(self._refresh_now, name="headgate-signing-keys")
                self._reading = reading
        left_s = None if patience_s is None else max(0.0, self._tried_at + patience_s - now)
        await reading.wait(left_s)

    async def _refresh_now(self) -> None:
        began_at = self._tried_at
        asked, self._wanted = self._wanted, set()
        try:
            found = await self._read()
        except TransportError as error:
            self._error = error
            self._wanted |= asked
            self._report(error)
            return
        self._keys, self._read_at, self._error = found, began_at, None
        self._note_absent(asked)

    def _report(self, error: TransportError) -> None:
        from headgate.jobs.core.events import SigningKeysFailed  # only once something fails

        at = self._clock.now()
        self._events.emit(SigningKeysFailed(at=at, secret=self._secret, error=str(error)))

    def _is_due(self, now: float) -> bool:
        if self._given or now - self._tried_at < GAP_S:
            return False
        return bool(self._wanted) or not self._is_fresh(now)

    def _is_fresh(self, now: float) -> bool:
        return self._given or (bool(self._keys) and now - self._read_at < FRESH_S)

    async def _read(self) -> tuple[SigningKey, ...]:
        values = await self._store.versions(self._secret)
        try:
            return tuple(SigningKey(value) for value in values)
        except ConfigurationError as error:
            # As if it could not be read: whoever sets it right must find every message where it is.
            raise TransportError(f"the secret {self._secret!r}: {error}") from None

    def _find(self, key_id: str) -> SigningKey | None:
        return next((key for key in self._keys if key.id == key_id), None)

    def _unknown(self, key_id: str) -> SignatureInvalid | KeyUnknown:
        """Return the error of a signature whose key is not among those known."""
        now = self._clock.monotonic()
        if self._given or now - self._absent.get(key_id, -math.inf) < _ABSENT_S:
            return SignatureInvalid(
                f"the message is signed with the key {key_id}, which is neither the current nor "
                "the previous one"
            )
        self._want(key_id)
        return KeyUnknown(key_id, is_soon=self._error is None)

    def _want(self, key_id: str) -> None:
        if len(self._wanted) < _MOST_IDS:
            self._wanted.add(key_id)

    def _note_absent(self, asked: Iterable[str]) -> None:
        now, known = self._clock.monotonic(), {key.id for key in self._keys}
        kept = {key: at for key, at in self._absent.items() if now - at < _ABSENT_S}
        kept |= dict.fromkeys((key for key in asked if key not in known), now)
        self._absent = dict(list(kept.items())[-_MOST_IDS:])
