"""The verdict on a delivery: the action on its message, and the event that follows the action."""

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
    """The action to take on a message, and the event to emit afterwards."""

    outcome: Outcome
    action: Action
    attempt: Attempt
    job_type: str
    ran_s: float = 0.0
    """Seconds that the handler ran; 0 if it was not called."""
    tell: Callable[[Action, datetime], Event | None]

    def aftermath(self, at: datetime) -> Event | None:
        """Return the event to emit once SQS has confirmed the action, at that time."""
        return self.tell(self.action, at)


def parked(
    delivery: Delivery,
    verdict: Verdict,
    action: DeadLetter | Quarantine,
    *,
    quarantine: str,
    at: datetime,
) -> tuple[str, OutgoingMessage]:
    """Return the physical name of the queue, and the message to send there, for a parked job."""
    letter = dead_letter(
        delivery.message,
        action,
        verdict.attempt,
        verdict.job_type,
        at,
        fifo=delivery.queue.fifo and isinstance(action, DeadLetter),  # the quarantine is standard
    )
    return (delivery.queue.dlq_name if isinstance(action, DeadLetter) else quarantine), letter
