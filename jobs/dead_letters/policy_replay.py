"""The replay that a sweep makes by the policies of the app's types.

It sends back letters that the sweep's own look holds, by the rounds of any other replay: the jobs
are sent first, then marked in the table, and the letters deleted after. It begins with the first
letter that a policy selects, so a sweep that has nothing to replay asks and writes nothing.

It leaves alone what is paused or has expired, and everything while somebody else's replay is under
way: that one has a pace, and perhaps a canary.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from headgate.jobs.dead_letters.filters import DeadLetterFilter
from headgate.jobs.dead_letters.letter import DeadLetter
from headgate.jobs.dead_letters.replaying.book import ReplayBook
from headgate.jobs.dead_letters.replaying.marks import Marks
from headgate.jobs.dead_letters.replaying.options import ReplayOptions
from headgate.jobs.dead_letters.replaying.progress import ReplayProgress
from headgate.jobs.dead_letters.replaying.replays import new_report, untold
from headgate.jobs.dead_letters.replaying.report import ReplayReport, ReplayState
from headgate.jobs.dead_letters.replaying.rounds import Rounds
from headgate.jobs.dead_letters.replaying.runner import pace_of, reason_of
from headgate.jobs.dead_letters.replaying.services import ReplayServices
from headgate.jobs.dead_letters.replaying.watch import Watch
from headgate.jobs.dead_letters.walk import HeldLetter
from headgate.jobs.definitions.policies import expiry_of
from headgate.jobs.deployment.replay_plan import ReplayPlan, ReplayRule
from headgate.jobs.errors import MessageError
from headgate.jobs.messages.bundles import bodies_of
from headgate.jobs.messages.envelope import parse
from headgate.jobs.records.cancellation import CANCELLATIONS
from headgate.jobs.records.pausing.pause import PREFIX, Pause, read_pauses
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.jobs.values.own_log import OwnLog

ACTOR = "sweep"
"""The actor of replays that sweeps make."""

MOST = 500
"""Maximum number of jobs that one sweep sends back."""

_log = OwnLog("headgate.sweep")


@light_dataclass(frozen=True, slots=True, kw_only=True)
class _Around:
    """The other replays and the pauses, as the sweep found them before its first letter."""

    book: ReplayBook
    report: ReplayReport
    """The replay, which has not begun."""
    marks: Marks
    """The letters that replays which have not come to their ends have sent."""
    pauses: Sequence[Pause]


@light_dataclass(frozen=True, slots=True, kw_only=True)
class _Begun:
    """A replay that has begun."""

    rounds: Rounds
    progress: ReplayProgress


class PolicyReplay:
    """The replay of one sweep.

    Args:
        plan: the policies.
        services: the surroundings; their app is the plan's outline.
        hold: the time for which the sweep's letters are hidden from others.
    """

    def __init__(self, plan: ReplayPlan, services: ReplayServices, *, hold: timedelta) -> None:
        self._rules = {rule.type: rule for rule in plan.rules}
        self._services = services
        self._hold = hold
        self._origins = {spec.name: spec for spec in services.app.topology.queues}
        self._around: _Around | None = None
        self._begun: _Begun | None = None
        self._is_over = False
        self._chosen: Counter[str] = Counter()
        """Letters that were chosen, by type."""
        self.sent: Counter[tuple[str, str]] = Counter()
        """Jobs that were sent, by queue group and type."""

    def selects(self, letter: DeadLetter) -> bool:
        """Return True if a letter's policy has it sent back by now."""
        rule = self._rules.get(letter.job_type or "")
        if rule is None or self._is_over or letter.origin not in self._origins:
            return False
        now = self._services.clock.now()
        return (
            letter.replays < rule.max_replays
            and letter.died_at + timedelta(seconds=rule.after_s) <= now
            and DeadLetterFilter(reasons=rule.reasons, errors=rule.errors).matches(letter, now=now)
        )

    async def visit(self, held: Sequence[HeldLetter]) -> Collection[str]:
        """Send back letters that policies select; return the receipts of those deleted.

        Raises:
            TransportError: AWS could not be asked, or refused; this sweep replays nothing more.
            ReplayRunning: likewise, since another process has taken the replay over.
        """
        try:
            return await self._visit(held)
        except Exception as error:
            self._is_over = True
            if self._begun is not None:
                self._begun.progress.stop(reason_of(error))
            raise

    def is_refused(self, message_id: str) -> bool:
        """Return True for a letter that could not be sent back, and is left where it is."""
        return self._begun is not None and self._begun.progress.is_refused(message_id)

    async def end(self) -> ReplayReport | None:
        """End the replay, and return its last report; None if none was begun."""
        if self._begun is None:
            return None
        if undeleted := self._begun.rounds.undeleted:  # the next one has to know their marks
            self._begun.progress.stop(f"{undeleted} letters could not be deleted")
        return await self._begun.progress.end()

    async def _visit(self, held: Sequence[HeldLetter]) -> Collection[str]:
        if self._is_over:
            return ()
        around = self._around = self._around or await self._look_around()
        if around is None:
            self._is_over = True
            return ()
        letters = [(each, self._services.read(each)) for each in held]
        known = {letter.message_id for _, letter in letters if letter.message_id in around.marks}
        meant = [
            (each, letter)
            for each, letter in letters
            if letter.message_id in known or self._takes(letter, around.pauses)
        ]
        if not meant:
            return ()
        begun = self._begun = self._begun or await self._begin(around)
        gone = await begun.rounds.visit([each for each, _ in meant])
        for _, letter in meant:
            if letter.message_id in around.marks and letter.message_id not in known:
                queue = self._origins[letter.origin or ""]
                self.sent[queue.group, letter.job_type or ""] += 1
        await begun.progress.write()
        self._is_over = begun.progress.is_ending
        return gone

    def _takes(self, letter: DeadLetter, pauses: Sequence[Pause]) -> bool:
        """Return True if there is room for a letter, which has not expired and is not paused."""
        rule = self._rules[letter.job_type or ""]
        if self._chosen[rule.type] >= rule.most or self._chosen.total() >= MOST:
            return False
        now, queue = self._services.clock.now(), self._origins[letter.origin or ""]
        is_paused = any(
            not pause.is_over(now) and pause.covers(queue, letter.job_type, letter.tenant)
            for pause in pauses
        )
        if is_paused or self._has_expired(letter, rule, now):
            return False
        self._chosen[rule.type] += 1
        return True

    def _has_expired(self, letter: DeadLetter, rule: ReplayRule, now: datetime) -> bool:
        """Return True if a job was to start by a time which has passed, or any of a bundle's.

        A person who replays it means it to run all the same.
        """
        declared = self._services.app.types[rule.type]
        try:
            bodies = bodies_of(letter.content.body if letter.content is not None else "")
            ends = [expiry_of(declared, parse(body)) for body in bodies]
        except MessageError:  # another program's, which came to its queue before it died
            ends = [_latest_expiry(letter, declared.expires)]
        return any(each is not None and each <= now for each in ends)

    async def _look_around(self) -> _Around | None:
        """Return the other replays and the pauses; None if somebody else's replay is under way."""
        services = self._services
        book, now = ReplayBook(services.table, services.clock), services.clock.now()
        others = await book.all()
        for each in others:
            if each.state is ReplayState.RUNNING:
                _log.info("the replay %s is under way: this sweep replays nothing", each.id)
                return None
        pauses, _ = read_pauses(await services.table.query(CANCELLATIONS, prefix=PREFIX))
        chosen = DeadLetterFilter(types=tuple(self._rules))
        report = new_report(now, chosen, ReplayOptions(), ACTOR)
        marks = Marks(
            services.app, services.table, report.id, sleep=services.sleep, rng=services.rng
        )
        await marks.load(others, report.started_at, services.concurrency)
        return _Around(book=book, report=report, marks=marks, pauses=pauses)

    async def _begin(self, around: _Around) -> _Begun:
        services, report = self._services, around.report
        lease = await around.book.begin(report)
        progress = ReplayProgress(report, lease, services.clock, untold)
        watch = Watch(
            services.app, services.table, clock=services.clock, concurrency=services.concurrency
        )
        pace = pace_of(services, report)
        rounds = Rounds(
            services, progress, around.marks, watch, pace, services.sleep, hold=self._hold
        )
        return _Begun(rounds=rounds, progress=progress)


def _latest_expiry(letter: DeadLetter, expires: timedelta | None) -> datetime | None:
    """Return a time by which a message of another program has expired, if it ever does."""
    return None if expires is None or letter.replays else letter.died_at + expires
