"""Dead letters, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from datetime import datetime

from headgate.jobs.core.topology import Priority
from headgate.jobs.values.durations import Duration, duration
from headgate.jobs.values.light_dataclass import frozen_dataclass


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class LetterContent:
    """The message of a dead letter: all that is needed to send it again. Its repr is empty."""

    body: str = field(repr=False)
    attributes: Mapping[str, str] = field(repr=False)
    """Message attributes: the original's, and what the worker has added."""
    group: str | None = field(default=None, repr=False)
    """MessageGroupId: the ordering group of a FIFO queue's message, the tenant of another's."""


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A message in a dead-letter queue, in the quarantine or among the failed firings.

    What can't be determined is None, or empty: anybody with the permission may have put it there.
    """

    message_id: str
    """SQS's own id."""
    job_id: str | None
    """The id of its job, as the message names it; proves nothing."""
    job_type: str | None
    reason: str
    """The reason that its worker gave, ``quarantined``, ``redriven`` or ``not-submitted``."""
    error_type: str = ""
    """The name of the last error's class."""
    error_message: str = field(default="", repr=False)
    """The last error's message, which may quote the payload: not for logs or mails."""
    attempts: int | None = None
    """Number of attempts that the job has had."""
    failed_at: datetime | None = None
    """The time at which its last attempt ended."""
    sent_at: datetime
    """Time at which it came to the queue; for a standard queue's message that SQS itself moved, the
    time at which it was first sent, from which SQS continues to count its retention.
    https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-dead-letter-queues.html"""
    queue: str
    """Physical name of the queue that it lies in."""
    origin: str | None = None
    """Physical name of the queue that it came from, and goes back to."""
    group: str | None = None
    """Logical name of its queue."""
    priority: Priority | None = None
    tenant: str | None = None
    """The tenant's ``org``."""
    replays: int = 0
    """Number of times that the job has been replayed before."""
    content: LetterContent | None = field(default=None, repr=False, compare=False)
    """Its message; None where only the rest was asked for."""

    @property
    def died_at(self) -> datetime:
        """The time at which the job was given up, as far as the message tells it."""
        return self.failed_at or self.sent_at

    def deleted_at(self, retention: Duration) -> datetime:
        """Return the time at which SQS deletes it from a queue of that retention."""
        return self.sent_at + duration("retention", retention)

    def without_content(self) -> DeadLetter:
        """Return it without its message, whose body may have a MiB."""
        return replace(self, content=None)
