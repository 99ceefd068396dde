"""The replays of ``client.dead_letters``: sending dead letters back to their queues.

`AsyncReplayer` is the awaited form of `Replayer`. What a replay does is defined in
`jobs.dead_letters.replaying`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Unpack

from headgate.jobs.client.auditing.auditor import Audited, Auditor
from headgate.jobs.client.auditing.words import in_words, settings_in_words
from headgate.jobs.core.immediate import drive
from headgate.jobs.dead_letters.filters import DeadLetterFilter
from headgate.jobs.dead_letters.replaying.options import ReplaySettings, check_options
from headgate.jobs.dead_letters.replaying.replays import Replays, untold
from headgate.jobs.dead_letters.replaying.report import ReplayReport
from headgate.jobs.dead_letters.replaying.services import WITHIN, ReplayServices
from headgate.jobs.errors import SettingsInvalid
from headgate.jobs.records.audit.entry import AuditAction
from headgate.jobs.values.durations import Duration, duration


class AsyncReplayer:
    """The awaited form of `Replayer`, which also drives this class.

    Args:
        services: what the app's replays need.
        auditor: enters who replays into the audit.
    """

    def __init__(self, services: ReplayServices, auditor: Auditor) -> None:
        self._auditor = auditor
        self._replays = Replays(services)
        self._under_way: list[_UnderWay] = []
        """The replays that this client carries out now."""

    async def replay(
        self,
        letters: DeadLetterFilter | Sequence[str],
        *,
        dry_run: bool = False,
        within: Duration = WITHIN,
        on_step: Callable[[ReplayReport], None] = untold,
        **settings: Unpack[ReplaySettings],
    ) -> ReplayReport:
        """`Replayer.replay`, awaited."""
        chosen, options = _chosen(letters), check_options(settings)
        if dry_run:
            bound = min(duration("within", within, positive=True), WITHIN)
            return await self._replays.rehearse(chosen, options, within=bound)
        replaying = self._auditor.action(
            AuditAction.REPLAY, "dead letters", in_words(chosen), detail=settings_in_words(settings)
        )
        with self._carrying_out() as own:
            async with replaying:
                report = await self._replays.start(
                    chosen,
                    options,
                    actor=self._auditor.actor,
                    tell=_noting(own, replaying, on_step),
                    is_stopping=own.is_stopping,
                )
                _note(replaying, report)
        return report

    def stop(self, replay_id: str | None = None) -> None:
        """`Replayer.stop`."""
        for each in [*self._under_way]:
            if replay_id in (None, each.replay_id):
                each.stop()

    async def replays(self) -> list[ReplayReport]:
        """`Replayer.replays`, awaited."""
        return await self._replays.all()

    async def get_replay(self, replay_id: str) -> ReplayReport:
        """`Replayer.get_replay`, awaited."""
        return await self._replays.get(replay_id)

    async def resume(
        self, replay_id: str, *, on_step: Callable[[ReplayReport], None] = untold
    ) -> ReplayReport:
        """`Replayer.resume`, awaited."""
        resuming = self._auditor.action(AuditAction.RESUME_REPLAY, "replay", replay_id)
        with self._carrying_out() as own:
            async with resuming:
                report = await self._replays.resume(
                    replay_id,
                    tell=_noting(own, resuming, on_step),
                    is_stopping=own.is_stopping,
                )
                _note(resuming, report)
        return report

    async def abort(self, replay_id: str) -> ReplayReport:
        """`Replayer.abort`, awaited."""
        aborting = self._auditor.action(AuditAction.ABORT_REPLAY, "replay", replay_id)
        async with aborting:
            report = await self._replays.abort(replay_id, by=self._auditor.actor)
            _note(aborting, report)
        return report

    @contextmanager
    def _carrying_out(self) -> Iterator[_UnderWay]:
        own = _UnderWay()
        self._under_way.append(own)
        try:
            yield own
        finally:
            self._under_way.remove(own)


class _UnderWay:
    """A replay that this client carries out."""

    def __init__(self) -> None:
        self.replay_id = ""
        """Empty until it has one."""
        self._stopping = False

    def stop(self) -> None:
        self._stopping = True

    def is_stopping(self) -> bool:
        return self._stopping


class Replayer:
    """Sends dead letters back to their queues.

    Every method may raise a `TransportError`.
    """

    def __init__(self, engine: AsyncReplayer) -> None:
        self._replayer = engine

    def replay(
        self,
        letters: DeadLetterFilter | Sequence[str],
        *,
        dry_run: bool = False,
        within: Duration = WITHIN,
        on_step: Callable[[ReplayReport], None] = untold,
        **settings: Unpack[ReplaySettings],
    ) -> ReplayReport:
        """Send dead letters back to the queues that they came from, and return once that is done.

        Each job keeps its id and its history, and has all its attempts again. Its message is sent
        first, then marked as sent in the app's table, and the letter deleted after. A letter that
        can't become what is asked for (a payload that its type's model refuses, an unknown queue)
        stays where it is, and the report lists it. Letters of jobs that die after the start are
        left out.

        The replay has an id. If it is interrupted or killed, or stops because its jobs die again,
        `resume` carries out the rest, from anywhere; `abort` ends it, from anywhere.

        Args:
            letters: the letters to replay: ``DeadLetterFilter(types=("send-email",))``, or ids of
                jobs or messages. ``DeadLetterFilter()`` selects all.
            dry_run: send nothing; the report says what would be sent.
            within: the longest time that a dry run looks for letters, in seconds or as a timedelta,
                at most two minutes. A replay itself goes on until all are sent.
            on_step: called with the report as it starts, and every few seconds.
            settings: see `jobs.dead_letters.replaying.options.ReplaySettings`.

        Raises:
            SettingsInvalid: a setting is unknown or out of range; nothing was sent.
            TransportError: AWS could not be asked; the replay, if it had started, has stopped.
        """
        return drive(
            self._replayer.replay(
                letters,
                dry_run=dry_run,
                within=within,
                on_step=on_step,
                **settings,
            )
        )

    def stop(self, replay_id: str | None = None) -> None:
        """Stop the replays that this client carries out, once what they have asked is answered.

        Args:
            replay_id: stops that one alone; ``on_step`` is told its id. One that another client
                carries out goes on: `abort` ends it.

        For another thread, or a signal's handler: what is sent by then is marked as sent, and
        `resume` carries out the rest. Without it a replay that is interrupted while it sends may
        send up to eighty jobs again, with the same ids.
        """
        self._replayer.stop(replay_id)

    def replays(self) -> list[ReplayReport]:
        """Return the replays of the last 30 days, the newest first."""
        return drive(self._replayer.replays())

    def get_replay(self, replay_id: str) -> ReplayReport:
        """Return a replay, with the first hundred letters that it has left where they are.

        Raises:
            ReplayMissing: there is none with that id.
        """
        return drive(self._replayer.get_replay(replay_id))

    def resume(
        self, replay_id: str, *, on_step: Callable[[ReplayReport], None] = untold
    ) -> ReplayReport:
        """Carry out the rest of a replay that has stopped, with its own filter and settings.

        One whose process was killed counts as stopped a minute later, and the letters that it held
        show again within three. A canary that was judged is not repeated, and deaths count anew.

        Raises:
            ReplayMissing: there is none with that id.
            ReplayRunning: another process carries it out.
            ReplayOver: it is done, or was aborted.
        """
        return drive(self._replayer.resume(replay_id, on_step=on_step))

    def abort(self, replay_id: str) -> ReplayReport:
        """End a replay for good. Its process ends within seconds; what was sent stays sent.

        Raises:
            ReplayMissing: there is none with that id.
            ReplayOver: it is done.
        """
        return drive(self._replayer.abort(replay_id))


def _noting(
    own: _UnderWay, audited: Audited, tell: Callable[[ReplayReport], None]
) -> Callable[[ReplayReport], None]:
    """Return what a replay tells its steps to: the last one counts if it is cut off."""

    def told(report: ReplayReport) -> None:
        own.replay_id = report.id
        _note(audited, report)
        tell(report)

    return told


def _note(audited: Audited, report: ReplayReport) -> None:
    audited.count = report.sent
    audited.result = f"replay {report.id}: {report.state}"


def _chosen(letters: DeadLetterFilter | Sequence[str]) -> DeadLetterFilter:
    if isinstance(letters, DeadLetterFilter):
        return letters
    if isinstance(letters, str) or not letters:
        raise SettingsInvalid(
            f"a replay takes a DeadLetterFilter or a list of ids, got {letters!r}: write "
            "[job_id] for one letter, or DeadLetterFilter() for all"
        )
    return DeadLetterFilter(ids=tuple(letters))
