"""One sweep of the dead letters: copies those about to be deleted, counts and reports new ones.

The steps, and the consequences of an interruption, or a failure of AWS, at any point:

    1  lease            if another sweep is under way, this one ends
    2  for each queue:  look at its messages, and copy those that SQS is about to delete
                        send those back that policies select, if an earlier sweep has counted them:
                        send, mark, delete (`jobs.dead_letters.policy_replay`)
                        release the others; interrupted before: they show again by themselves
                        remember those that are new or were copied; interrupted before: the next
                        sweep copies the same objects once more
                        log and count the new ones, once they are remembered
    3  tell people      at once of critical ones; of the rest unless they were told just now
    4  remember that    interrupted before: the next sweep tells them again

So nothing is deleted but what was sent back, people are told at least once, copies are made at
least once, and the metrics count at most once. A failure affects only its own message or queue: the
error is logged and raised at the end, after all the rest has been done.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from headgate.jobs.core.clock import SKEW_S, Clock
from headgate.jobs.core.concurrency import Threads
from headgate.jobs.core.immediate import ImmediateObjectStore, ImmediateReceiver, drive, immediate
from headgate.jobs.core.ports.object_store import ObjectStore
from headgate.jobs.core.ports.transport import Receiver
from headgate.jobs.dead_letters.copies import copy_key, save_copy
from headgate.jobs.dead_letters.letter import DeadLetter
from headgate.jobs.dead_letters.policy_replay import PolicyReplay
from headgate.jobs.dead_letters.reading import content_of, read_letter, unread
from headgate.jobs.dead_letters.walk import HeldLetter, Walk
from headgate.jobs.deployment.sweep_plan import BUDGET, HOLD, TIMEOUT, ParkingQueue, SweepPlan
from headgate.jobs.errors import TransportError
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.jobs.values.own_log import OwnLog
from headgate.lambdas.sweep.alerts import Alert, Found, critical_alert, summary
from headgate.lambdas.sweep.memory import Known, SweepMemory
from headgate.lambdas.sweep.publisher import Publisher

SAVED_BEFORE = timedelta(days=2)
"""Time before its deletion by SQS at which a message is copied: allows for a weekend without
sweeps."""

FAILED_COPIES = 2
"""Failed copies after which a sweep leaves the others to the next one: a single message may be at
fault, but while S3 is down each try takes half a minute."""

LEASE = TIMEOUT + timedelta(seconds=SKEW_S)
"""Length of a sweep's lease: even an interrupted sweep has ended by then, by all clocks."""

LIMIT = 1_000
"""Maximum number of a queue's messages that a sweep looks at."""

Kind = tuple[str, str, str]
"""The kind by which dead letters are counted: queue group, type and reason."""

_WAIT_S = 1.0
"""Seconds that a receive waits: only one that waits asks all of SQS's servers."""

_Compose = Callable[[SweepPlan, Sequence[Found], Mapping[str, int]], Alert]

_log = OwnLog("headgate.sweep")


@dataclass(slots=True, kw_only=True)
class Swept:
    """The progress of a sweep."""

    looked_at: int = 0
    new: Counter[Kind] = field(default_factory=Counter)
    saved: int = 0
    replayed: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Letters that policies have sent back, by queue group and type."""
    told: int = 0
    untold: list[_Seen] = field(default_factory=list)
    """Messages that people have not been told of."""
    unseen: dict[str, int] = field(default_factory=dict)
    """Approximate number of messages that were not looked at, by queue."""
    missed: list[str] = field(default_factory=list)
    """Queues that could not be looked through, so that nobody knows how many messages they have."""
    failed_copies: int = 0
    errors: list[Exception] = field(default_factory=list)

    @property
    def kept(self) -> int:
        """Messages that stay set aside, about as many as SQS tells; at least as many if some queues
        are `missed`."""
        return self.looked_at - self.replayed.total() + sum(self.unseen.values())

    def failed(self, what: str, error: Exception) -> None:
        """Log and keep a failure; the sweep goes on."""
        if isinstance(error, TransportError):
            _log.error("%s: %s", what, error)
        else:  # a bug of ours; its text may quote the message
            _log.error("%s: %s", what, type(error).__name__)
        self.errors.append(error)


@light_dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """A message that was looked at."""

    found: Found
    before: Known | None
    """Its state in earlier sweeps; None if it is new."""
    now: Known
    is_gone: bool = False
    """True if this sweep has sent it back and deleted it."""

    @property
    def is_to_be_told(self) -> bool:
        """True until people know of it: a summary has what is still there, and what is critical
        is told whatever has become of it."""
        return not self.now.told and (self.found.is_critical or not self.is_gone)


class Sweeper:
    """Sweeps the dead letters of an app.

    Args:
        plan: names the queues.
        queues: the queue service.
        memory: the state left by earlier sweeps.
        store: the app's bucket.
        topic: the topic for critical dead letters.
        tickets: the topic for summaries of the others.
        clock: tells the time.
        count: called with the number of new messages of each kind.
        ended: called with the whole sweep, before its first error is raised.
        sleep: pauses before a receive that failed is repeated.
        replay: the replay by policies; None if the app has none.
    """

    def __init__(
        self,
        plan: SweepPlan,
        *,
        queues: Receiver,
        memory: SweepMemory,
        store: ObjectStore,
        topic: Publisher,
        tickets: Publisher,
        clock: Clock,
        count: Callable[[Mapping[Kind, int]], None],
        ended: Callable[[Swept], None] = lambda _swept: None,
        sleep: Callable[[float], None] = time.sleep,
        replay: PolicyReplay | None = None,
    ) -> None:
        self._plan = plan
        self._queues = ImmediateReceiver(queues)
        self._memory = memory
        self._store = ImmediateObjectStore(store)
        self._topic = topic
        self._tickets = tickets
        self._clock = clock
        self._count = count
        self._ended = ended
        self._sleep = immediate(sleep)
        self._replay = replay
        self._rng = random.Random()  # noqa: S311 - spreads tries, keeps no secret

    def sweep(self) -> Swept | None:
        """Sweep once; None if another sweep is under way.

        Raises:
            Exception: the first error of any step, raised after all the others were carried out.
        """
        with self._memory.leased(LEASE) as is_ours:
            if not is_ours:
                return None
            swept = Swept()
            self._look_everywhere(swept)
            self._end_replay(swept)
            self._tell(swept)
            self._ended(swept)
        if swept.errors:
            raise swept.errors[0]
        return swept

    def _look_everywhere(self, swept: Swept) -> None:
        ends_s = self._clock.monotonic() + BUDGET.total_seconds()
        for position, queue in enumerate(self._plan.queues):
            # Time that one queue does not need is shared among the next ones.
            now_s = self._clock.monotonic()
            until_s = now_s + (ends_s - now_s) / (len(self._plan.queues) - position)
            try:
                self._look_into(queue, swept, until_s)
            except Exception as error:  # noqa: BLE001 - raised at the end; the other queues matter too
                swept.missed.append(queue.name)
                swept.failed(f"the queue {queue.name} could not be swept", error)

    def _look_into(self, queue: ParkingQueue, swept: Swept, until_s: float) -> None:
        known: Mapping[str, Known] | None = None
        seen: list[_Seen] = []

        async def visit(fresh: Sequence[HeldLetter]) -> Collection[str]:
            nonlocal known
            if known is None:
                known = self._memory.known(queue)
            looked_at = [self._seen(held, known, swept) for held in fresh]
            gone = await self._sent_back(fresh, looked_at, swept)
            for held, each in zip(fresh, looked_at, strict=True):
                is_gone = held.message.receipt in gone
                seen.append(replace(self._with_refusal(each), is_gone=is_gone))
            return gone

        try:
            look = drive(self._walk(until_s).through([queue], visit, limit=LIMIT, skip_empty=True))
        finally:
            self._settle(queue, seen, swept)
        swept.unseen.update(look.unseen)

    async def _sent_back(
        self, held: Sequence[HeldLetter], looked_at: Sequence[_Seen], swept: Swept
    ) -> Collection[str]:
        """Send back what policies select; return the receipts of those deleted."""
        if (replay := self._replay) is None:
            return ()
        chosen = [
            letter
            for letter, seen in zip(held, looked_at, strict=True)
            # What is new is counted and remembered first, and sent back by the next sweep.
            if seen.before is not None and not seen.before.left
            if replay.selects(seen.found.letter)
        ]
        if not chosen:
            return ()
        try:
            return await replay.visit(chosen)
        except Exception as error:  # noqa: BLE001 - raised at the end; the look goes on
            swept.failed("dead letters could not be sent back", error)
            return ()

    def _with_refusal(self, seen: _Seen) -> _Seen:
        """Note a letter that could not be sent back, so that no later sweep tries again."""
        refused = self._replay is not None and self._replay.is_refused(seen.found.letter.message_id)
        return replace(seen, now=replace(seen.now, left=True)) if refused else seen

    def _end_replay(self, swept: Swept) -> None:
        if self._replay is None:
            return
        swept.replayed += self._replay.sent
        try:
            report = drive(self._replay.end())
        except Exception as error:  # noqa: BLE001 - raised at the end; people are told all the same
            swept.failed("the end of a replay could not be written", error)
            return
        if report is not None:
            facts = {"replay": report.id, "sent": report.sent, "refused": report.refused}
            _log.info("dead letters sent back by policy", extra=facts)

    def _walk(self, until_s: float) -> Walk:
        return Walk(
            self._queues,
            concurrency=Threads(),
            clock=self._clock,
            sleep=self._sleep,
            rng=self._rng,
            within=timedelta(seconds=max(0.0, until_s - self._clock.monotonic())),
            hold=HOLD,
            wait_s=_WAIT_S,
            at_once=1,  # no hurry, and a small function
        )

    def _seen(self, held: HeldLetter, known: Mapping[str, Known], swept: Swept) -> _Seen:
        letter = _read(held, swept)
        before = known.get(letter.message_id)
        now = before or Known()
        left = letter.deleted_at(held.queue.retention) - self._clock.now()
        if left < SAVED_BEFORE and not now.saved and self._saved(held, letter, swept):
            now = replace(now, saved=True)
        return _Seen(
            found=Found(plan=self._plan, queue=held.queue, letter=letter), before=before, now=now
        )

    def _saved(self, held: HeldLetter, letter: DeadLetter, swept: Swept) -> bool:
        if swept.failed_copies >= FAILED_COPIES:
            return False
        try:
            drive(save_copy(self._store, letter, content_of(held.message)))
        except TransportError as error:
            swept.failed_copies += 1
            swept.failed(f"the message {letter.message_id} could not be copied", error)
            return False
        swept.saved += 1
        where = {"queue": letter.queue, "key": copy_key(letter)}
        _log.warning("dead letter copied, since SQS is about to delete it", extra=where)
        return True

    def _settle(self, queue: ParkingQueue, seen: Sequence[_Seen], swept: Swept) -> None:
        """Remember the messages, then count the new ones, and note those to be reported."""
        swept.looked_at += len(seen)
        self._memory.remember(
            queue, [(each.found.letter, each.now) for each in seen if each.now != each.before]
        )
        new = [each.found for each in seen if each.before is None]
        for found in new:
            _log.warning("dead letter", extra=_facts(found))
        counts = Counter((queue.label, found.job_type, found.reason) for found in new)
        self._count(counts)
        swept.new += counts
        swept.untold += [each for each in seen if each.is_to_be_told]

    def _tell(self, swept: Swept) -> None:
        critical = [each for each in swept.untold if each.found.is_critical]
        others = [each for each in swept.untold if not each.found.is_critical]
        try:
            if critical:
                self._publish(critical_alert, critical, swept, self._topic)
        except Exception as error:  # noqa: BLE001 - raised at the end; the others are told too
            swept.failed("people could not be told of critical dead letters", error)
        try:
            if others and self._memory.summary_is_due():
                self._publish(summary, others, swept, self._tickets)
                self._memory.summarized()
        except Exception as error:  # noqa: BLE001 - raised at the end, once the lease is given back
            swept.failed("people could not be told of dead letters", error)

    def _publish(
        self, compose: _Compose, those: Sequence[_Seen], swept: Swept, topic: Publisher
    ) -> None:
        alert = compose(self._plan, [each.found for each in those], swept.unseen)
        topic.publish(alert.subject, alert.text)
        swept.told += len(those)
        by_queue: dict[ParkingQueue, list[_Seen]] = {}
        for each in those:
            by_queue.setdefault(each.found.queue, []).append(each)
        for queue, told in by_queue.items():
            self._memory.remember(
                queue, [(each.found.letter, replace(each.now, told=True)) for each in told]
            )


def _read(held: HeldLetter, swept: Swept) -> DeadLetter:
    """Read a message; one that can't be read is counted and reported like any other."""
    queue, message = held.queue, held.message
    try:
        return read_letter(message, queue).without_content()
    except Exception as error:  # noqa: BLE001 - raised at the end; one message silences no queue
        swept.failed(f"the message {message.message_id} of {queue.name} could not be read", error)
        return unread(message, queue).without_content()


def _facts(found: Found) -> dict[str, Any]:
    """Return a dead letter's fields in the log: never its payload, nor its error's message."""
    letter = found.letter
    facts = {
        "queue": found.queue.name,
        "message_id": letter.message_id,
        "job_id": found.job_id,
        "job_type": found.job_type,
        "reason": found.reason,
        "error_type": found.error_type or None,
        "attempts": letter.attempts,
        "failed_at": letter.failed_at and letter.failed_at.isoformat(),
        "sent_at": letter.sent_at.isoformat(),
    }
    return {name: value for name, value in facts.items() if value is not None}
