"""Durations on the command line, ``90s``, ``15m``, ``1h30m``, and backoffs made of them."""

from __future__ import annotations

import re
from datetime import timedelta

import typer

from headgate.jobs.errors import SettingsInvalid
from headgate.jobs.retry.backoff import Backoff

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


def duration(text: str | timedelta) -> timedelta:
    """Read ``90s``, ``15m``, ``1h`` or ``1h30m``.

    Raises:
        typer.BadParameter: the text has another form.
    """
    if isinstance(text, timedelta):
        return text  # typer hands defaults to a parser too
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise typer.BadParameter(f"{text!r} is not a duration: write 90s, 15m, 1h or 1h30m")
    try:
        return timedelta(seconds=sum(float(number) * _UNITS[unit] for number, unit in parts))
    except OverflowError as error:
        raise typer.BadParameter(f"{text!r} is too long a duration") from error


def backoff_of(text: str | Backoff) -> Backoff:
    """Read ``30s``, ``10s,1m,5m``, whose last delay repeats, or ``5s..10m``, which doubles.

    Raises:
        typer.BadParameter: the text has another form, or there is no such backoff.
    """
    if isinstance(text, Backoff):
        return text  # typer hands defaults to a parser too
    base, dots, cap = text.partition("..")
    try:
        if dots:
            return Backoff.exponential(base=duration(base), cap=duration(cap))
        return Backoff.steps(*map(duration, text.split(",")))
    except SettingsInvalid as error:
        raise typer.BadParameter(f"{text!r} is no backoff: {error}") from error


def in_words(length: timedelta) -> str:
    """Format a duration as `duration` reads it: ``90s``, ``15m``, ``1h``."""
    milliseconds = length // timedelta(milliseconds=1)
    for unit in reversed(_UNITS):
        if milliseconds % (size := round(_UNITS[unit] * 1000)) == 0:
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds}ms"
