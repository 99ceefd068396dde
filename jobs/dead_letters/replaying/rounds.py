"""The rounds of a replay: the letters of each are remade, sent, marked and deleted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime, timedelta
from functools import partial
from math import ceil

from headgate.jobs.dead_letters.letter import DeadLetter
from headgate.jobs.dead_letters.replaying.marks import Marks, digest_of
from headgate.jobs.dead_letters.replaying.pace import ReplayPace
from headgate.jobs.dead_letters.replaying.progress import ReplayProgress
from headgate.jobs.dead_letters.replaying.remaking import Remade, Remaker, Unfit, delayed_by
from headgate.jobs.dead_letters.replaying.report import LeftLetter, left_letter
from headgate.jobs.dead_letters.replaying.sending import Dispatcher
from headgate.jobs.dead_letters.replaying.services import HOLD, ReplayServices
from headgate.jobs.dead_letters.replaying.watch import Watch
from headgate.jobs.dead_letters.walk import HeldLetter

_MARGIN_S = 30.0
"""Seconds before the end of a hold from which on nothing is sent any more."""


class Rounds:
    """Replays the letters that a pass shows, round by round.

    Args:
        services: the surroundings.
        progress: the progress of the replay.
        marks: the letters that are sent already.
        watch: watches what becomes of the jobs.
        pace: says when each is due.
        wait: pauses for so many seconds.
        hold: the time for which the letters of a round are hidden from others.
    """

    def __init__(
        self,
        services: ReplayServices,
        progress: ReplayProgress,
        marks: Marks,
        watch: Watch,
        pace: ReplayPace,
        wait: Callable[[float], Awaitable[None]],
        *,
        hold: timedelta = HOLD,
    ) -> None:
        report = progress.report
        self._services = services
        self._clock = services.clock
        self._progress = progress
        self._marks = marks
        self._watch = watch
        self._pace = pace
        self._wait = wait
        self._hold = hold
        # Of a canary all deaths count, whichever process has sent it.
        self._began_at = report.started_at if report.awaits_canary else services.clock.now()
        self._remaker = Remaker(services, report.id, report.options)
        self._dispatcher = Dispatcher(
            services.transport,
            concurrency=services.concurrency,
            sleep=services.sleep,
            rng=services.rng,
        )
        self.begin(None)

    def begin(self, room: int | None) -> None:
        """Begin a pass, in which up to ``room`` letters are sent; None is no limit."""
        self._room = room
        self.acted = self.undeleted = self.unsent = 0
        """Letters that the pass has sent, deleted or come to refuse, since SQS does; and those that
        it could not delete, and not send for now."""
        self.was_late = False
        """True if the pass has held letters for too long to send them."""

    @property
    def is_full(self) -> bool:
        """True once the pass has sent all that it may."""
        return self._room == 0 and self.acted > 0

    @property
    def said(self) -> str:
        """The requests of the pass that SQS did not carry out, in words; empty if none."""
        told = []
        if self.undeleted:
            told.append(f"{self.undeleted} letters are sent, and can't be deleted")
        if self.unsent:
            told.append(f"SQS has not taken the jobs of {self.unsent} letters")
        return "; ".join(told)

    async def visit(self, round_: Sequence[HeldLetter]) -> Collection[str]:
        """Replay the letters of a round that are to be; return the receipts of those deleted."""
        until_s = self._clock.monotonic() + self._hold.total_seconds() - _MARGIN_S
        held = {each.message.message_id: each for each in round_}
        letters = [self._services.read(each) for each in round_]
        await self._learn(letters)
        sent = await self._sent(await self._remade(letters), until_s)
        done = [held[each.message_id] for each in letters if self._is_sent(each)]
        deleted = await self._dispatcher.delete(done)
        self.acted += len(sent) + len(deleted)
        self.undeleted += len(done) - len(deleted)
        return deleted

    async def _learn(self, letters: Sequence[DeadLetter]) -> None:
        """Find out which letters that are to be sent another replay has sent meanwhile."""
        if self._room != 0:
            now = self._clock.now()
            await self._marks.learn([each for each in letters if self._is_meant(each, now)])

    async def _remade(self, letters: Sequence[DeadLetter]) -> list[Remade]:
        """Return what to send for the letters of a round, as far as there is room."""
        now = self._clock.now()
        remade: list[Remade] = []
        refused: list[LeftLetter] = []
        chosen: set[str] = set()
        for letter in letters:
            if not self._is_meant(letter, now) or len(remade) == self._room:
                continue
            if (digest := digest_of(letter)) in chosen:
                continue  # of the same job: deleted once that is sent
            try:
                remade.append(await self._remaker.remade(letter, now))
                chosen.add(digest)
            except Unfit as error:
                refused.append(left_letter(letter, str(error)))
        await self._refuse(refused)
        return remade

    def _is_sent(self, letter: DeadLetter) -> bool:
        """Return True if a letter's job has been sent; what died later is no other letter of it."""
        return letter.message_id in self._marks or (
            letter.died_at < self._progress.report.started_at
            and self._marks.has_sent_for_another(letter)
        )

    def _is_meant(self, letter: DeadLetter, now: datetime) -> bool:
        if self._is_sent(letter) or self._progress.is_refused(letter.message_id):
            return False
        if self._remaker.is_own(letter):
            is_new = letter.died_at >= self._began_at
            self._watch.returned(letter.message_id, letter.job_id, is_new=is_new)
            return False
        return self._progress.report.filter.matches(letter, now=now)

    async def _sent(self, remade: Sequence[Remade], until_s: float) -> list[Remade]:
        """Send messages in their time, mark them, and return those that SQS has."""
        if not remade:
            return []
        timed = await self._timed(remade)
        await self._progress.hold()
        if self._clock.monotonic() >= until_s:
            self.was_late = True
            return []  # somebody else may have them by now
        at = self._clock.now()
        outcomes = await self._dispatcher.send(timed, partial(self._mark, at))
        sent = [each for each, failure in outcomes if failure is None]
        refused = [
            left_letter(each.letter, f"SQS refuses it: {failure.code}: {failure.message}")
            for each, failure in outcomes
            if failure is not None and failure.sender_fault
        ]
        await self._refuse(refused)
        self.acted += len(refused)  # what waits behind one in its FIFO group is sent next
        self.unsent += len(remade) - len(sent) - len(refused)
        self._count(sent, at)
        return sent

    async def _timed(self, remade: Sequence[Remade]) -> list[Remade]:
        """Return messages with their delays; wait for those of FIFO queues, which take none."""
        timed, longest_s = list[Remade](), 0.0
        for each in remade:
            delay_s = self._pace.delay_s(self._clock.monotonic())
            if each.queue.fifo:
                longest_s = max(longest_s, delay_s)
                timed.append(each)
            else:
                timed.append(delayed_by(each, ceil(delay_s)))
        await self._wait(longest_s)
        return timed

    async def _mark(self, at: datetime, sent: Sequence[Remade]) -> None:
        await self._marks.sent([each.letter for each in sent], at)

    def _count(self, sent: Sequence[Remade], at: datetime) -> None:
        self._progress.count(sent)
        if self._room is not None:
            self._room -= len(sent)
        report = self._progress.report
        for each in sent:
            job_type = each.job_type or each.letter.job_type
            self._watch.sent(each.letter.job_id, job_type, at, always=report.awaits_canary)

    async def _refuse(self, left: Sequence[LeftLetter]) -> None:
        if left:
            await self._marks.refused(self._progress.refuse(left), self._clock.now())
