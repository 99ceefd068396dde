"""The root of all errors, and a hint for errors about unknown names."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of an error about an unknown name: the nearest known name, or all names."""
    import difflib  # only for errors

    names = sorted(known)
    if near := difflib.get_close_matches(name, names, n=1):
        return f"did you mean {near[0]!r}?"
    return f"known are: {', '.join(names)}" if names else "none is declared"


class HeadgateError(Exception):
    """The root of every error that Headgate raises; errors of handlers don't derive from it."""
