"""The answers of ``client.dead_letters`` to those who look."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headgate.jobs.dead_letters.counting import LetterCount
from headgate.jobs.dead_letters.letter import DeadLetter
from headgate.jobs.dead_letters.walk import Look
from headgate.jobs.records.history import JobRecord
from headgate.jobs.values.light_dataclass import frozen_dataclass


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class LetterPage:
    """Letters that were listed."""

    letters: Sequence[DeadLetter]
    """Those that died last come first; none has its content."""
    look: Look
    """The extent of the look; ``look.complete`` is False if there may be more."""


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class LetterCounts:
    """Letters that were counted."""

    total: int
    groups: Sequence[LetterCount]
    """The largest first."""
    look: Look


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class LetterDetails:
    """All that is known of one letter."""

    letter: DeadLetter
    attributes: dict[str, str]
    """All message attributes."""
    record: JobRecord | None
    """The records of its job, with each attempt's traceback; None if there are none."""
    record_fault: str = ""
    """The reason for which the records could not be read; empty if they could."""
    payload: Any = None
    """The payload, if it was asked for: JSON values, or the whole body as text if it is not one of
    Headgate's."""
    payload_schema: int | None = None
    """The version of the payload's schema, as `headgate.JobType.load` takes it; None without a
    payload that is Headgate's."""
    payload_fault: str = ""
    """The reason for which the payload could not be read; empty if it could."""


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class LettersExported:
    """The outcome of an export."""

    exported: int
    look: Look


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class LettersPurged:
    """The outcome of a purge."""

    purged: int
    copied: int
    """Number of letters that have a copy in the bucket."""
    failures: Sequence[str]
    """The reasons for which letters were left; if there are any, the purge ended early."""
    requests: int
    """Number of requests to SQS that deleted."""
    look: Look
