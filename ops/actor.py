"""The name under which whoever runs a process acts in it."""

from __future__ import annotations

from headgate.jobs.core.settings import Settings


def actor() -> str:
    """Return ``HEADGATE_ACTOR``, or else the process's user and host."""
    from headgate.jobs.client.auditing.actor import current_actor  # help needs no client

    return current_actor(Settings.from_env().actor)
