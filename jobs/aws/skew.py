"""This machine's clock beside AWS's, as a refused signature shows it.

SQS takes a signature for some minutes either way; an answer's Date header says what time it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

TOLERATED = timedelta(minutes=4)
"""SQS takes a signature for five, either way."""

CODES = frozenset(
    {
        "InvalidSignatureException",
        "RequestExpired",
        "RequestInTheFuture",
        "RequestTimeTooSkewed",
        "SignatureDoesNotMatch",
    }
)
"""The codes of refusals for a wrong time; some of them have other causes too."""


def skew_of(headers: Mapping[str, str], now: datetime) -> timedelta | None:
    """The time by which AWS's clock is ahead of ``now``; None if the answer doesn't say."""
    try:
        date = parsedate_to_datetime(headers.get("Date") or headers.get("date") or "")
    except (ValueError, OverflowError):  # it is no date, or one with numbers beyond all bounds
        return None
    return (date.replace(tzinfo=UTC) if date.tzinfo is None else date) - now


def told(skew: timedelta) -> str:
    """The skew in words, and what to do."""
    minutes = abs(skew) / timedelta(minutes=1)
    way = "behind" if skew > timedelta(0) else "ahead of"
    return f"this machine's clock is {minutes:.0f} minutes {way} AWS's: set it, by NTP"
