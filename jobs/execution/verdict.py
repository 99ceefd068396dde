"""The verdict on a delivery: what has to happen to its message, and what is said once it has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from headgate.jobs.core.events import Event
from headgate.jobs.core.ports import OutgoingMessage
from headgate.jobs.execution.dead_letter import dead_letter
from headgate.jobs.execution.delivery import Delivery
from headgate.jobs.execution.outcome import Attempt, Outcome
from headgate.jobs.execution.settlement import Action, DeadLetter, Quarantine


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What has to happen to a message now, and what to say once it has."""

    outcome: Outcome
    action: Action
    attempt: Attempt
    job_type: str
    ran_s: float = 0.0
    """How long its handler ran; 0 where it was not called."""
    tell: Callable[[Action, datetime], Event | None]

    def aftermath(self, at: datetime) -> Event | None:
        """The event to emit when SQS has confirmed the action, at that time."""
        return self.tell(self.action, at)


def parked(
    delivery: Delivery,
    verdict: Verdict,
    action: DeadLetter | Quarantine,
    *,
    quarantine: str,
    at: datetime,
) -> tuple[str, OutgoingMessage]:
    """Where a message goes that will not run again, by the queue's physical name, and as what."""
    letter = dead_letter(
        delivery.message,
        action,
        verdict.attempt,
        verdict.job_type,
        at,
        fifo=delivery.queue.fifo and isinstance(action, DeadLetter),  # the quarantine is standard
    )
    return (delivery.queue.dlq_name if isinstance(action, DeadLetter) else quarantine), letter
