"""Sealing and opening: AES-256-GCM under data keys that KMS wraps.

A ciphertext is bound to what it is about by additional authenticated data: the app and its stage,
the kind (a payload, the fields that a replay sets, a result, a progress), the job's type and its
id, the name of the KMS key and the compression. What was moved to another job, or altered, doesn't
open. The data key's encryption context has app, stage, type and ``use``: ``payload`` for payloads
and ``result`` for results and progress, so that the policy of a key or a role can tell them apart.

    text    nonce (12 bytes), ciphertext, tag (16 bytes); in base64

The library `cryptography` is an extra, ``headgate[encryption]``, and is imported on first use.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from pydantic_core import to_json

from headgate.jobs.core.concurrency import Parallelism
from headgate.jobs.core.keys.encryption import Encryption
from headgate.jobs.core.keys.key_ring import Context, KeyRing
from headgate.jobs.errors import LibraryMissing, PayloadTooLarge, PayloadUnopenable
from headgate.jobs.messages.envelope import Envelope, Sealed
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.jobs.values.texts import legible
from headgate.jobs.values.yielding import read

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

Kind = Literal["payload", "replay", "result", "progress"]

LARGE = 65_536
"""Bytes of a text from which on it is compressed, and sealed or opened off the event loop."""

LARGEST = 64 * 2**20
"""Maximum bytes of a text that is opened: as `jobs.messages.large_payloads.LARGEST`."""

_NONCE = 12
_TAG = 16
_GZIP = 16 + zlib.MAX_WBITS


@light_dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """The thing that a ciphertext is bound to, besides the app."""

    kind: Kind
    type: str
    """The job type's name."""
    of: str
    """The job's id; or the schedule (``schedule:NAME``) each of whose jobs has the payload, or the
    replay (``replay:ID``) that sets these fields."""


def about_payload(envelope: Envelope) -> About:
    """Return what the payload of an envelope is bound to."""
    of = envelope.sealed.of if envelope.sealed is not None else None
    return About(kind="payload", type=envelope.type, of=of or str(envelope.id))


async def opened_payload(seals: Seals | None, envelope: Envelope, stored: Any = None) -> Any:
    """Return the payload of an envelope, opened if it is sealed.

    Args:
        seals: opens it; None: the app seals nothing.
        envelope: the envelope.
        stored: what the object store holds in place of the sealed text, if it does.

    Raises:
        PayloadUnopenable: nothing here will ever open it.
        TransportError: KMS can't be asked for the data key, or refuses.
    """
    if (sealed := envelope.sealed) is None:
        return envelope.payload
    if seals is None:
        raise PayloadUnopenable(
            "the payload is sealed, and this app has no encryption=: declare it with "
            "App(encryption=Encryption(...)), as the app that sealed it"
        )
    if envelope.payload_ref is not None:
        if not isinstance(stored, str):
            raise PayloadUnopenable("the object with the sealed payload holds something else")
        sealed = sealed.model_copy(update={"text": stored})
    return await seals.open(about_payload(envelope), sealed)


def check_library() -> None:
    """Check that the library is installed, before anything is to be sealed.

    Raises:
        LibraryMissing: it is not.
    """
    try:
        import cryptography.hazmat.primitives.ciphers.aead  # noqa: F401 - is it there?
    except ImportError as error:
        raise LibraryMissing(
            "App(encryption=...)", "cryptography", "headgate[encryption]"
        ) from error


class Seals:
    """Seals and opens the values of one app; its calls are awaited.

    Args:
        app: the app's name.
        stage: its stage, if any.
        keys: names of the KMS keys: the first seals, all open.
        bounds: bounds on the use of data keys.
        ring: the data keys.
        concurrency: seals and opens large values.
    """

    def __init__(
        self,
        app: str,
        stage: str | None,
        keys: tuple[str, ...],
        bounds: Encryption,
        ring: KeyRing,
        concurrency: Parallelism,
    ) -> None:
        self._place = {"app": app, **({"stage": stage} if stage else {})}
        self._keys = keys
        self._bounds = bounds
        self._ring = ring
        self._concurrency = concurrency

    async def seal(self, about: About, value: Any, *, of: str | None = None) -> Sealed:
        """Return a JSON value sealed with the newest key.

        Args:
            about: what it is bound to.
            value: the value.
            of: what it is bound to in place of the job's id.

        Raises:
            TransportError: KMS can't be asked for a data key, or refuses.
            PayloadTooLarge: it would never be opened.
        """
        if of is not None:
            about = replace(about, of=of)
        text = to_json(value)
        if len(text) > LARGEST:
            raise PayloadTooLarge(
                f"{len(text):,} bytes of JSON are too large to be sealed: at most {LARGEST:,} are"
            )
        key = self._keys[0]
        data_key = await self._ring.for_sealing(key, self._context(about), len(text), self._bounds)
        encoding: Literal["gzip"] | None = "gzip" if len(text) >= LARGE else None
        bound = self._bound(about, key, encoding)
        sealed = await self._run(
            len(text), lambda: _sealed(_cipher(data_key.plain), text, bound, encoding)
        )
        return Sealed(
            key=key,
            data_key=base64.b64encode(data_key.wrapped).decode(),
            of=of,
            encoding=encoding,
            text=sealed,
        )

    async def open(self, about: About, sealed: Sealed) -> Any:
        """Return the JSON value that was sealed.

        Raises:
            PayloadUnopenable: it is damaged, belongs elsewhere, or is sealed with a key that the
                app doesn't name.
            TransportError: KMS can't be asked for the data key, or refuses.
        """
        key = sealed.key
        if key not in self._keys:
            raise PayloadUnopenable(
                f"the {about.kind} is sealed with the key {legible(key, 100)!r}, and the app opens "
                f"only {', '.join(map(repr, self._keys))}: add it to Encryption(keys=...)"
            )
        wrapped, text = _decoded(about, sealed.data_key), _decoded(about, sealed.text or "")
        data_key = await self._ring.for_opening(key, self._context(about), wrapped, self._bounds)
        bound = self._bound(about, key, sealed.encoding)
        return await self._run(
            len(text), lambda: _opened(about, _cipher(data_key), text, bound, sealed.encoding)
        )

    async def _run(self, size: int, function: Callable[[], Any]) -> Any:
        return await self._concurrency.aside(function) if size >= LARGE else function()

    def _context(self, about: About) -> Context:
        use = "payload" if about.kind in ("payload", "replay") else "result"
        return tuple(sorted({**self._place, "type": about.type, "use": use}.items()))

    def _bound(self, about: About, key: str, encoding: str | None) -> bytes:
        parts = [1, self._place["app"], self._place.get("stage"), about.kind, about.type, about.of]
        return json.dumps([*parts, key, encoding], separators=(",", ":")).encode()


def _cipher(key: bytes) -> AESGCM:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)


def _sealed(cipher: AESGCM, text: bytes, bound: bytes, encoding: str | None) -> str:
    packed = gzip.compress(text, 6, mtime=0) if encoding else text
    nonce = os.urandom(_NONCE)
    return base64.b64encode(nonce + cipher.encrypt(nonce, packed, bound)).decode()


def _opened(about: About, cipher: AESGCM, text: bytes, bound: bytes, encoding: str | None) -> Any:
    from cryptography.exceptions import InvalidTag

    if len(text) < _NONCE + _TAG:
        raise PayloadUnopenable(f"the sealed {about.kind} is damaged: it is too short")
    try:
        packed = cipher.decrypt(text[:_NONCE], text[_NONCE:], bound)
        return read(_unpacked(packed) if encoding else packed)
    except InvalidTag as error:
        raise PayloadUnopenable(
            f"the sealed {about.kind} is damaged, or belongs to another job than {about.of} of "
            f"the type {about.type!r}"
        ) from error
    except (ValueError, zlib.error):  # not from it: it may quote what was opened
        raise PayloadUnopenable(f"the sealed {about.kind} holds no JSON") from None


def _unpacked(packed: bytes) -> bytes:
    unpacking = zlib.decompressobj(_GZIP)
    text = unpacking.decompress(packed, LARGEST + 1)
    if not unpacking.eof or len(text) > LARGEST:
        raise ValueError
    return text


def _decoded(about: About, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise PayloadUnopenable(f"the sealed {about.kind} is damaged: it is no base64") from error
