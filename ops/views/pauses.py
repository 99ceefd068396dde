"""Output of pauses: what is paused, since when, until when, by whom and why."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from headgate.jobs.client.client import Client
from headgate.jobs.errors import SettingsInvalid, TransportError
from headgate.jobs.records.pausing.pause import Pause
from headgate.ops.views.output import show, show_error

EXIT_NOT_PAUSED = 1
"""Nothing was resumed, since it was not paused."""


def read_paused(client: Client) -> Sequence[Pause] | None:
    """Return what is paused; None if that can't be read, which is said on standard error."""
    try:
        return client.pauses.list()
    except SettingsInvalid:
        return []  # an app without records has no pauses
    except TransportError as error:
        show_error(f"what is paused can't be read: {error}")
        return None


def show_resumed(client: Client, *, was_paused: bool) -> int:
    """Say whether something has been resumed, and what is paused still; returns the exit code."""
    show("resumed" if was_paused else "it was not paused")
    show_paused(read_paused(client))
    return 0 if was_paused else EXIT_NOT_PAUSED


def show_paused(paused: Sequence[Pause] | None) -> None:
    """Print a line for each pause."""
    for each in paused or ():
        show(in_words(each))


def in_words(pause: Pause) -> str:
    """Return a pause as one line."""
    why = f": {pause.reason}" if pause.reason else ""
    who = f" by {pause.actor}" if pause.actor else ""
    times = f"since {_time(pause.at)}{who}, until {_time(pause.until)}"
    return f"paused: {pause.target}, {times}{why}"


def values_of(pause: Pause) -> dict[str, Any]:
    """Return a pause as it is in JSON."""
    return {
        "kind": pause.target.kind,
        "name": pause.target.name,
        "priority": pause.target.priority,
        "since": pause.at,
        "until": pause.until,
        "reason": pause.reason,
        "actor": pause.actor,
    }


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
