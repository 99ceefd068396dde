"""The five services that nearly every part of a worker needs."""

from __future__ import annotations

import os
import random
import secrets
import socket

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import Events
from headgate.jobs.definitions.app import App
from headgate.jobs.values.light_dataclass import light_dataclass


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The app, and the surroundings that a worker's parts share."""

    app: App
    clock: Clock
    events: Events
    rng: random.Random
    """The source of jitter."""
    name: str
    """The worker's unique name in records and leases."""


def made_up_name() -> str:
    """Return a name for a worker: its host, its process id, and a few random digits."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}"
