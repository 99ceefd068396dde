"""The outcomes of a delivery. Every run ends in exactly one of these values."""

from __future__ import annotations

import math
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Any

from headgate.jobs.retry.backoff_context import BackoffContext
from headgate.jobs.values.light_dataclass import frozen_dataclass, light_dataclass
from headgate.jobs.values.texts import text_of


class Reason(StrEnum):
    """The reason for which a message is in the dead-letter queue."""

    ATTEMPTS_EXHAUSTED = "attempts-exhausted"
    PERMANENT_ERROR = "permanent-error"
    DO_NOT_RETRY = "do-not-retry"
    PAYLOAD_INVALID = "payload-invalid"
    PAYLOAD_LOST = "payload-lost"
    PAYLOAD_UNOPENABLE = "payload-unopenable"
    PAYLOAD_NOT_SEALED = "payload-not-sealed"
    UNREADABLE = "unreadable"
    UNKNOWN_TYPE = "unknown-type"
    WRONG_QUEUE = "wrong-queue"
    UNSIGNED = "unsigned"
    SIGNATURE_INVALID = "signature-invalid"
    NEWER_SCHEMA = "newer-schema"
    DEFERRED_TOO_OFTEN = "deferred-too-often"
    WAIT_TOO_LONG = "wait-too-long"
    CLAIM_UNREADABLE = "claim-unreadable"
    RETRY_BUDGET = "retry-budget"
    RECEIVED_TOO_OFTEN = "received-too-often"


STRANGERS = frozenset({Reason.WRONG_QUEUE, Reason.UNSIGNED, Reason.SIGNATURE_INVALID})
"""The reasons for which nothing is believed that a message says of itself."""

NAMED_JOBS = frozenset(
    {
        Reason.UNKNOWN_TYPE,
        Reason.NEWER_SCHEMA,
        Reason.PAYLOAD_INVALID,
        Reason.PAYLOAD_LOST,
        Reason.PAYLOAD_UNOPENABLE,
        Reason.PAYLOAD_NOT_SEALED,
    }
)
"""The reasons for which a message can't be run that is believed to be the job that it names."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The handler returned."""

    result: Any = None
    written: tuple[Any, int] | None = field(default=None, compare=False, repr=False)
    """The result as JSON values, and its size as JSON in bytes; None if nobody keeps it."""


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The handler raised, or ran past its timeout."""

    error: BaseException
    at: datetime
    message: str = ""
    """The error's text, redacted as the app says; by default as it is."""
    traceback: str = ""

    def __post_init__(self) -> None:
        if not self.message:
            object.__setattr__(self, "message", text_of(self.error))


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class Deferred:
    """The job could not run now, or its handler put it off; this is not a failure."""

    after_s: float
    reason: str


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class Discarded:
    """The handler ended the job without success or failure."""

    reason: str


class DropKind(StrEnum):
    """The kind of an end without a run."""

    REPLACED = "replaced"
    """A later job of a type with ``Unique(keep="last")`` stands for it."""
    EXPIRED = "expired"
    """It had not started by the time that ``expires`` set."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """The job ends without a run of its handler in this delivery; it is neither done nor failed."""

    kind: DropKind
    reason: str


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted:
    """The worker interrupted the attempt, for reasons unrelated to the job."""

    reason: str


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Unstarted:
    """The job was not run, for reasons unrelated to it, and is released."""

    after_s: float = 0.0
    reason: str = ""
    paused: bool = False
    """True if it is released because of a pause."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """The job was cancelled on request before it completed."""

    reason: str


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Crashed:
    """The process that ran the attempt died."""

    detail: str


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Unrunnable:
    """The message can't become a job here; a newer worker might be able to read it.

    Its attempts are the deliveries with this outcome, and the app's parking policy applies.
    """

    reason: Reason
    detail: str


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """The job must not run again, and was not run: it only remains to park it."""

    reason: Reason
    error_type: str = ""
    """The error type of its last failure."""
    error_message: str = ""


Outcome = (
    Done
    | Failed
    | Deferred
    | Discarded
    | Dropped
    | Unstarted
    | Cancelled
    | Interrupted
    | Crashed
    | Unrunnable
    | Spent
)


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class LastFailure:
    """The latest failed attempt, as recorded."""

    error_type: str
    error_message: str
    final: Reason | None = None
    """The reason for which no further attempt was to be made, if that was decided."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """The facts about a delivery that its verdict depends on, besides the outcome."""

    job_id: str
    """The job's id. It seeds the jitter, so that a job's delays follow from its id."""
    number: int
    """The attempt that was made, from 1."""
    max_attempts: int
    receives: int
    """Deliveries of the message so far; never fewer than the attempts made under it."""
    begun: bool = False
    """True if the handler was called in an earlier delivery, as far as is known: by the job's
    records or, until these are read, by the number of deliveries. Of a bundle none are read. In a
    verdict, in this one too."""
    expires_at: datetime | None = None
    """The time by which the handler has to be called for the first time; None for any time."""
    receive_limit: int = 1000
    """Deliveries after which SQS itself moves the message away, without a reason."""
    backstop: int = 0
    """The delivery at which a job whose attempts are counted by deliveries is taken for one that
    kills its process. 0: none, since the job may be released without having been started."""
    known: bool = True
    """True if ``number`` counts attempts. False where records could not be read: it then counts
    deliveries, some of which may not have been attempts, and no final verdict may rest on it."""
    failures: int = 0
    """Attempts known to have failed, and those used under earlier messages."""
    last_failure: LastFailure | None = None
    """The latest under this message; None if none has failed."""
    crashes: int = 0
    """Recent attempts whose process died, including a current `Crashed` one."""
    crashes_ever: int = 0
    """All attempts whose process died, however long ago."""
    suspicions: int = 0
    """Deliveries whose worker may have died, which is not known yet."""
    fatal_crash: str | None = None
    """The detail of the crash for which the job was to go to quarantine; None if there was none."""
    crash_limit: int = 3
    """Number of crashes that puts the job into quarantine."""
    unexplained: int = 0
    """Earlier deliveries that nothing explains."""
    backlog: int = 0
    """Messages visible in the queue, where an adaptive backoff asks for it."""
    failed: BackoffContext | None = None
    """The failure, where a custom backoff asks for it."""
    worn_at: int = 1000
    """The delivery from which on a message is no longer released to wait."""
    lives_s: float = math.inf
    """Seconds for which the message may stay hidden before SQS would delete it, less the time
    spared for its next receive, and for the run of a renewable job; below 0 if it is too late."""
    renewable: bool = True
    """True if the job can go on in another message: its own is Headgate's, and not of a FIFO queue,
    where the job would come behind its successors."""

    @property
    def suspect(self) -> bool:
        """True if one more crash may put the job into quarantine.

        Suspects run one at a time: so a job that runs beside one that kills its worker is suspected
        at most twice, and is never quarantined for it.
        """
        return 0 < self.crash_limit - 1 <= self.crashes + self.suspicions
