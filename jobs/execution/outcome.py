"""How one delivery of a message ended. Every run ends in exactly one of these values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any


class Reason(StrEnum):
    """Why a message is in the dead-letter queue."""

    ATTEMPTS_EXHAUSTED = "attempts-exhausted"
    PERMANENT_ERROR = "permanent-error"
    DO_NOT_RETRY = "do-not-retry"
    PAYLOAD_INVALID = "payload-invalid"
    PAYLOAD_LOST = "payload-lost"
    UNREADABLE = "unreadable"
    UNKNOWN_TYPE = "unknown-type"
    WRONG_QUEUE = "wrong-queue"
    NEWER_SCHEMA = "newer-schema"
    DEFERRED_TOO_OFTEN = "deferred-too-often"
    WAIT_TOO_LONG = "wait-too-long"
    RETRY_BUDGET = "retry-budget"
    RECEIVED_TOO_OFTEN = "received-too-often"


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The handler returned."""

    result: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The handler raised, or ran past its timeout."""

    error: BaseException
    at: datetime
    traceback: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deferred:
    """The job could not or would not run now; that is no failure."""

    after_s: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Discarded:
    """The handler ended the job without success or failure."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted:
    """The worker cut the attempt short, for reasons of its own."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unstarted:
    """The job was not run, for reasons that are none of its own; it goes back."""

    after_s: float = 0.0
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """Somebody asked for the job to be cancelled, and it has not completed."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Crashed:
    """The process that ran the attempt died."""

    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unrunnable:
    """The message can't become a job here; a newer worker might know how.

    Its attempt is the delivery that was tried so, by the app's parking policy.
    """

    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """The job may not be run any more, and was not: all that is left to do is to park it."""

    reason: Reason
    error_type: str = ""
    """Of its last failure."""
    error_message: str = ""


Outcome = (
    Done
    | Failed
    | Deferred
    | Discarded
    | Unstarted
    | Cancelled
    | Interrupted
    | Crashed
    | Unrunnable
    | Spent
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LastFailure:
    """What a record tells of the latest attempt that failed."""

    error_type: str
    error_message: str
    final: Reason | None = None
    """Why there was to be no other attempt, if that was decided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What a verdict needs to know of the delivery besides its outcome."""

    job_id: str
    """Seeds the jitter, so that a job's delays can be told from its id."""
    number: int
    """The attempt that was made, from 1."""
    max_attempts: int
    receives: int
    """Deliveries of the message so far; never fewer than the attempts it carries."""
    receive_limit: int = 1000
    """Deliveries after which SQS itself moves the message away, without a reason."""
    backstop: int = 0
    """Where attempts are counted by deliveries: the delivery at which the job is taken for one that
    kills what runs it. 0: none, since it may be given back without having been started."""
    known: bool = True
    """Whether ``number`` is what is known of attempts. Where records could not be read it is
    counted by deliveries, of which some may have been no attempts, and nothing final may rest on
    it."""
    failures: int = 0
    """Attempts that are known to have failed, and those used under earlier messages."""
    last_failure: LastFailure | None = None
    """The latest under this message; None if none has failed."""
    crashes: int = 0
    """Attempts that lately ended with their process; a `Crashed` one is counted."""
    crashes_ever: int = 0
    """The same, however long ago."""
    suspicions: int = 0
    """Deliveries that may have ended so; whether their workers died is not known yet."""
    fatal_crash: str | None = None
    """The detail of the crash for which it was to go to quarantine; None if there was none."""
    crash_limit: int = 3
    """The crash that puts the job into quarantine."""
    unexplained: int = 0
    """Earlier deliveries that nothing explains."""
    backlog: int = 0
    """Messages visible in the queue, where an adaptive backoff asks for it."""
    worn_at: int = 1000
    """The delivery from which a message is not given back to wait any more."""
    lives_s: float = math.inf
    """How long the message may stay hidden before SQS would delete it, less what is spared for its
    next receive; below 0 it is too late already."""
    renewable: bool = True
    """Whether the job can go on in another message: its own is Headgate's, and not of a FIFO queue,
    where the job would come behind its successors."""

    @property
    def suspect(self) -> bool:
        """Whether one crash more may put the job into quarantine.

        Suspects run one at a time: what runs beside the job that kills its worker is thus suspected
        twice at most, and never takes the blame.
        """
        return 0 < self.crash_limit - 1 <= self.crashes + self.suspicions
