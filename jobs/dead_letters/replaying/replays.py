"""The replays of an app: started, resumed, aborted and listed."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from headgate.jobs.dead_letters.filters import DeadLetterFilter
from headgate.jobs.dead_letters.letter import DeadLetter
from headgate.jobs.dead_letters.replaying.book import ReplayBook, ReplayLease
from headgate.jobs.dead_letters.replaying.marks import Marks, left_of
from headgate.jobs.dead_letters.replaying.options import ReplayOptions, fixed_filter
from headgate.jobs.dead_letters.replaying.progress import ReplayProgress
from headgate.jobs.dead_letters.replaying.remaking import Remaker, Unfit
from headgate.jobs.dead_letters.replaying.report import (
    MAX_LISTED,
    LeftLetter,
    ReplayReport,
    ReplayState,
    left_letter,
)
from headgate.jobs.dead_letters.replaying.runner import (
    HIDDEN_S,
    INTERRUPTED,
    Replaying,
    reason_of,
)
from headgate.jobs.dead_letters.replaying.sealed_set import opened_options, sealed_options
from headgate.jobs.dead_letters.replaying.services import (
    HOLD,
    WITHIN,
    ReplayServices,
    new_walk,
    places_of,
)
from headgate.jobs.dead_letters.walk import HeldLetter, Look
from headgate.jobs.errors import ReplayRunning, SettingsInvalid, did_you_mean

Tell = Callable[[ReplayReport], None]
"""Called with the report of each step."""


def new_report(
    now: datetime, chosen: DeadLetterFilter, options: ReplayOptions, actor: str
) -> ReplayReport:
    """Return the report of a replay that begins now."""
    return ReplayReport(
        id=_new_id(now),
        state=ReplayState.RUNNING,
        actor=actor,
        started_at=now,
        updated_at=now,
        filter=fixed_filter(chosen, now),
        options=options,
    )


def untold(_report: ReplayReport) -> None:
    """Tell nobody."""


def never() -> bool:
    """Let a replay go on to its end."""
    return False


class Replays:
    """Starts, resumes, aborts and lists an app's replays.

    Args:
        services: the surroundings.
    """

    def __init__(self, services: ReplayServices) -> None:
        self._services = services
        self._book = ReplayBook(services.table, services.clock)

    async def start(
        self,
        chosen: DeadLetterFilter,
        options: ReplayOptions,
        *,
        actor: str,
        tell: Tell = untold,
        is_stopping: Callable[[], bool] = never,
    ) -> ReplayReport:
        """Carry out a new replay, and return its last report.

        Args:
            chosen: selects the letters.
            options: those of the replay.
            actor: who replays.
            tell: called with the report of each step.
            is_stopping: returns True once the replay is to stop.

        Raises:
            SettingsInvalid: the filter is too large to be kept, or the app has no type ``as_type``.
            TransportError: AWS could not be asked; once it has begun, the replay has stopped then.
        """
        self._check(options)
        report = await self._sealed(self._new(chosen, options, actor))
        lease = await self._book.begin(report)
        tell(report)
        return await self._carried_out(report, lease, tell, is_stopping)

    async def resume(
        self,
        replay_id: str,
        *,
        tell: Tell = untold,
        is_stopping: Callable[[], bool] = never,
    ) -> ReplayReport:
        """Carry out the rest of a replay that has stopped, and return its last report; see `start`.

        Raises:
            ReplayMissing: there is none with that id.
            ReplayRunning: another process carries it out.
            ReplayOver: it is done, or was aborted.
            SettingsInvalid: this version of the app has no type ``as_type``.
            PayloadUnopenable: the fields that it sets are sealed with a key that is not known.
            TransportError: AWS could not be asked; the replay has stopped.
        """
        standing = await self._book.get(replay_id)
        self._check(standing.options)
        wanted = await opened_options(self._services.seals, standing.id, standing.options)
        report, lease = await self._book.take_over(replay_id)
        report = replace(report, options=wanted)
        tell(report)
        return await self._carried_out(report, lease, tell, is_stopping)

    async def _carried_out(
        self,
        report: ReplayReport,
        lease: ReplayLease,
        tell: Tell,
        is_stopping: Callable[[], bool],
    ) -> ReplayReport:
        services = self._services
        marks = await self._marks(report)
        report = replace(report, sent=marks.own, refused=0)
        if report.options.spread is not None and report.total is None:
            progress = ReplayProgress(report, lease, services.clock, tell)
            report = await self._counted(progress, is_stopping)
            if report.state is not ReplayState.RUNNING:
                return report
        return await Replaying(services, report, lease, marks, tell, is_stopping).run()

    async def _counted(
        self, progress: ReplayProgress, is_stopping: Callable[[], bool]
    ) -> ReplayReport:
        """Count what is to be spread; return the replay's report with it, or the last one.

        It has been entered, so that it can be seen, aborted and resumed meanwhile. Letters that
        others hold are waited for: of too few, all would come at once.
        """
        services, report = self._services, progress.report
        shown_s = services.clock.monotonic() + HOLD.total_seconds()

        async def step() -> None:
            if is_stopping():
                progress.stop(INTERRUPTED)
            await progress.write()

        try:
            counted, unseen = await self._count(report, step, progress)
            while unseen and not progress.is_ending and services.clock.monotonic() < shown_s:
                await services.sleep(HIDDEN_S)
                await step()
                counted, unseen = await self._count(report, step, progress)
        except ReplayRunning:
            raise
        except BaseException as error:
            progress.stop(reason_of(error))
            await progress.end()
            raise
        if progress.is_ending:
            return await progress.end()
        return replace(progress.report, total=report.sent + counted + unseen)

    async def _count(
        self,
        report: ReplayReport,
        step: Callable[[], Awaitable[None]],
        progress: ReplayProgress,
    ) -> tuple[int, int]:
        """Return the number of letters to send, and about that of those that were not seen."""
        walk = new_walk(self._services)
        rehearsal = _Rehearsal(self._services, report, walk.stop)

        async def visit(round_: Sequence[HeldLetter]) -> Collection[str]:
            await rehearsal.visit(round_)
            await step()
            if progress.is_ending:
                walk.stop()
            return ()

        look = await walk.through(places_of(self._services, report.filter), visit)
        return rehearsal.sent, 0 if rehearsal.is_full else sum(look.unseen.values())

    async def abort(self, replay_id: str, *, by: str) -> ReplayReport:
        """End a replay for good; see `jobs.dead_letters.replaying.book.ReplayBook.abort`."""
        return await self._book.abort(replay_id, by)

    async def get(self, replay_id: str) -> ReplayReport:
        """Return a replay, with the letters that it has refused.

        Raises:
            ReplayMissing: there is none with that id.
            TransportError: the table could not be asked.
        """
        report = await self._book.get(replay_id)
        return replace(report, left=await left_of(self._services.table, replay_id))

    async def all(self) -> list[ReplayReport]:
        """Return the replays of the last 30 days, the newest first.

        Raises:
            TransportError: the table could not be asked.
        """
        return await self._book.all()

    async def rehearse(
        self, chosen: DeadLetterFilter, options: ReplayOptions, *, within: timedelta = WITHIN
    ) -> ReplayReport:
        """Return the report of a replay that would be made now; nothing is sent.

        Args:
            chosen: selects the letters.
            options: those of the replay, whose limit ends the look, too.
            within: the longest time to look.

        Raises:
            SettingsInvalid: the app has no type ``as_type``.
            TransportError: AWS could not be asked.
        """
        self._check(options)
        report = self._new(chosen, options, "")
        walk = new_walk(self._services, within=within)
        rehearsal = _Rehearsal(self._services, report, walk.stop)
        look = await walk.through(places_of(self._services, chosen), rehearsal.visit)
        return rehearsal.report(look)

    def _check(self, options: ReplayOptions) -> None:
        known = self._services.app.types
        if (name := options.as_type) is not None and name not in known:
            raise SettingsInvalid(
                f"a replay: the app has no type {name!r} to run them as: "
                f"{did_you_mean(name, known)}"
            )

    def _new(self, chosen: DeadLetterFilter, options: ReplayOptions, actor: str) -> ReplayReport:
        return new_report(self._services.clock.now(), chosen, options, actor)

    async def _sealed(self, report: ReplayReport) -> ReplayReport:
        options = await sealed_options(self._services.seals, report.id, report.options)
        return replace(report, options=options)

    async def _marks(self, report: ReplayReport) -> Marks:
        services = self._services
        marks = Marks(
            services.app,
            services.table,
            report.id,
            as_type=report.options.as_type,
            sleep=services.sleep,
            rng=services.rng,
        )
        read_at = services.clock.now()
        await marks.load(await self._book.all(), read_at, services.concurrency)
        return marks


class _Rehearsal:
    """Counts what a replay would send, by queue, and ends the look once that is its limit."""

    def __init__(
        self, services: ReplayServices, report: ReplayReport, end: Callable[[], None]
    ) -> None:
        self._services = services
        self._report = report
        self._end = end
        self._remaker = Remaker(services, report.id, report.options)
        self._by_queue = Counter[str]()
        self._left: list[LeftLetter] = []
        self._refused = 0

    async def visit(self, round_: Sequence[HeldLetter]) -> Collection[str]:
        """Count the letters of a round; none is kept."""
        for held in round_:
            if self.is_full:
                self._end()
                break
            letter = self._services.read(held)
            if self._report.filter.matches(letter, now=self._services.clock.now()):
                await self._count(letter)
        return ()

    @property
    def sent(self) -> int:
        """Number of jobs that would be sent."""
        return self._by_queue.total()

    @property
    def is_full(self) -> bool:
        """True once that is the replay's limit."""
        limit = self._report.options.limit
        return limit is not None and self.sent >= limit

    def report(self, look: Look) -> ReplayReport:
        """Return the counts."""
        unseen = 0 if self.is_full else sum(look.unseen.values())
        return replace(
            self._report,
            id="",
            state=ReplayState.DONE,
            reason=f"letters that were not seen: about {unseen:,}" if unseen else "",
            sent=self.sent,
            refused=self._refused,
            by_queue=dict(self._by_queue),
            left=tuple(self._left),
        )

    async def _count(self, letter: DeadLetter) -> None:
        try:
            remade = await self._remaker.remade(letter, self._services.clock.now())
        except Unfit as error:
            self._refused += 1
            if len(self._left) < MAX_LISTED:
                self._left.append(left_letter(letter, str(error)))
        else:
            self._by_queue[remade.queue.name] += 1


def _new_id(now: datetime) -> str:
    """Return a replay's id, which sorts by its time and can be typed."""
    return f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
