"""The demand for messages of each queue, from slots, shares, limits and receives under way.

What waits for a slot in other queues doesn't bound a queue's demand: one bundle can bring more jobs
than may be held, none of which could take a slot that is reserved for critical jobs, or owed to
others by their share.
"""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from collections.abc import Callable
from functools import partial

from headgate.jobs.core.clock import Clock
from headgate.jobs.core.topology import MAX_BATCH, Priority, QueueSpec
from headgate.workers.dispatch.line import Line
from headgate.workers.dispatch.shares import Peers, Shares, peers_of
from headgate.workers.dispatch.waiting import Waiting
from headgate.workers.held import Holdings
from headgate.workers.receiving.expectation import Expectation
from headgate.workers.receiving.guesses import Guesses
from headgate.workers.receiving.latency import Latency
from headgate.workers.receiving.pace import Pace
from headgate.workers.receiving.turnover import TURNOVER_S, Turnover

_CRITICAL = Priority.CRITICAL
"""As a name of its own: each start looks at it several times, and an enum's members are slow."""

_IMMINENT_LATENCIES, _LEAST_IMMINENT_S = 3, 0.005
"""Bounds on the time for which slots are kept free for the messages of a receive: a number of usual
latencies, and at least this many seconds."""

_LATENCIES = 5
_LEAST_ON_ITS_WAY_S, _LEAST_OF_FIRST_S = 0.05, 0.1
"""Bounds on the time after which a receive is taken to wait at an empty queue: a number of usual
latencies, and at least this many seconds; for the first receives, which open connections, more."""

_MEANWHILE_LATENCIES, _LEAST_MEANWHILE_S = 2.5, 0.02
"""Bounds on the time in which slots come free for the messages of a receive that begins now. Usual
latencies: its own, that of the next one, and half of another, since jobs that were received
together end together. And the least, for which the event loop may be busy with the jobs of all
slots."""

_DRAINED_IN_S = 0.1
"""Time in which messages would be started that are held beyond those that need slots now."""


class Demand:
    """The number of messages that could start soon.

    For each queue these are the free slots, plus those that will come free during a receive, minus
    the messages that wait already or are expected from other receives; or the part of them that the
    queue and its peers are owed by their guaranteed share, whatever waits elsewhere. Never more
    than its limits let start. Messages that can't start, whatever slots are free, are not counted.

    Args:
        concurrency: the total number of slots.
        reserved: the number of slots that only critical jobs may take.
        waiting: the messages that have been received and not started.
        holdings: all messages that this worker holds.
        shares: determines which queues are owed a start.
        clock: tells the time.
        acceptable: returns how many more messages of a queue could start, given enough slots.
        on_change: called when there may be more room than before.
    """

    def __init__(
        self,
        concurrency: int,
        reserved: int,
        waiting: Waiting,
        holdings: Holdings,
        shares: Shares,
        clock: Clock,
        *,
        acceptable: Callable[[Line], float],
        on_change: Callable[[], None],
    ) -> None:
        self._shares = shares
        self._acceptable = acceptable
        self._waiting = waiting
        self._holdings = holdings
        self._clock = clock
        self._on_change = on_change
        self._concurrency = concurrency
        self._most = 2 * concurrency + MAX_BATCH
        """Maximum number of messages held, of those that `_left` counts."""
        self.reserved = reserved
        self._turnover = Turnover(clock.monotonic())
        self._settlements = Turnover(clock.monotonic())
        self.busy = self._sharing = 0
        """Numbers of slots in use, and of jobs that run in the slot of another one."""
        self._critical = 0
        """Number of slots in use by critical jobs."""
        self._coming = [0 for _ in Priority]
        """By rank, the number of messages expected from receives under way."""
        self._imminent = [0 for _ in Priority]
        """By rank, those of them that are worth keeping slots free for: they will arrive at once,
        from a queue that has just returned a full batch."""
        self._coming_of: defaultdict[str, int] = defaultdict(int)
        """By queue, the number of messages expected from receives under way."""
        self._coming_of_peers: defaultdict[Peers, int] = defaultdict(int)
        """The same, of all queues of one priority with equal shares."""
        self._examples = {line.peers: line.queue.name for line in waiting.lines()}
        """Of the queues of one priority with equal shares, one."""
        self._guesses = Guesses()
        self._paces: dict[str, Pace] = {}
        self._latency = Latency()
        self.answered = False
        """True once SQS has answered a receive, so that there are credentials and a region."""

    def started(self, queue: QueueSpec, jobs: int = 1) -> None:
        """Note that a job of a queue has taken a slot, or that several have taken one together."""
        self.busy += 1
        self._sharing += jobs - 1
        self._critical += queue.priority is _CRITICAL
        self._shares.started(queue.name)

    def finished(self, queue: QueueSpec, jobs: int = 1) -> None:
        """Note that a job of a queue, or the last of several, has freed its slot."""
        self.busy -= 1
        self._sharing -= jobs - 1
        self._critical -= queue.priority is _CRITICAL
        self._shares.finished(queue.name)
        self._turnover.add(self._clock.monotonic())

    def settled(self) -> None:
        """Note that SQS has carried out what became of a job."""
        self._settlements.add(self._clock.monotonic())

    def changed(self) -> None:
        """Note that there may be more room than before."""
        self._on_change()

    def brought(self, count: int, queue: QueueSpec, *, first: bool = False) -> None:
        """Note that a receive, perhaps the ``first``, has returned ``count`` messages."""
        if count:
            self._guesses.brought(peers_of(queue))
        elif first:
            self._guesses.silent(peers_of(queue))
        if (pace := self._paces.get(queue.name)) is None:
            pace = self._paces[queue.name] = Pace(queue.priority)
        pace.brought(count)

    def in_vain(self, count: int, queue: QueueSpec) -> None:
        """Note that ``count`` of them can't start for a while, and exceed what is worth holding."""
        pace = self._paces.get(queue.name)
        if pace is not None and (pause_s := pace.in_vain(count, self._clock.monotonic())):
            asyncio.get_running_loop().call_later(pause_s, self._on_change)

    def is_in_vain(self, queue: QueueSpec) -> bool:
        """Return True if the last receive from a queue was entirely in vain."""
        return (pace := self._paces.get(queue.name)) is not None and pace.is_in_vain

    def took(self, began: float, ended: float) -> None:
        """Note that a receive from a queue with a backlog began and ended at those moments."""
        self._latency.add(began, ended)

    def guess(self, queue: QueueSpec) -> int:
        """Return the most to expect of a receive, from what its queue's peers have brought."""
        return self._guesses.of(peers_of(queue))

    def is_plentiful(self, queue: QueueSpec) -> bool:
        """Return True unless the last receives from a queue's peers brought less than expected."""
        return self._guesses.is_full(peers_of(queue))

    def expect(
        self, count: int, queue: QueueSpec, *, surely: bool = False, first: bool = False
    ) -> Expectation:
        """Count the messages expected from a receive.

        A receive that takes much longer than usual waits at an empty queue, and must not keep
        others from receiving: its messages are no longer expected then, and its queue's share goes
        to others.

        Args:
            count: the number of messages.
            queue: the queue.
            surely: True if the queue has a backlog.
            first: True for the first receive from the queue, which waits for no messages: if it
                takes long, that says nothing about the queue.
        """
        least_s = _LEAST_OF_FIRST_S if first else _LEAST_ON_ITS_WAY_S
        patience_s = max(least_s, _LATENCIES * self._latency.seconds)
        imminent_s = max(_LEAST_IMMINENT_S, _IMMINENT_LATENCIES * self._latency.seconds)
        return Expectation(
            partial(self._expect, queue),
            count,
            patience_s,
            partial(self._expect_at_once, queue),
            imminent_s if surely else 0.0,
            on_free=self._on_change,
            on_late=partial(self._late, queue, is_silent=count > 0 and not first),
        )

    def free(self, priority: Priority) -> int:
        """Return the number of slots free for a priority; some are only for critical jobs."""
        free = self._concurrency - self.busy
        if not self.reserved or priority is _CRITICAL:
            return free
        return min(free, self._concurrency - self.reserved - (self.busy - self._critical))

    def has_slot(self, queue: QueueSpec) -> bool:
        """Return True if a job of a queue would find a free slot."""
        return self.free(queue.priority) > 0

    def has_turn(self, queue: QueueSpec) -> bool:
        """Return True if it would even after the jobs that higher priorities are about to receive.

        Otherwise buffered messages of lower priorities would take each slot that comes free before
        a receive can return.
        """
        return self.free(queue.priority) > sum(self._imminent[: queue.priority.rank])

    @property
    def is_calm(self) -> bool:
        """True while no message waits here, and two more batches may be held."""
        return not len(self._waiting) and self._left(0) >= 2 * MAX_BATCH

    @property
    def is_open(self) -> bool:
        """True while more messages may be held at all, of queues of which none wait."""
        return self._left(0) >= 1

    def has_room(self, priority: Priority) -> bool:
        """Return True if messages of a priority could start soon, by their priority alone."""
        return self._by_priority(priority, self._soon(priority, self._meanwhile_s)) >= 1

    def is_owed(self, queue: QueueSpec) -> bool:
        """Return True if a further message of a queue could start soon by its peers' share."""
        return self._by_share(queue, self._soon(queue.priority, self._meanwhile_s)) >= 1

    def owes_alike(self, queue: QueueSpec) -> bool:
        """Return True if a queue is owed as much as each of its peers."""
        return self._shares.has_slots(queue.name) or not self._shares.of(queue.name)

    def room(self, queue: QueueSpec) -> float:
        """Return the number of further messages of a queue that could start soon."""
        return self._startable(queue, within_s=self._meanwhile_s)

    def limit(
        self, queue: QueueSpec, *, has_more: bool, first: bool = False, jobs: float = 1.0
    ) -> int:
        """Return the number to ask SQS for: messages that could start within about 1 s, 1 to 10.

        With few free slots and long jobs a full batch would only be hidden here and then given
        back. So would one from each of many queues, all of which are polled while idle: unless its
        last batch was full, a queue is asked for its part of what may be held, at first the guess.

        Args:
            queue: the queue to receive from.
            has_more: True if its last batch was full.
            first: True for the first receive from the queue.
            jobs: the number of jobs to expect in a message.
        """
        part = min(MAX_BATCH, self._most // self._waiting.queues)
        most = max(part, self.guess(queue)) if first else MAX_BATCH if has_more else part
        return max(1, min(most, math.ceil(self._startable(queue, within_s=TURNOVER_S) / jobs)))

    def _startable(self, queue: QueueSpec, *, within_s: float) -> float:
        name = queue.name
        pace = self._paces.get(name)
        if pace and pace.is_in_vain and pace.is_pausing(self._clock.monotonic()):
            return 0
        soon = self._soon(queue.priority, within_s)
        startable = max(self._by_priority(queue.priority, soon), self._by_share(queue, soon))
        if startable < 1:
            return startable
        line = self._waiting.line(name)
        left = self._left(self._waiting.startable_of(line.peers))
        startable = min(startable * line.jobs_a_slot, left, self._most - self._holdings.aside(name))
        if startable < 1:
            return startable  # its limits are not asked in vain
        return min(startable, self._acceptable(line) - self._coming_of[name])

    @property
    def _meanwhile_s(self) -> float:
        """The time in which slots come free for the messages of a receive that begins now."""
        return max(_LEAST_MEANWHILE_S, _MEANWHILE_LATENCIES * self._latency.seconds)

    def _left(self, waiting: int) -> float:
        """Return the number of messages of peers, of which ``waiting`` wait, that may yet be held.

        It grows with the jobs that are settled, not with those that end: while SQS takes no
        deletes, what has ended is still held. None, unless there is a batch's worth: many queues
        would be asked for a message each, where one soon is asked for ten.
        """
        engaged = self._holdings.engaged - len(self._waiting) + waiting - self._sharing
        drained = self._settlements.within(_DRAINED_IN_S, self._clock.monotonic())
        return left if (left := self._most + drained - engaged) >= MAX_BATCH else 0.0

    def _soon(self, priority: Priority, within_s: float) -> float:
        """Return the number of slots that a priority could take within that time."""
        return self.free(priority) + self.ending(within_s)

    def _by_priority(self, priority: Priority, soon: float) -> float:
        """Return the number of those slots left to new messages of a priority.

        Messages expected of lower priorities would start later, so they take no room here. What
        these are owed by their shares does, beyond the first receive: where receives and not slots
        are scarce, shares of the starts are shares of what is received.
        """
        rank = priority.rank
        left = soon - self._waiting.up_to(rank) - sum(self._coming[: rank + 1])
        if not self._coming[rank] and not self._waiting.of_rank(rank):
            return left
        return left - sum(
            self._shares.turns(name, soon)
            for peers, name in self._examples.items()
            if peers[0] > rank
            and (self._waiting.startable_of(peers) or self._coming_of_peers[peers])
        )

    def _by_share(self, queue: QueueSpec, soon: float) -> float:
        """Return the number of those slots owed to new messages of a queue and its peers.

        If the peers hold their share of the slots, no more than is owed to the queue alone.
        """
        name, peers = queue.name, peers_of(queue)
        of_peers = self._waiting.startable_of(peers) + self._coming_of_peers[peers]
        if self._shares.has_slots(name):
            return self._shares.turns(name, soon) - of_peers
        alone = self._waiting.startable(name) + self._coming_of[name]
        earned = self._shares.earned(name, soon)
        return min(earned - of_peers, self._shares.turns(name, soon) - alone)

    def may_have_work(self, queue: QueueSpec) -> None:
        """Note that a receive has returned, so that the queue is no longer known to be empty."""
        self._shares.may_have_work(queue.name)

    def _expect(self, queue: QueueSpec, change: int) -> None:
        self._coming[queue.priority.rank] += change
        self._coming_of[queue.name] += change
        self._coming_of_peers[peers_of(queue)] += change

    def _expect_at_once(self, queue: QueueSpec, change: int) -> None:
        self._imminent[queue.priority.rank] += change

    def _late(self, queue: QueueSpec, *, is_silent: bool) -> None:
        if is_silent:
            self._guesses.silent(peers_of(queue))
        self._shares.is_dry(queue.name)
        self._on_change()

    def ending(self, within_s: float) -> float:
        """Return the number of jobs that will end within that time."""
        return self._turnover.within(within_s, self._clock.monotonic())
