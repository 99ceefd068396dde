"""The actions on a message, of which `jobs.execution.settling.settlement` decides one for each
delivery, and `settler` carries it out."""

from __future__ import annotations

from enum import Enum, auto

from headgate.jobs.execution.outcome import Reason
from headgate.jobs.values.light_dataclass import frozen_dataclass, light_dataclass


class Way(Enum):
    """The place in which a job waits until it may run again."""

    HIDDEN = auto()
    """In its message, which is hidden for that long."""
    SCHEDULED = auto()
    """In a one-time schedule."""
    ANEW = auto()
    """In a new message, sent now."""
    LEFT = auto()
    """In its message, which shows when its visibility timeout ends."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Ack:
    """Delete the message: the outcome is final."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class RetryAfter:
    """Hide the message for a while, then deliver it again; the attempt counts."""

    delay_s: int
    note: str = ""
    """The reason why a policy could not be followed exactly; empty if it was."""
    backoff_fault: str = ""
    """The fault of a custom backoff, in whose place the default one counts; empty without one."""
    way: Way = Way.HIDDEN


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Release the message: it has not failed."""

    delay_s: int = 0
    way: Way = Way.HIDDEN


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """Send the message to its queue's dead-letter queue with the reason, then delete it."""

    reason: Reason
    error_type: str
    error_message: str


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine:
    """Send the message to a queue that no worker reads: it kills the process that runs it."""

    detail: str


Action = Ack | RetryAfter | Release | DeadLetter | Quarantine
