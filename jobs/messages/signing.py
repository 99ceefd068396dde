"""``App(signing=...)``: the signing of messages, as the user declares it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import TYPE_CHECKING

from headgate.jobs.errors import ConfigurationError
from headgate.jobs.values.kinds import check_kind
from headgate.jobs.values.light_dataclass import frozen_dataclass
from headgate.jobs.values.texts import kind_of

if TYPE_CHECKING:  # most apps sign nothing
    from headgate.jobs.messages.signatures import SigningKey


@frozen_dataclass(frozen=True, kw_only=True)
class Signing:
    """Every message is signed when it is sent, and checked before its job runs.

    Args:
        secret: the name or the ARN of the secret in AWS Secrets Manager whose value is the key;
            None takes the one that CDK creates for the app, ``{app}-{stage}-signing``. Its current
            version signs; messages signed by the current or the previous one are accepted.
        keys: the keys themselves, the newest first, in place of a secret: for tests and local use.
            The first signs, all are accepted. Each is random, of 32 bytes or more.
        accept_unsigned: run messages without a signature, too, while submitters are being deployed
            that sign. One that has a signature is refused all the same if that isn't valid.

    Raises:
        ConfigurationError: a key is too short, or ``keys`` and ``secret`` are given together.
    """

    secret: str | None = None
    keys: Iterable[str | bytes] = field(default=(), repr=False)
    accept_unsigned: bool = False

    def __post_init__(self) -> None:
        check_kind("Signing(secret=...)", self.secret, str | None)
        check_kind("Signing(accept_unsigned=...)", self.accept_unsigned, bool)
        if self.secret == "":
            raise ConfigurationError(
                "Signing(secret=...) is the name or the ARN of a secret, got '': leave it out for "
                "the one that CDK creates"
            )
        if isinstance(self.keys, str | bytes) or not isinstance(self.keys, Iterable):
            raise ConfigurationError("Signing(keys=...) takes a list of keys, the newest first")
        object.__setattr__(self, "keys", tuple(map(_as_bytes, self.keys)))
        _ = self.given_keys
        if self.keys and self.secret is not None:
            raise ConfigurationError(
                "Signing takes either secret=, whose value is the key, or keys=, not both"
            )

    @property
    def given_keys(self) -> tuple[SigningKey, ...]:
        """The keys that were given themselves, the newest first."""
        from headgate.jobs.messages.signatures import SigningKey

        return tuple(SigningKey(_as_bytes(key)) for key in self.keys)


def _as_bytes(key: object) -> bytes:
    if isinstance(key, bytes):
        return key
    if isinstance(key, str):
        return key.encode()
    raise ConfigurationError(
        f"Signing(keys=...) takes keys as strings or bytes, got {kind_of(key)}"
    )


def check_signing(signing: object) -> Signing | None:
    """Check the ``signing=`` of an app.

    Raises:
        ConfigurationError: it is something else; it is not shown, since it may be a key.
    """
    if signing is None or isinstance(signing, Signing):
        return signing
    raise ConfigurationError(
        f"App(signing=...) takes a Signing, got {kind_of(signing)}: write Signing(), or "
        "Signing(secret=...) with the name of a secret"
    )
