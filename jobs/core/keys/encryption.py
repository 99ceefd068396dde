"""The option ``App(encryption=...)``: the keys that seal payloads and results, and their bounds."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import timedelta

from headgate.jobs.errors import SettingsInvalid
from headgate.jobs.values.durations import DurationField
from headgate.jobs.values.kinds import check_kind
from headgate.jobs.values.light_dataclass import frozen_dataclass

_KEY = r"alias/[a-zA-Z0-9/_-]{1,250}|arn:[a-z-]+:kms:[a-z0-9-]*:\d{12}:(key|alias)/\S+"
"""https://docs.aws.amazon.com/kms/latest/developerguide/concepts.html#key-id"""

_MOST_MESSAGES = 2**32
"""Random nonces of 96 bits may seal as many messages with one key (NIST SP 800-38D, 8.3)."""

_MOST_BYTES = 2**40


@frozen_dataclass(frozen=True)
class Encryption:
    """Envelope encryption of payloads, results and progress: ``App(encryption=Encryption())``.

    Args:
        keys: KMS keys, by ``alias/NAME`` or ARN. The first seals, and all of them open: to rotate,
            put the new one first. None: the app's own key, which `headgate.infra` creates under
            the alias ``alias/APP-STAGE-payloads``.
        required: whether messages that are not sealed are refused. False, as for an upgrade, runs
            them as they are.
        max_messages: the number of messages that one data key seals.
        max_bytes: the number of bytes that one data key seals.
        max_age: how long a process uses a data key, in seconds or as a timedelta; at least a
            second. After that KMS is asked again, so a permission that was taken back is felt.

    Raises:
        SettingsInvalid: a key is neither an alias nor an ARN, or a bound is out of range.
    """

    keys: tuple[str, ...] | list[str] = ()
    required: bool = False
    max_messages: int = 10_000
    max_bytes: int = 2**30
    max_age: DurationField = DurationField(timedelta(minutes=10))

    def __post_init__(self) -> None:
        check_kind("Encryption(required=...)", self.required, bool)
        keys: object = self.keys
        if isinstance(keys, str) or not isinstance(keys, Iterable):
            raise SettingsInvalid(
                f'Encryption(keys=...) takes a list, such as ["alias/jobs"], got {self.keys!r}'
            )
        object.__setattr__(self, "keys", tuple(self.keys))
        for key in self.keys:
            if not re.fullmatch(_KEY, str(key)):
                raise SettingsInvalid(
                    f"Encryption(keys=...) takes aliases and ARNs of KMS keys, got {key!r}: write "
                    '"alias/jobs", or "arn:aws:kms:eu-central-1:123456789012:key/..."'
                )
        if len(set(self.keys)) < len(self.keys):
            raise SettingsInvalid(f"Encryption(keys=...) names a key twice: {list(self.keys)!r}")
        _check("max_messages", self.max_messages, _MOST_MESSAGES)
        _check("max_bytes", self.max_bytes, _MOST_BYTES)
        if self.max_age < timedelta(seconds=1):
            raise SettingsInvalid(
                f"Encryption(max_age=...) must be at least 1 s, got {self.max_age}"
            )


def _check(name: str, value: object, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise SettingsInvalid(
            f"Encryption({name}=...) must be a whole number of 1 to {most:,}, got {value!r}"
        )
