"""The verdict on a delivery: the action on its message, and the event that follows the action.

`jobs.execution.settling.settlement` decides the action, and `settler` carries it out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from datetime import datetime

from headgate.jobs.core.events import Event
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.execution.delivery import Delivery
from headgate.jobs.execution.outcome import Attempt, Outcome
from headgate.jobs.execution.settling.actions import Action, DeadLetter, Quarantine
from headgate.jobs.execution.settling.dead_letter import dead_letter
from headgate.jobs.execution.settling.settlement import WHOLE_ROOM, BudgetAnswer, Room, settle
from headgate.jobs.retry.policy import Retry
from headgate.jobs.values.light_dataclass import light_dataclass


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The action to take on a message, and the event to emit afterwards.

    The action follows from the facts beside it. What changes one of them, such as a refused
    schedule, replaces that fact (`dataclasses.replace`), and so has it decided again.
    """

    outcome: Outcome
    attempt: Attempt
    policy: Retry
    """The job's retry policy, or the app's parking policy."""
    room: Room = WHOLE_ROOM
    budget: BudgetAnswer | None = None
    """The retry budget's answer, once it has been asked."""
    action: Action = field(init=False)
    job_type: str
    ran_s: float = 0.0
    """Seconds that the handler ran; 0 if it was not called."""
    tell: Callable[[Action, datetime], Sequence[Event]] | None
    """Makes the events of the action; None if there are none, since the handler's end was all."""

    def __post_init__(self) -> None:
        action = settle(self.outcome, self.attempt, self.policy, self.room, self.budget)
        object.__setattr__(self, "action", action)

    def aftermath(self, at: datetime) -> Sequence[Event]:
        """Return the events to emit once SQS has confirmed the action, at that time."""
        return () if self.tell is None else self.tell(self.action, at)


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
