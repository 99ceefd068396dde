"""The vocabulary of what the app's process tells `headgate dev`: lines of its log, in JSON."""

from __future__ import annotations

LOGGER = "headgate.dev"
"""The logger of the lines that are meant for the parent."""

READY = "ready"
"""The app is loaded and provisioned; has the fields ``app``, ``types``, ``schedules`` (the next
time of any, by type) and ``provisioned``."""

DUE = "due"
"""A schedule has fired or changed; has the field ``schedules``: the next time of any, by type."""

BROKEN = "broken"
"""The app can't be run as it is; has the fields ``reason`` and ``trace``."""

EXIT_BROKEN = 2
"""Exit code after `BROKEN`."""
