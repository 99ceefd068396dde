"""Errors of an app's declaration, its command line or its environment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from headgate.jobs.errors.root import HeadgateError


class ConfigurationError(HeadgateError):
    """The app, the command line or the environment is wrong; nothing was sent or received."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault of an app or of its deployment."""

    rule: str
    """The name of the rule that found it, which stays the same between versions."""
    where: str
    """The job type or queue at fault."""
    what: str
    why: str
    """The consequence."""
    instead: str
    """The code to write instead."""
    severity: Literal["error", "warning", "advice"] = "error"
    """``error``, ``warning`` or ``advice``: an app with errors is not synthesized, and what
    ``headgate check`` only advises is right as it is."""

    def __str__(self) -> str:
        end = "" if self.what.endswith("?") else "."
        return f"{self.where}: {self.what}{end} {self.why}. {self.instead} [{self.rule}]"


class AppFaulty(ConfigurationError):
    """The app has errors that ``headgate check`` finds, and can't be deployed; lists the errors."""

    def __init__(self, message: str, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__(message)


class AppImportError(ConfigurationError):
    """An app path such as ``shop.app:app`` leads to no App; the message names the part at fault."""


class DuplicateJobType(ConfigurationError):
    """Two job types share one name, so a message could not identify its type."""


class HandlerMissing(ConfigurationError):
    """A job type has no handler in a process that has to run it."""


class SettingsInvalid(ConfigurationError):
    """A setting is unknown, out of range, or contradicts another."""


class LibraryMissing(ConfigurationError, ImportError):
    """A part of Headgate needs a library that is not installed; the message says how to install it.

    It is an `ImportError` too, which is what a failed import is expected to raise.
    """

    def __init__(self, part: str, library: str | None, install: str, *, then: str = "") -> None:
        """Compose the message.

        Args:
            part: the part, as the subject of a sentence.
            library: the library's name.
            install: what to give to pip, such as ``headgate[worker]``.
            then: what else is to be done, or may be done instead.
        """
        from shlex import quote  # only for errors

        ending = f", {then}" if then else ""
        super().__init__(
            f"{part} needs {library}: pip install {quote(install)}{ending}", name=library
        )
