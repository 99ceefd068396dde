"""Filters and settings in words, as the audit keeps them."""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime
from typing import Any

from headgate.jobs.client.jobs.filters import JobFilter
from headgate.jobs.dead_letters.filters import DeadLetterFilter
from headgate.jobs.dead_letters.replaying.options import ReplaySettings

_WITHOUT_VALUES = "set"
"""The setting whose values are parts of payloads; only the names of its fields are told."""


def in_words(chosen: JobFilter | DeadLetterFilter) -> str:
    """Return what a filter selects, as in ``types=send-email,pay tenants=org-1``, or ``all``."""
    return _words({each.name: getattr(chosen, each.name) for each in fields(chosen)}) or "all"


def settings_in_words(settings: ReplaySettings) -> str:
    """Return how dead letters are replayed, as in ``limit=20 spread=1:00:00``; no payload's
    value."""
    told: dict[str, Any] = dict(settings)
    if changed := told.get(_WITHOUT_VALUES):
        told[_WITHOUT_VALUES] = tuple(changed)
    return _words(told)


def _words(values: dict[str, Any]) -> str:
    given = {name: value for name, value in values.items() if value not in (None, (), "", {})}
    return " ".join(f"{name}={_word(value)}" for name, value in given.items())


def _word(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return value.isoformat(timespec="seconds") if isinstance(value, datetime) else str(value)
