"""Skew between this machine's clock and AWS's, found after a refused signature.

SQS takes a signature for some minutes either way; an answer's Date header has AWS's time.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

MOST = timedelta(days=1)
"""Maximum skew that requests are signed by: more than a wrong time zone or a night of standby.

An answer without TLS can come from anybody, who could otherwise have requests signed that AWS would
take years from now.
"""

TOLERATED = timedelta(minutes=4)
"""Skew that is ignored; SQS takes a signature for five minutes either way."""

CODES = frozenset(
    {
        "InvalidSignatureException",
        "RequestExpired",
        "RequestInTheFuture",
        "RequestTimeTooSkewed",
        "SignatureDoesNotMatch",
    }
)
"""Codes of refusals for a wrong time; some of them have other causes too."""


def skew_of(headers: Mapping[str, str], now: datetime) -> timedelta | None:
    """Return the time by which AWS's clock is ahead of ``now``; None if the answer has none.

    Args:
        headers: The answer's, by lower-case names.
        now: This machine's time.
    """
    try:
        date = parsedate_to_datetime(headers.get("date", ""))
    except (ValueError, OverflowError):  # not a date, or one with numbers out of range
        return None
    return (date.replace(tzinfo=UTC) if date.tzinfo is None else date) - now


def told(skew: timedelta) -> str:
    """Describe the skew in words, and its remedy."""
    minutes = abs(skew) / timedelta(minutes=1)
    way = "behind" if skew > timedelta(0) else "ahead of"
    return f"this machine's clock is {minutes:.0f} minutes {way} AWS's: synchronize it with NTP"
