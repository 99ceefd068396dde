"""Signatures of webhooks: HMAC-SHA256 over the time and the body, and how a receiver checks them.

    X-Assistant-Signature: t=1767225600,v1=5257a869e7...

The time is signed too, so that a recorded request can't be sent again much later. The scheme is
that of Stripe (https://docs.stripe.com/webhooks#verify-manually).
"""

from __future__ import annotations

import hmac
from datetime import datetime, timedelta
from hashlib import sha256

HEADER = "X-Assistant-Signature"

TOLERANCE = timedelta(minutes=5)
"""The greatest difference between the signature's time and the receiver's."""


class SignatureInvalid(Exception):
    """A request was not signed with the secret, or not lately."""


def signature(secret: bytes, body: bytes, now: datetime) -> str:
    """Return the header's value for a body that is sent at ``now``."""
    seconds = int(now.timestamp())
    return f"t={seconds},v1={_mac(secret, seconds, body)}"


def verify(secret: bytes, body: bytes, header: str, now: datetime) -> None:
    """Check a request as its receiver does.

    Raises:
        SignatureInvalid: the header is malformed, or too old, or not made with the secret.
    """
    parts = dict(part.split("=", 1) for part in header.split(",") if "=" in part)
    sent, given = parts.get("t", ""), parts.get("v1", "")
    if not (sent.isascii() and sent.isdigit()):
        raise SignatureInvalid("the signature has no time")
    if abs(now.timestamp() - int(sent)) > TOLERANCE.total_seconds():
        raise SignatureInvalid("the signature is too old, or from the future")
    # In constant time, so that the time it takes doesn't tell how much of a guess was right.
    if not hmac.compare_digest(_mac(secret, int(sent), body).encode(), given.encode()):
        raise SignatureInvalid("the signature is not ours")


def _mac(secret: bytes, seconds: int, body: bytes) -> str:
    return hmac.new(secret, f"{seconds}.".encode() + body, sha256).hexdigest()
