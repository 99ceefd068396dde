"""The names of an app's keys, and the seals that its processes make with them."""

from __future__ import annotations

from typing import Any

from headgate.jobs.core.concurrency import Parallelism
from headgate.jobs.core.keys.key_ring import KeyRing
from headgate.jobs.core.naming import physical_name
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.messages.sealing import Seals, check_library


def own_alias(app: App) -> str:
    """Return the alias of the key that is created with the app's system."""
    return f"alias/{physical_name(app.name, app.stage, 'payloads')}"


def key_names(app: App) -> tuple[str, ...]:
    """Return the names of the app's keys, that which seals first; none without encryption."""
    if app.encryption is None:
        return ()
    return tuple(app.encryption.keys) or (own_alias(app),)


def has_own_key(app: App) -> bool:
    """Return True if the key that is created with the app's system is among the app's keys."""
    return own_alias(app) in key_names(app)


def seals_of(app: App, ring: KeyRing, concurrency: Parallelism) -> Seals | None:
    """Return what seals and opens the app's values; None without encryption.

    Raises:
        ConfigurationError: the library that it needs is not installed.
    """
    if app.encryption is None:
        return None
    check_library()
    return Seals(app.name, app.stage, key_names(app), app.encryption, ring, concurrency)


def takes_unsealed(app: App, declared: JobType[Any, Any]) -> bool:
    """Return True if messages of a type may be as their sender left them.

    Others than the app's clients make those of foreign messages and of event rules.
    """
    if app.encryption is None or not app.encryption.required:
        return True
    return any(rule.type is declared for rule in app.event_rules.values())
