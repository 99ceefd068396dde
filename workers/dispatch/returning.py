"""The messages that go back unstarted for other workers, as the policy decides."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headgate.jobs.core.clock import Clock
from headgate.jobs.execution.delivery import Job
from headgate.jobs.execution.pausing import away_s
from headgate.jobs.records.pausing.pause import Pause
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.workers.dispatch.admission import Admission
from headgate.workers.dispatch.line import Line
from headgate.workers.dispatch.patience import GoesBack, Patience, Stays, Waiter
from headgate.workers.dispatch.waiting import Waiting
from headgate.workers.held import Hold
from headgate.workers.limits.guards import Block

_BEHIND, _LOST_BEHIND = Waiter(is_behind=True), Waiter(is_behind=True, is_lost=True)
"""Messages that wait for others, of which there may be thousands, all alike."""


@light_dataclass(frozen=True, slots=True)
class Return:
    """A message that has been removed from the waiting ones, to go back."""

    hold: Hold
    away_s: int
    pause: Pause | None = None
    """The pause because of which it goes back, so that no attempt may be used up; None if there is
    another reason."""


@light_dataclass(frozen=True, slots=True)
class Findings:
    """The result of a first look at messages that a limit holds back."""

    returns: list[Return]
    surplus: list[Hold]
    """Messages that are held a moment longer although enough are held for their limit."""


class Returns:
    """Tells the policy what it has to know of each message, and removes those that go back.

    Args:
        waiting: the waiting messages.
        admission: determines what holds a message back.
        patience: decides which messages go back, and for how long.
        clock: tells the time.
        is_recorded: True if records tell a job's attempts from its deliveries.
    """

    def __init__(
        self,
        waiting: Waiting,
        admission: Admission,
        patience: Patience,
        clock: Clock,
        *,
        is_recorded: Callable[[Job], bool],
    ) -> None:
        self._waiting = waiting
        self._admission = admission
        self._patience = patience
        self._clock = clock
        self._is_recorded = is_recorded
        self._is_stopping = False

    def on_arrival(self, hold: Hold) -> Return | None:
        """Return what becomes of a message just received, or None if it waits here."""
        if hold.delivery.is_scattered:
            return Return(hold, 0)
        due_in_s, pause = hold.run.due_in_s, self._admission.pause_of(hold)
        if not (due_in_s or pause or self._is_stopping):
            return None  # as nearly all: it waits for a slot, at most
        paused_s = 0.0 if pause is None else self._away_s(hold, pause)
        waiter = Waiter(is_stopping=self._is_stopping, due_in_s=due_in_s, paused_s=paused_s)
        decision = self._patience.decide(waiter)
        if not isinstance(decision, GoesBack):
            return None
        return Return(hold, decision.away_s, None if self._is_stopping else pause)

    def paused(self) -> list[Return]:
        """Remove the messages that have been paused since they came."""
        going = [
            Return(hold, decision.away_s, pause)
            for line in self._waiting.lines()
            for hold in line
            if (pause := self._admission.pause_of(hold)) is not None
            and isinstance(decision := self._patience.decide(self._paused(hold, pause)), GoesBack)
        ]
        for back in going:
            self._waiting.remove(back.hold)
        return going

    def stop(self) -> list[Return]:
        """Remove all messages, and let none wait from now on: the worker starts nothing more."""
        self._is_stopping = True
        arrived = map(self.on_arrival, self._waiting.take_all())
        return [back for back in arrived if back is not None]

    def at_once(self) -> Findings:
        """Remove messages newly found to be held back that are not worth holding."""
        findings = Findings([], [])
        for hold, block in self._waiting.news():
            line = self._waiting.line(hold.delivery.queue.name)
            waiter = self._waiter(
                hold,
                block,
                of_limit=line.held_back_by(block.limit),
                of_queue=line.held_back,
                limits=len(line.blocked),
            )
            match self._patience.decide(waiter):
                case GoesBack(away_s=away_s):
                    findings.returns.append(self._taken(hold, away_s))
                case Stays(is_surplus=True):
                    findings.surplus.append(hold)
                case Stays():
                    pass
        return findings

    def overdue(self) -> list[Return]:
        """Remove messages that have been held for their full time."""
        going = [
            (hold, decision.away_s)
            for line in self._waiting.lines()
            for hold, waiter in self._waiters(line)
            if isinstance(decision := self._patience.decide(waiter), GoesBack)
        ]
        return [self._taken(hold, away_s) for hold, away_s in going]

    def _paused(self, hold: Hold, pause: Pause) -> Waiter:
        return Waiter(paused_s=self._away_s(hold, pause))

    def _away_s(self, hold: Hold, pause: Pause) -> float:
        return away_s(hold.run, pause, self._clock.now())

    def _waiters(self, line: Line) -> Iterator[tuple[Hold, Waiter]]:
        """Yield the waiting messages of a queue; what limits hold back is asked once a limit."""
        of_queue = 0
        for holds in line.blocked.values():
            block = self._admission.block(next(iter(holds)))
            for number, hold in enumerate(holds, 1):
                of_queue += 1
                waiter = self._waiter(
                    hold, block, of_limit=number, of_queue=of_queue, limits=len(line.blocked)
                )
                yield hold, waiter
        for hold in line.ready:
            yield hold, self._waiter(hold, self._admission.block(hold))
        for hold in line.unread:
            yield hold, self._waiter(hold, None)
        for hold in line.behind:
            yield hold, _LOST_BEHIND if hold.lost else _BEHIND

    def _taken(self, hold: Hold, away_s: int) -> Return:
        self._waiting.remove(hold)
        return Return(hold, away_s)

    def _waiter(
        self,
        hold: Hold,
        block: Block | None,
        *,
        of_limit: int = 0,
        of_queue: int = 0,
        limits: int = 1,
    ) -> Waiter:
        return Waiter(
            waited_s=self._clock.monotonic() - hold.since,
            receives=hold.delivery.message.receive_count,
            attempts=self._attempts(hold.run.job),
            is_known=hold.ready,
            is_lost=hold.lost,
            block=block,
            of_limit=of_limit,
            of_queue=of_queue,
            limits=limits,
        )

    def _attempts(self, job: Job | None) -> int | None:
        """Return the number of earlier deliveries that were attempts; None if no records tell."""
        if job is None or not job.attempt.known or not self._is_recorded(job):
            return None
        return job.attempt.number - 1 - job.envelope.attempts_used
