"""The app, its command line or its environment is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from headgate.jobs.errors.root import HeadgateError


class ConfigurationError(HeadgateError):
    """The app, the command line or the environment is wrong; nothing was sent or received."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that is wrong with an app, or with its deployment."""

    rule: str
    """Its name, which stays the same between versions."""
    where: str
    """The job type or queue."""
    what: str
    why: str
    """What would happen."""
    instead: str
    """What to write."""
    severity: Literal["error", "warning"] = "error"
    """An app with errors is not synthesized."""

    def __str__(self) -> str:
        end = "" if self.what.endswith("?") else "."
        return f"{self.where}: {self.what}{end} {self.why}. {self.instead} [{self.rule}]"


class AppFaulty(ConfigurationError):
    """An app that ``headgate check`` finds errors in can't be deployed; the message lists them."""

    def __init__(self, message: str, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__(message)


class AppImportError(ConfigurationError):
    """An app path such as ``shop.app:app`` doesn't lead to an App; the message says which part."""


class DuplicateJobType(ConfigurationError):
    """Two job types share one name, so a message could not say which of them it is for."""


class HandlerMissing(ConfigurationError):
    """A job type has no handler where one has to run."""


class SettingsInvalid(ConfigurationError):
    """A setting is unknown, out of range, or contradicts another."""
