"""Ends of pages, as texts that can be handed around and stand in an address."""

from __future__ import annotations

import base64

from headgate.jobs.errors import ConfigurationError

_LONGEST = 1_024
"""Bytes of DynamoDB's longest sort key."""


def cursor_of(place: str) -> str:
    """Return the text for a sort key that a page ended at; empty for none."""
    return base64.urlsafe_b64encode(place.encode()).decode().rstrip("=")


def place_of(cursor: str) -> str:
    """Return the sort key that a text stands for; empty for the beginning.

    Raises:
        ConfigurationError: the text is no page's ``next``.
    """
    try:
        found = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        if len(found) <= _LONGEST and bool(found) is bool(cursor):
            return found.decode()
    except ValueError:  # no base64, or no text
        pass
    raise no_page(cursor)


def no_page(cursor: str) -> ConfigurationError:
    """Return the error of a text that is no page's ``next``."""
    return ConfigurationError(
        f"{cursor[:80]!r} is the end of no page: give the next of a page that was listed"
    )
