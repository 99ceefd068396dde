"""Carrying out a replay: passes through the dead-letter queues until nothing is left to send.

    look      letters that the filter selects, by the round; hidden from others meanwhile
    remake    checked; one that can't become what was asked for stays where it is
    send      to the queue it came from
    mark      in the table, so that it is never sent again
    delete    from the dead-letter queue
    write     the progress, which renews the lease and finds out whether somebody has aborted it

Killed at any point, the replay goes on from there once its lease is over: what was not marked is
sent, what was marked is deleted. The letters that it held show again by themselves within `HOLD`.

A pass that finds nothing to send proves that nothing is left only if it saw as many letters as SQS
counts, hidden ones included. If it saw fewer, somebody else holds them: a sweep, a listing, an
export, a purge, another replay or this one's killed process. All of these but the longest searches
give letters back within `HOLD`, for which the replay waits; then it stops, and can be resumed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from headgate.jobs.dead_letters.replaying.book import ReplayLease
from headgate.jobs.dead_letters.replaying.marks import Marks
from headgate.jobs.dead_letters.replaying.pace import AHEAD_S, MAX_AHEAD_S, ReplayPace
from headgate.jobs.dead_letters.replaying.progress import ReplayProgress
from headgate.jobs.dead_letters.replaying.report import ReplayReport
from headgate.jobs.dead_letters.replaying.rounds import Rounds
from headgate.jobs.dead_letters.replaying.services import (
    HOLD,
    ReplayServices,
    new_walk,
    passed_through,
    places_of,
)
from headgate.jobs.dead_letters.replaying.watch import LEAST, LOOK_S, Watch
from headgate.jobs.dead_letters.walk import AT_ONCE, HeldLetter, Look, Walk
from headgate.jobs.errors import ReplayRunning, TransportError
from headgate.jobs.values.texts import text_of

STEP_S = 1.0
"""Seconds after which a pause looks for reasons to end."""

HIDDEN_S = 5.0
"""Seconds between passes while letters are hidden from this process, or not taken by SQS."""

INTERRUPTED = "interrupted"
"""The reason of a replay whose process was told to end."""

_INSTANT_S = 0.001
"""Seconds that are not waited for: a clock may not even notice them."""

_FEW, _FEW_AT_ONCE = 40, 4
"""Letters up to which a pass makes so many receives at once."""

_FRUITLESS = 5
"""Passes in a row in which SQS carried out nothing, after which a replay stops."""


class _Halt(Exception):
    """The replay ends before everything is sent."""


class Replaying:
    """One process's part in a replay.

    Args:
        services: the surroundings.
        report: the replay, as it stands.
        lease: the lease of it.
        marks: the letters that it has sent, loaded.
        tell: called with each step's report.
        is_stopping: returns True once it is to stop.
    """

    def __init__(
        self,
        services: ReplayServices,
        report: ReplayReport,
        lease: ReplayLease,
        marks: Marks,
        tell: Callable[[ReplayReport], None],
        is_stopping: Callable[[], bool],
    ) -> None:
        self._services = services
        self._is_stopping = is_stopping
        self._clock = services.clock
        self._options = report.options
        self._places = passed_through(services, report.filter, report.options)
        self._progress = ReplayProgress(report, lease, services.clock, tell)
        self._watch = Watch(
            services.app, services.table, clock=services.clock, concurrency=services.concurrency
        )
        self._pace = pace_of(services, report)
        self._rounds = Rounds(services, self._progress, marks, self._watch, self._pace, self._wait)
        if report.awaits_canary:  # what an earlier process has sent of it is judged with the rest
            for each in marks.canary:
                self._watch.sent(each.job_id, each.job_type, each.sent_at, always=True)

    async def run(self) -> ReplayReport:
        """Carry the replay out to its end; return its last report.

        Raises:
            TransportError: AWS could not be asked; the replay has stopped, and can be resumed.
            ReplayRunning: another process has taken over.
        """
        try:
            await self._send_all()
        except _Halt:
            pass
        except ReplayRunning:
            raise
        except BaseException as error:
            self._progress.stop(reason_of(error))
            await self._progress.end()
            raise
        return await self._progress.end()

    # --- the passes -------------------------------------------------------------------------------

    async def _send_all(self) -> None:
        if self._progress.report.awaits_canary:
            await self._send_until(self._options.canary)
            await self._judge_canary()
        await self._send_until(None)

    def _left_to(self, most: int | None) -> int | None:
        """Return the number of letters to send until ``most`` are sent; None for no limit."""
        bounds = [each for each in (most, self._options.limit) if each is not None]
        return max(0, min(bounds) - self._progress.report.sent) if bounds else None

    async def _send_until(self, most: int | None) -> None:
        """Make passes until ``most`` letters are sent, or nothing is left to send."""
        fruitless, shown_s = 0, None
        # What could not be deleted is, at its limit too: once it is done, nobody knows its marks.
        while (left := self._left_to(most)) != 0 or self._rounds.undeleted:
            await self._wait(self._pace.wait_s(self._clock.monotonic()))
            began_s = self._clock.monotonic()
            look = await self._pass(self._pace.room(began_s, left))
            if self._rounds.acted or self._rounds.was_late:
                fruitless, shown_s = 0, None
                continue
            if said := self._rounds.said:
                if (fruitless := fruitless + 1) == _FRUITLESS:
                    self._progress.stop(said)
            elif not (unseen := self._unseen(look)):
                return
            elif shown_s is None:
                shown_s = self._clock.monotonic() + HOLD.total_seconds()
            elif began_s >= shown_s:
                self._progress.stop(_said_of(unseen))
            await self._wait(HIDDEN_S)

    def _unseen(self, look: Look) -> Mapping[str, int]:
        """Return the numbers of letters that a pass did not see, of queues that may hold any to
        send: what else is hidden concerns this replay no more than what it doesn't select."""
        places = {each.name for each in places_of(self._services, self._progress.report.filter)}
        return {name: count for name, count in look.unseen.items() if name in places}

    async def _pass(self, room: int | None) -> Look:
        """Look through the queues once, and send up to ``room`` letters."""
        self._rounds.begin(room)
        at_once = AT_ONCE if room is None or room > _FEW else _FEW_AT_ONCE
        walk = new_walk(self._services, at_once)

        async def visit(round_: Sequence[HeldLetter]) -> Collection[str]:
            deleted = await self._rounds.visit(round_)
            await self._step()
            self._end_early(walk)
            return deleted

        look = await walk.through(self._places, visit)
        self._check()
        return look

    def _end_early(self, walk: Walk) -> None:
        if self._rounds.is_full or self._progress.is_ending:
            walk.stop()

    # --- watching ---------------------------------------------------------------------------------

    async def _judge_canary(self) -> None:
        """Wait for the ends of the first jobs; stop if too many of them died again."""
        patience, bound = self._options.canary_timeout, self._options.stop_above
        ends_s = self._clock.monotonic() + patience.total_seconds()
        while self._clock.monotonic() < ends_s and self._watch.is_open:
            await self._wait(LOOK_S)
            if self._watch.is_blind:
                await self._pass(0)
        self._progress.judged()
        if bound is not None and self._watch.share(1) > bound:
            self._progress.stop(f"of the canary {self._watch.said}")
        elif pending := self._watch.pending:
            self._progress.stop(f"{pending} of the canary had not ended after {patience}")
        self._check()

    async def _step(self) -> None:
        """Look after the jobs that were sent, and write the progress, as often as is due."""
        await self._watch.look()
        self._progress.note_deaths(self._watch.died_again)
        bound = self._options.stop_above
        if bound is not None and self._watch.share() > bound:
            self._progress.stop(self._watch.said)
        if self._is_stopping():
            self._progress.stop(INTERRUPTED)
        await self._progress.write()

    async def _wait(self, seconds: float) -> None:
        """Pause, and go on writing the progress."""
        until_s = self._clock.monotonic() + seconds
        while (left_s := until_s - self._clock.monotonic()) > _INSTANT_S:
            await self._services.sleep(min(left_s, STEP_S))
            await self._step()
            self._check()

    def _check(self) -> None:
        if self._progress.is_ending:
            raise _Halt


def _said_of(unseen: Mapping[str, int]) -> str:
    told = " and ".join(f"about {count:,} in {name}" for name, count in unseen.items())
    return (
        f"letters that were not seen for {HOLD}: {told}; somebody else holds them, or they are "
        "more than a look can see"
    )


def pace_of(services: ReplayServices, report: ReplayReport) -> ReplayPace:
    """Return the pace of what is left of a replay."""
    options, interval_s = report.options, 0.0
    if options.rate:
        interval_s = 1 / options.rate
    elif options.spread and report.total:
        interval_s = options.spread.total_seconds() / report.total
    may_stop = options.stop_above is not None and (report.total or LEAST) >= LEAST
    waits = any(queue.fifo for queue in services.app.topology.queues)
    return ReplayPace(
        interval_s,
        jitter=options.spread is not None,
        ahead_s=AHEAD_S if may_stop or waits else MAX_AHEAD_S,
        now=services.clock.monotonic(),
        rng=services.rng,
    )


def reason_of(error: BaseException) -> str:
    """Return the reason of a replay that an error has stopped."""
    if isinstance(error, TransportError):
        return text_of(error)
    return INTERRUPTED if not isinstance(error, Exception) else type(error).__name__
