"""Signatures of message bodies: HMAC-SHA256 over the text and its destination.

    {"v":1, ... ,"queue":"jobs","signature":"1f0c62ab.q0YvJ5..."}
    └─ signed as if it ended here, with a } ─┘

The text is signed, not the values that are read from it, so that nothing has to be read before it
is checked, and no two readings of it can differ. That takes in every field, also those that a later
version adds. The signature is the body's last field: who doesn't know it ignores it, and it goes
wherever the body goes: dead letters, copies, one-time schedules.

The destination is the queue's physical name, with app, stage, group and priority, and on a FIFO
queue the message group. A message that is moved is therefore refused.
"""

from __future__ import annotations

import hmac
import re
from base64 import urlsafe_b64encode
from dataclasses import field

from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.errors import ConfigurationError
from headgate.jobs.messages.outgoing import lane_of
from headgate.jobs.values.light_dataclass import light_dataclass

SIGNATURE = "signature"
"""The field of a body."""

LEAST_KEY_BYTES = 32
"""Minimum length of a key: that of the digest (RFC 2104, 3)."""

_CONTEXT = b"headgate-signature-1"
_KEY_ID = b"headgate-key-id"

_BLANK = f"{'0' * 8}.{'A' * 43}"
"""Stands in a body for the signature that it gets when it is sent, so that its size is known."""

_TRAILER = re.compile(rf',"{SIGNATURE}":"([0-9a-f]{{8}})\.([A-Za-z0-9_-]{{43}})"}}')
_TRAILER_CHARS = len(f',"{SIGNATURE}":"{_BLANK}"}}')


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """The destination that a signature is bound to."""

    queue: str
    """The queue's physical name."""
    fifo_group: str | None = None
    """The message group, if the queue is FIFO."""

    @classmethod
    def of(cls, queue: str, message: OutgoingMessage) -> Destination:
        """Return the destination of a message that is sent to a queue."""
        return cls(queue=queue, fifo_group=lane_of(message))


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """A signature, as it stands in a body."""

    key_id: str
    digest: str
    """In URL-safe base64 (RFC 4648, 5), without padding."""


@light_dataclass(frozen=True, slots=True)
class SigningKey:
    """A key, which names itself in signatures by an id that is derived from it.

    Raises:
        ConfigurationError: it is under 32 bytes.
    """

    secret: bytes = field(repr=False)
    id: str = field(init=False)

    def __post_init__(self) -> None:
        if len(self.secret) < LEAST_KEY_BYTES:
            raise ConfigurationError(
                f"a signing key has {LEAST_KEY_BYTES} random bytes or more, got "
                f"{len(self.secret)}: make one with `openssl rand -base64 48`"
            )
        derived = hmac.digest(self.secret, _KEY_ID, "sha256")[:4].hex()
        object.__setattr__(self, "id", derived)

    def digest(self, text: str, to: Destination) -> str:
        """Return the digest of an unsigned body for its destination."""
        group = to.fifo_group or ""
        # No name of a queue or a group has a line feed, so the parts can't run into one another.
        # A lone surrogate can't come from a sender of ours, but must not raise.
        parts = (to.queue.encode(), group.encode(), text.encode(errors="surrogatepass"))
        digest = hmac.digest(self.secret, b"\n".join((_CONTEXT, *parts)), "sha256")
        return urlsafe_b64encode(digest).decode().rstrip("=")


def reserved(body: str) -> str:
    """Return an unsigned body with room for its signature."""
    return _with(body, _BLANK)


def reserved_as(body: str, other: str) -> str:
    """Return an unsigned body, with room for its signature if the other has some."""
    return reserved(body) if other.endswith(_with("", _BLANK)) else body


def signed(body: str, key: SigningKey, to: Destination) -> str:
    """Return a body with its signature, in place of any that it has."""
    text, _ = parted(body)
    return _with(text, f"{key.id}.{key.digest(text, to)}")


def parted(body: str) -> tuple[str, Signature | None]:
    """Split a body into the text that is signed, and the signature; None: it has none."""
    start = max(0, len(body) - _TRAILER_CHARS)
    if (found := _TRAILER.fullmatch(body, start)) is None:
        return body, None
    text = body[:start] + "}"
    if found[0] == _with("", _BLANK):
        return text, None
    return text, Signature(key_id=found[1], digest=found[2])


def verifies(signature: Signature, key: SigningKey, text: str, to: Destination) -> bool:
    """Return True if the key has made the signature for this text and destination."""
    return hmac.compare_digest(signature.digest, key.digest(text, to))


def _with(body: str, signature: str) -> str:
    return f'{body.removesuffix("}")},"{SIGNATURE}":"{signature}"}}'
