"""Uniqueness of jobs: the key that makes submissions equal, its duration, and its mode."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self, TypedDict, get_args

from headgate.jobs.core.context import Tenant
from headgate.jobs.core.ports import Item
from headgate.jobs.errors import ConfigurationError
from headgate.jobs.messages.envelope import UniqueBy, UniqueMode

UniqueKey = str | Callable[[Any], str]

LONGEST_UNIQUE = timedelta(days=365)
"""The longest duration of uniqueness."""


class UniqueOptions(TypedDict, total=False):
    """The keywords for uniqueness of a job type or a submission; None stands for not given."""

    unique_for: timedelta | None
    """Time from a job's submission for which equal submissions count as that job, at most 365 days;
    0 is no uniqueness."""
    unique_key: UniqueKey | None
    """The key that equal submissions share: a text, or a function from the payload to one. None
    takes the payload. The job's type and its tenant's organisation are always part of it."""
    unique: UniqueMode | None
    """The submission that runs: the ``first`` (the default), whose handle the others get; or with
    ``replace`` the last, so that an earlier one that has not started never does. Submissions of one
    process are in call order; those of different processes are ordered by their clocks'
    milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uniqueness:
    """The uniqueness options of a type or of a submission."""

    lasting: timedelta | None = None
    key: UniqueKey | None = None
    mode: UniqueMode | None = None

    @classmethod
    def of(cls, options: UniqueOptions) -> Self:
        """Read the uniqueness from a set of options.

        Raises:
            ConfigurationError: a value is of the wrong type or out of range.
        """
        lasting, mode = options.get("unique_for"), options.get("unique")
        key: Any = options.get("unique_key")
        if not isinstance(lasting, timedelta | None):
            raise ConfigurationError(
                f"unique_for must be a timedelta, got {lasting!r}: write timedelta(hours=1)"
            )
        if lasting is not None and lasting < timedelta(0):
            raise ConfigurationError(f"unique_for must not be negative, got {lasting}")
        if lasting is not None and lasting > LONGEST_UNIQUE:
            raise ConfigurationError(
                f"unique_for must be at most {LONGEST_UNIQUE.days} days, got {lasting}"
            )
        if not (key is None or callable(key) or (isinstance(key, str) and key)):
            raise ConfigurationError(
                f"unique_key must be a text or a function of the payload, got {key!r}"
            )
        if mode is not None and mode not in get_args(UniqueMode):
            raise ConfigurationError(f"unique must be 'first' or 'replace', got {mode!r}")
        return cls(lasting=lasting, key=key, mode=mode)

    def over(self, default: Self) -> Self:
        """Return these options, completed from the defaults.

        Raises:
            ConfigurationError: a key or a mode is given, but no duration.
        """
        lasting = self.lasting if self.lasting is not None else default.lasting
        key, mode = self.key or default.key, self.mode or default.mode
        if lasting is None and (key is not None or mode is not None):
            raise ConfigurationError("unique_key and unique have no meaning without unique_for")
        return type(self)(lasting=lasting, key=key, mode=mode)

    def of_job(
        self, job_type: str, payload: Any, dumped: Any, tenant: Tenant | None
    ) -> UniqueBy | None:
        """Return the uniqueness of a job as its message has it; None if it is not unique.

        Args:
            job_type: the type's name.
            payload: the payload as submitted.
            dumped: the payload as JSON values.
            tenant: the job's tenant.

        Raises:
            ConfigurationError: the function for keys didn't return a non-empty text.
        """
        if not self.lasting:
            return None
        parts = [job_type, tenant.org if tenant else None, *self._sameness(payload, dumped)]
        mode = self.mode or "first"
        return UniqueBy(
            key=hashlib.sha256(_canonical([mode, *parts])).hexdigest()[:40],
            for_s=self.lasting.total_seconds(),
            mode=mode,
        )

    def _sameness(self, payload: Any, dumped: Any) -> list[Any]:
        if self.key is None:
            return ["payload", dumped]
        key: Any = self.key(payload) if callable(self.key) else self.key
        if not isinstance(key, str) or not key:
            raise ConfigurationError(f"unique_key must come to a text, got {key!r}")
        return ["key", key]


NOT_UNIQUE = Uniqueness()


def check_unique(name: str, options: Mapping[str, Any]) -> Uniqueness:
    """Return the uniqueness declared by a job type's options.

    Raises:
        ConfigurationError: the options are invalid; names the type.
    """
    given: Any = {key: options[key] for key in UniqueOptions.__annotations__ if key in options}
    try:
        return Uniqueness.of(given).over(NOT_UNIQUE)
    except ConfigurationError as error:
        raise ConfigurationError(f"the type {name!r}: {error}") from error


def place(by: UniqueBy) -> Item:
    """Return the table item, without data, that holds the claim on a key."""
    return Item(pk=f"unique#{by.key}", sk="claim")


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
