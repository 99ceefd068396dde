"""The values that labels of metrics may have, so that no message can make more series."""

from __future__ import annotations

from headgate.jobs.definitions.app import App
from headgate.jobs.execution.outcome import Reason

UNKNOWN = "unknown"
"""The label of a name that is neither the app's nor Headgate's."""

_REASONS = frozenset(map(str, Reason))


class Labels:
    """Checks names against those of an app.

    Whoever may send to a queue chooses what a message says of itself, and whoever may pause
    something, how it is called.
    """

    def __init__(self, app: App) -> None:
        self._types = frozenset(app.types)
        self._queues = frozenset(app.topology.groups)

    def job_type(self, name: str | None) -> str:
        """Return the name of a job type of the app, else ``unknown``."""
        return name if name in self._types and name is not None else UNKNOWN

    def queue(self, name: str) -> str:
        """Return the name of a queue group of the app, else ``unknown``."""
        return name if name in self._queues else UNKNOWN

    def reason(self, name: str) -> str:
        """Return a reason that Headgate gives for what it doesn't run, else ``unknown``."""
        return name if name in _REASONS else UNKNOWN
