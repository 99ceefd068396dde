"""Five things that nearly every part of a worker is handed."""

from __future__ import annotations

import os
import random
import secrets
import socket
from dataclasses import dataclass

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.events import Events
from headgate.jobs.definitions.app import App


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The app, and the world as the worker's parts know it."""

    app: App
    clock: Clock
    events: Events
    rng: random.Random
    """Spreads pauses."""
    name: str
    """Tells this worker from others, in records and leases."""


def made_up_name() -> str:
    """A name for a worker that is given none: its host, its process, and a few random digits."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}"
