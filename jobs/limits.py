"""Limits on how fast work may run, as values. This version declares them, and enforces none yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Self, TypedDict

from jobs.errors import SettingsInvalid


@dataclass(frozen=True, slots=True)
class RateLimit:
    """At most ``limit`` starts in any ``per``: ``RateLimit(20, per=timedelta(seconds=1))``."""

    limit: int
    per: timedelta = field(default=timedelta(seconds=1), kw_only=True)

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise SettingsInvalid(f"RateLimit(limit=...) must be at least 1, got {self.limit}")
        if not isinstance(self.per, timedelta):
            raise SettingsInvalid(f"RateLimit(per=...) must be a timedelta, got {self.per!r}")
        if self.per <= timedelta(0):
            raise SettingsInvalid(f"RateLimit(per=...) must be positive, got {self.per}")


class LimitOptions(TypedDict, total=False):
    rate_limit: RateLimit | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    rate_limit: RateLimit | None = None

    @classmethod
    def of(cls, options: LimitOptions) -> Self:
        return cls(rate_limit=options.get("rate_limit"))
