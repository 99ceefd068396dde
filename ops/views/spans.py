"""Lengths of time as people read them."""

from __future__ import annotations

from datetime import timedelta


def in_short(span: timedelta) -> str:
    """Return a length of time in its largest whole unit, as in ``5m``; none is below 0."""
    seconds = max(0, int(span.total_seconds()))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
