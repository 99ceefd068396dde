"""AWS's Signature Version 4 for a POST to an endpoint's root, as all AWS JSON calls are.

Pure: the time is passed in. botocore's signer gives the same signature for several times the CPU,
since it handles any kind of request, and derives its key anew for each. Here requests of one second
have the same head but for the signature, which comes last.
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, Protocol

from headgate.jobs.aws.lean.http1 import head_of

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


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class _Stamp:
    """The common part of one second's signatures, without a ``repr``, since it holds a secret."""

    at: datetime
    by: tuple[str, str, str | None]
    """The credentials."""
    head: bytes
    """The request's head up to the signature."""
    canonical: Any
    """A SHA-256 of the request up to the hash of its body."""
    mac: hmac.HMAC
    """Of the text to sign up to the hash of the request."""


class Signer:
    """Signs requests with the same headers. What differs from second to second, or from day to day,
    is kept so long.

    Safe to share between threads.

    Args:
        headers: All headers to sign, ``host`` among them, by their lower-case names.
        unsigned: Further headers of the requests.
        region: The region of the service.
        service: Its name in signatures.
    """

    __slots__ = ("_headers", "_last", "_region", "_service", "_stamp", "_unsigned")

    def __init__(
        self,
        headers: Mapping[str, str],
        unsigned: Mapping[str, str],
        *,
        region: str,
        service: str,
    ) -> None:
        self._headers = headers
        self._unsigned = unsigned
        self._region = region
        self._service = service
        self._last: _SigningKey | None = None
        self._stamp: _Stamp | None = None

    def head(self, body: bytes, *, credentials: Credentials, at: datetime) -> bytes:
        """Return a request's head: its headers, the date, the session's token and the signature.

        Args:
            body: The request's body.
            credentials: The credentials to sign with.
            at: The time at which the request is sent, in UTC. AWS takes it for some minutes.

        Raises:
            HTTPClientError: HTTP has no way to write a header, such as the token.
        """
        by = (credentials.access_key, credentials.secret_key, credentials.token)
        second = at.replace(microsecond=0)
        stamp = self._stamp
        if stamp is None or stamp.at != second or stamp.by != by:
            stamp = self._stamp = self._stamped(by, second)
        canonical, mac = stamp.canonical.copy(), stamp.mac.copy()
        canonical.update(sha256(body).hexdigest().encode())
        mac.update(canonical.hexdigest().encode())
        return stamp.head + mac.hexdigest().encode()

    def _stamped(self, by: tuple[str, str, str | None], at: datetime) -> _Stamp:
        access_key, secret_key, token = by
        timestamp = at.strftime("%Y%m%dT%H%M%SZ")
        sent = {**self._headers, "x-amz-date": timestamp}
        if token:
            sent["x-amz-security-token"] = token
        names = sorted(sent)
        signed_names = ";".join(names)
        lines = [f"{name}:{' '.join(sent[name].split())}" for name in names]
        canonical = "\n".join(("POST", "/", "", *lines, "", signed_names, ""))
        key = self._key(secret_key, timestamp[:8])
        to_sign = f"{_ALGORITHM}\n{timestamp}\n{key.scope}\n"
        authorization = (
            f"{_ALGORITHM} Credential={access_key}/{key.scope}, "
            f"SignedHeaders={signed_names}, Signature="
        )
        return _Stamp(
            at=at,
            by=by,
            head=head_of({**sent, **self._unsigned, "authorization": authorization}),
            canonical=sha256(canonical.encode()),
            mac=hmac.new(key.key, to_sign.encode(), "sha256"),
        )

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
