"""Checks of filters: values that select by names and by time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headgate.jobs.errors import ConfigurationError
from headgate.jobs.values.kinds import check_kinds
from headgate.jobs.values.listing.time_bounds import check_bound, check_order


def check_selection(owner: str, chosen: Any, texts: Iterable[str]) -> None:
    """Check a filter, which is a frozen dataclass with ``since`` and ``until``.

    Args:
        owner: its name in errors.
        chosen: the filter; durations given as its bounds become timedeltas.
        texts: the names of its fields that are tuples of texts.

    Raises:
        ConfigurationError: a field is of the wrong kind, a text is empty or stands without its
            tuple, or the bounds select nothing.
    """
    for name in texts:
        if isinstance(text := getattr(chosen, name), str):
            raise ConfigurationError(
                f"{owner}: {name} takes a tuple of texts, got {text!r}: write ({text!r},)"
            )
    for name in ("since", "until"):
        object.__setattr__(chosen, name, check_bound(owner, name, getattr(chosen, name)))
    check_kinds(owner, chosen)
    for name in texts:
        if "" in getattr(chosen, name):
            raise ConfigurationError(f"{owner}: {name} has an empty text, which matches none")
    check_order(owner, chosen.since, chosen.until)
