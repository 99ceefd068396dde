"""Requests to pause a queue, a job type or a tenant: the items, and their meaning.

    pk  cancellations   sk  #pause#queue#GROUP              data  {at, until, reason, actor,
    pk  cancellations   sk  #pause#queue#GROUP#PRIORITY            kind, name, priority?}
    pk  cancellations   sk  #pause#type#NAME
    pk  cancellations   sk  #pause#tenant#ORG

They are in the partition of the cancellations, which workers read every few seconds anyway, and
come before them: no job's id begins with a ``#``. There is one item for each thing that is paused,
so a second pause of it replaces the first, and its deletion resumes it.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Literal

from headgate.jobs.core.ports.table import Item
from headgate.jobs.core.topology import Priority, QueueSpec
from headgate.jobs.records.cancellation import CANCELLATIONS, LONGEST_ACTOR, LONGEST_REASON
from headgate.jobs.values.light_dataclass import frozen_dataclass
from headgate.jobs.values.stored import moment, text
from headgate.jobs.values.texts import legible

PREFIX = "#pause#"
"""The beginning of the sort key of every pause."""

MOST_PAUSES = 200
"""Maximum number of pauses at a time: they are read at every look, in about 40 KB."""

LONGEST_NAME = 128
"""Maximum number of characters of a name: SQS's for a MessageGroupId, which is a tenant's."""

_FRACTION = 0.1
_SOONEST_S, _SOON_S, _LATEST_S = 5.0, 60.0, 3600.0
"""A message that comes while it is paused stays away for 5 s, for twice as long after each return,
up to a minute, but not for longer than the pause has lasted; and at least for a tenth of that, up
to an hour. So a pause of days costs a few hundred receives of SQS's 1,000, and what is resumed
comes back within a minute, or within a tenth of a pause of more than ten minutes."""

_MOST_DOUBLINGS = 10

PauseKind = Literal["queue", "type", "tenant"]


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class PauseTarget:
    """A queue, a job type or a tenant that can be paused."""

    kind: PauseKind
    name: str
    """The queue's group, the type's name, or the tenant's organization."""
    priority: Priority | None = None
    """The only priority of the queue that is meant; None means all of them."""

    @property
    def sort_key(self) -> str:
        """The sort key of its pause."""
        end = "" if self.priority is None else f"#{self.priority.value}"
        return f"{PREFIX}{self.kind}#{self.name}{end}"

    def __str__(self) -> str:
        end = "" if self.priority is None else f" with the priority {self.priority.value}"
        return f"the {self.kind} {self.name!r}{end}"


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A pause of one target: no job of it starts until then."""

    target: PauseTarget
    at: datetime
    """The time at which it began; aware."""
    until: datetime
    """The time at which it ends by itself; aware."""
    reason: str = ""
    actor: str = ""
    """The person who asked for it; empty if that was not said."""

    def is_over(self, now: datetime) -> bool:
        """Return True if it has ended by itself."""
        return now >= self.until

    def covers(self, queue: QueueSpec, job_type: str | None, tenant: str | None) -> bool:
        """Return True if it concerns a job.

        Args:
            queue: the queue that the job's message was received from.
            job_type: the job's type; None if the message is no job here.
            tenant: the organization of the job's tenant; None if it has none.
        """
        match self.target.kind:
            case "queue":
                return self.covers_queue(queue)
            case "type":
                return job_type == self.target.name
            case "tenant":
                return tenant == self.target.name

    def covers_queue(self, queue: QueueSpec) -> bool:
        """Return True if it concerns everything in a queue."""
        target = self.target
        return (
            target.kind == "queue"
            and target.name == queue.group
            and target.priority in (None, queue.priority)
        )

    def away_s(self, now: datetime, returns: int = 0) -> float:
        """Return the seconds for which a message that comes now stays away, but not beyond its end.

        Args:
            now: the time; aware.
            returns: the number of the message's earlier deliveries; with each it stays away longer.
        """
        lasted_s = (now - self.at).total_seconds()
        left_s = (self.until - now).total_seconds()
        soon_s = min(_SOONEST_S * 2.0 ** min(returns, _MOST_DOUBLINGS), _SOON_S, lasted_s)
        late_s = min(_FRACTION * lasted_s, _LATEST_S)
        return max(1.0, min(max(_SOONEST_S, soon_s, late_s), left_s))


def pause_item(pause: Pause) -> Item:
    """Return the item that pauses, which the table deletes once the pause is over."""
    target = pause.target
    data = {
        "at": pause.at.isoformat(),
        "until": pause.until.isoformat(),
        "reason": legible(pause.reason, LONGEST_REASON),
        "actor": legible(pause.actor, LONGEST_ACTOR),
        "kind": target.kind,
        "name": target.name,
    }
    if target.priority is not None:
        data["priority"] = target.priority.value
    return Item(pk=CANCELLATIONS, sk=target.sort_key, data=data, expires_at=pause.until)


def read_pauses(items: Iterable[Item]) -> tuple[list[Pause], int]:
    """Return the pauses among items, and the number of items under their prefix that are none.

    Items without the prefix are left out of both.
    """
    found: list[Pause] = []
    strange = 0
    for item in items:
        if not item.sk.startswith(PREFIX):
            continue
        if (pause := _pause(item)) is None or len(found) >= MOST_PAUSES:
            strange += 1
        else:
            found.append(pause)
    return found, strange


def _pause(item: Item) -> Pause | None:
    data = item.data
    at, until = moment(data.get("at")), moment(data.get("until"))
    reason, actor = text(data.get("reason"), LONGEST_REASON), text(data.get("actor"), LONGEST_ACTOR)
    target = _target(data.get("kind"), data.get("name"), data.get("priority"))
    if at is None or until is None or reason is None or actor is None or target is None:
        return None
    if target.sort_key != item.sk:
        return None
    return Pause(target=target, at=at, until=until, reason=reason, actor=actor)


def _target(kind: object, name: object, priority: object) -> PauseTarget | None:
    if not (named := text(name, LONGEST_NAME)):
        return None
    match kind:
        case "queue":
            if priority is None:
                return PauseTarget(kind="queue", name=named)
            known = {each.value: each for each in Priority}
            if isinstance(priority, str) and priority in known:
                return PauseTarget(kind="queue", name=named, priority=known[priority])
        case "type" | "tenant" if priority is None:
            return PauseTarget(kind=kind, name=named)
        case _:
            pass
    return None
