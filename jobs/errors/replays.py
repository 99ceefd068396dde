"""Errors of replays of dead letters."""

from __future__ import annotations

from headgate.jobs.errors.root import HeadgateError


class ReplayError(HeadgateError):
    """A replay can't do what was asked for; nothing was sent for it."""


class ReplayMissing(ReplayError):
    """The app has no replay of that id, or it was started too long ago."""


class ReplayRunning(ReplayError):
    """Another process carries the replay out."""


class ReplayOver(ReplayError):
    """The replay is done, or was aborted, so it can't be resumed or aborted."""
