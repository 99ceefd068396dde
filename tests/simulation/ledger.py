"""A record of what happened as seen from outside: by the queues, the handlers and the events.

None of it comes from the code under test, so that it can be used to judge that code.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from pydantic_core import from_json

from headgate.jobs.core.events import Event, JobEvent
from tests.simulation.actors import Actor
from tests.simulation.plan import JobPlan, TypePlan
from tests.simulation.surroundings import Entered

SWEEP = "sweep."
"""The start of the names of processes that sweep the dead letters."""

OPERATORS = ("operator.", "resuming.", SWEEP)
"""The starts of the names of processes that replay and purge dead letters."""


@dataclass(slots=True, eq=False)
class Run:
    """One call of a handler."""

    job_id: str
    actor: Actor
    attempt: int
    max_attempts: int
    began_at: float
    ended_at: float | None = None
    how: str = ""
    """``returned``, ``raised``, ``deferred``, ``discarded``, ``cut`` or ``killed``."""
    told: str = ""
    """How it ends according to its batch handler, which may go on with others: also as above."""
    delivery: Delivery | None = None
    """The delivery that led to it."""

    @property
    def is_later(self) -> bool:
        """True if its message had been delivered before."""
        return self.delivery is not None and self.delivery.number > 1


@dataclass(slots=True, eq=False)
class Delivery:
    """One receive of a message."""

    number: int
    at: float
    actor: Actor | None
    hidden_until: float
    shown: bool = False
    """True if its receiver gave it back for immediate redelivery."""
    silent_until: float | None = None
    """The time until which nothing was recorded about the message's first delivery."""


@dataclass(slots=True, eq=False)
class Message:
    """One message of a queue, from its sending to its end."""

    id: str
    job_id: str
    queue: str
    sent_at: float
    attributes: dict[str, str]
    group: str | None
    sender: Actor | None = None
    deliveries: list[Delivery] = field(default_factory=list)
    shared: bool = False
    """True if other jobs are in it, too."""
    gone_at: float | None = None
    gone_how: str = ""
    """``deleted``, ``expired`` or ``redriven``."""
    confirmed: bool = False
    """For a dead letter: True once its sender has SQS's confirmation."""


def is_replay(message: Message) -> bool:
    """Return True for a message that a replay has sent."""
    return message.sender is not None and message.sender.name.startswith(OPERATORS)


@dataclass(slots=True, eq=False)
class Life:
    """One job."""

    id: str
    kind: str = ""
    """The name of the job's type."""
    plan: JobPlan | None = None
    declared: TypePlan | None = None
    tenant: str | None = None
    """The tenant, according to its message."""
    accepted_at: float | None = None
    """The time at which the client was told that it is submitted."""
    duplicate_of: str | None = None
    messages: list[Message] = field(default_factory=list)
    """Its messages in the queues that workers read."""
    letters: list[Message] = field(default_factory=list)
    """Its messages in dead-letter queues and the quarantine."""
    runs: list[Run] = field(default_factory=list)
    events: list[tuple[float, str, Event]] = field(default_factory=list)
    unsubmitted: bool = False
    """True if the bridge could not send it, and Lambda has kept its input."""
    cancel_asked_at: float | None = None
    expires_at: float | None = None
    """The time by which it has to start, according to its first message."""

    @property
    def resting(self) -> list[Message]:
        """Its dead letters that nobody has replayed: they lie there still, or were purged."""
        return [each for each in self.letters if each not in self.replayed]

    @property
    def replayed(self) -> list[Message]:
        """Its dead letters in whose place a job was sent again."""
        again = self.replays
        return [
            letter
            for letter in self.letters
            if letter.gone_how == "deleted"
            and letter.gone_at is not None
            and any(letter.sent_at <= each.sent_at <= letter.gone_at for each in again)
        ]

    @property
    def is_scattered(self) -> bool:
        """True if it shared a message that was delivered again: it may have begun before."""
        return any(each.shared and len(each.deliveries) > 1 for each in self.messages)

    @property
    def replays(self) -> list[Message]:
        """Its messages that operators have sent, in order."""
        return [each for each in self.messages if is_replay(each)]

    @property
    def tries(self) -> list[list[Run]]:
        """Its runs, in parts: each replay begins another one, in which attempts start anew."""
        starts = [0.0, *(each.sent_at for each in self.replays), float("inf")]
        return [
            [run for run in self.runs if start <= run.began_at < end]
            for start, end in pairwise(starts)
        ]

    def told(self, kind: type[Event]) -> list[tuple[float, str, Any]]:
        """Return the events of a kind, each with its time and the actor that emitted it."""
        return [each for each in self.events if isinstance(each[2], kind)]

    def ran(self, *hows: str) -> list[Run]:
        """Return the runs that ended in one of these ways."""
        return [run for run in self.runs if run.how in hows]

    def latest_to(self, actor: Actor) -> Delivery | None:
        """Return the last delivery of any of its messages to an actor."""
        received = (each for message in self.messages for each in message.deliveries)
        its = (each for each in received if each.actor is actor)
        return max(its, key=lambda each: each.at, default=None)

    @property
    def name(self) -> str:
        """The job's name in violations."""
        index = f"job {self.plan.index}" if self.plan is not None else "a job"
        return f"{index} ({self.kind}, {self.id[-6:]})"

    @property
    def ran_so(self) -> str:
        """A summary of its runs."""
        runs = ", ".join(f"{run.attempt}:{run.how or 'runs'}" for run in self.runs)
        return f"runs: {runs or 'none'}"

    @property
    def receives(self) -> int:
        """Number of deliveries of all its messages."""
        return sum(len(message.deliveries) for message in self.messages)


class Ledger:
    """The record of everything that happened in a life."""

    def __init__(self) -> None:
        self.lives: dict[str, Life] = {}
        self.running: dict[Run, Life] = {}
        """Runs that have not ended."""
        self.messages: dict[str, Message] = {}
        """By queue and SQS's id; of a bundle, that of its first job."""
        self.bundles: dict[str, list[Message]] = {}
        """Likewise, of each message those of all of its jobs, which share their deliveries."""
        self.entries: list[Entered] = []
        """All entries into what apps open around attempts."""
        self.violations: list[str] = []
        self.counts: Counter[str] = Counter()
        """Number of occurrences of each kind of event, for a life's coverage."""
        self.lines: list[str] = []
        self._digest = hashlib.blake2b(digest_size=16)
        self._time: Callable[[], float] = float

    @property
    def now(self) -> float:
        """Virtual seconds since the life began."""
        return self._time()

    def begin(self, time: Callable[[], float]) -> None:
        """Set the clock."""
        self._time = time

    def life(self, job_id: str) -> Life:
        """Return the record of a job."""
        if (life := self.lives.get(job_id)) is None:
            life = self.lives[job_id] = Life(job_id)
        return life

    def ended(self, run: Run, how: str) -> None:
        """Record the end of a handler's run."""
        run.ended_at, run.how = self.now, how
        self.running.pop(run, None)

    def log(self, what: str, *details: object) -> None:
        """Write one line; a repeated life writes the same lines."""
        line = f"{self.now:12.4f} {what} {' '.join(map(str, details))}"
        self._digest.update(line.encode(errors="backslashreplace"))
        self.lines.append(line)

    @property
    def digest(self) -> str:
        """Return the hash of all lines."""
        return self._digest.hexdigest()

    def fault(self, kind: str, text: str) -> None:
        """Record something that must not happen."""
        self.log("VIOLATION", kind, text)
        self.violations.append(f"{kind}: {text}")

    def heard(self, actor: Actor, event: Event) -> None:
        """Record an actor's event."""
        self.counts[f"event:{event.name}"] += 1
        if isinstance(event, JobEvent):
            self.life(event.job_id).events.append((self.now, actor.name, event))
            self.log("event", actor.name, event.name, event.job_id[-6:])
        elif event.name.startswith(("message.", "breaker.", "receipt.", "settlement.failed")):
            job_id = getattr(event, "job_id", None)
            if job_id:
                self.life(job_id).events.append((self.now, actor.name, event))
            self.log("event", actor.name, event.name, (job_id or "")[-6:])


def jobs_of(body: str, message_id: str) -> dict[str, dict[str, Any]]:
    """Return the jobs of a message body: their ids, each with the whole envelope."""
    try:
        value = from_json(body)
    except ValueError:
        return {message_id: {}}
    if not isinstance(value, dict):
        return {message_id: {}}
    jobs = value["bundle"] if value.get("v") == 2 else [value]
    return {str(job.get("id", message_id)): job for job in jobs}
