"""AWS's Signature Version 4 for a POST to an endpoint's root, as all AWS JSON calls are.

Pure: the time is passed in. botocore's signer gives the same signature for several times the CPU,
since it handles any kind of request, and derives its key anew for each.
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Protocol

_ALGORITHM = "AWS4-HMAC-SHA256"


class Credentials(Protocol):
    """One consistent set of credentials, as botocore's ``get_frozen_credentials`` returns it."""

    @property
    def access_key(self) -> str: ...
    @property
    def secret_key(self) -> str: ...
    @property
    def token(self) -> str | None:
        """The session's token; None for long-term credentials."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class _SigningKey:
    """A key, good for one day; it has no ``repr``, since it is a secret."""

    secret_key: str
    scope: str
    key: bytes


class Signer:
    """Signs for one region and service; keeps the last signing key, which is good for a day."""

    __slots__ = ("_last", "_region", "_service")

    def __init__(self, *, region: str, service: str) -> None:
        self._region = region
        self._service = service
        self._last: _SigningKey | None = None

    def signed(
        self, headers: Mapping[str, str], body: bytes, *, credentials: Credentials, at: datetime
    ) -> dict[str, str]:
        """Return ``headers`` together with the date, the session's token and the signature.

        Args:
            headers: All headers to sign, ``host`` among them, by their lower-case names.
            body: The request's body.
            credentials: The credentials to sign with.
            at: The time at which the request is sent, in UTC. AWS takes it for some minutes.
        """
        timestamp = at.strftime("%Y%m%dT%H%M%SZ")
        sent = {**headers, "x-amz-date": timestamp}
        if credentials.token:
            sent["x-amz-security-token"] = credentials.token
        names = sorted(sent)
        signed_names = ";".join(names)
        lines = [f"{name}:{' '.join(sent[name].split())}" for name in names]
        canonical = "\n".join(("POST", "/", "", *lines, "", signed_names, sha256(body).hexdigest()))
        key = self._key(credentials.secret_key, timestamp[:8])
        digest = sha256(canonical.encode()).hexdigest()
        to_sign = f"{_ALGORITHM}\n{timestamp}\n{key.scope}\n{digest}"
        signature = hmac.digest(key.key, to_sign.encode(), "sha256").hex()
        sent["authorization"] = (
            f"{_ALGORITHM} Credential={credentials.access_key}/{key.scope}, "
            f"SignedHeaders={signed_names}, Signature={signature}"
        )
        return sent

    def _key(self, secret_key: str, date: str) -> _SigningKey:
        scope = f"{date}/{self._region}/{self._service}/aws4_request"
        last = self._last
        if last is None or last.scope != scope or last.secret_key != secret_key:
            last = self._last = _SigningKey(
                secret_key=secret_key, scope=scope, key=_derived(secret_key, scope)
            )
        return last


def _derived(secret_key: str, scope: str) -> bytes:
    key = f"AWS4{secret_key}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key
