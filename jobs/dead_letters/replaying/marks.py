"""Marks of the letters that a replay has sent or left, by SQS's ids of their messages.

A letter is marked between its sending and its deletion. So a replay that was killed in between, or
could not delete a letter, deletes it when it goes on, and sends nothing. If it was killed between
the sending and the mark, the job is sent twice, with the same id. A replay that has not come to its
end may have left such letters, so every other one knows its marks, too: those that stand when it
begins. A replay at the same time goes on to mark letters, which show again if SQS doesn't delete
them, or its process is killed. So before a letter is sent, it is looked up among the marks of each
replay that may have been carried out meanwhile. As a rule there is none, and to find that out takes
a request for each round.

A worker whose answers are lost may park one job many times. So a mark also has a digest of what its
letter stands for, and a replay deletes further letters of the jobs that it has sent. Other replays'
digests mean nothing to it: a letter may have been restored since, so that its job runs again.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime, timedelta

from headgate.jobs.core.clock import SKEW_S
from headgate.jobs.core.concurrency import Parallelism
from headgate.jobs.core.ports.table import MAX_PUT, AsyncTable, Item
from headgate.jobs.dead_letters.letter import DeadLetter
from headgate.jobs.dead_letters.replaying.book import LEASE_S
from headgate.jobs.dead_letters.replaying.options import MAX_CANARY
from headgate.jobs.dead_letters.replaying.report import (
    KEPT,
    MAX_LISTED,
    REPLAYS,
    LeftLetter,
    ReplayReport,
    ReplayState,
)
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.policies import job_keep_of, records_of
from headgate.jobs.errors import MessageError, TransportError
from headgate.jobs.messages.envelope import Envelope, parse
from headgate.jobs.records.items import replayed_item
from headgate.jobs.records.writes import put_patiently
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.jobs.values.own_log import OwnLog
from headgate.jobs.values.stored import moment, text
from headgate.jobs.values.texts import legible

_SENT, _REFUSED = "sent#", "refused#"

_MAX_CHARS = 300

_AT_ONCE = 16
"""Maximum number of requests for the marks of other replays at the same time."""

_log = OwnLog("headgate.replay")


def partition_of(replay_id: str) -> str:
    """Return the partition key of a replay's marks."""
    return f"replay#{replay_id}"


@light_dataclass(frozen=True, slots=True, kw_only=True)
class MarkedJob:
    """A job that a replay has sent, as the mark of its letter tells."""

    job_id: str | None
    job_type: str | None
    sent_at: datetime


class Marks:
    """The marks of one replay.

    Args:
        app: says what is recorded of its jobs.
        table: holds the marks.
        replay_id: the replay.
        as_type: the type that the replay sends all jobs as; None: that of each.
        sleep: pauses when the table is busy.
        rng: spreads the pauses.
    """

    def __init__(
        self,
        app: App,
        table: AsyncTable,
        replay_id: str,
        *,
        as_type: str | None = None,
        sleep: Callable[[float], Awaitable[None]],
        rng: random.Random,
    ) -> None:
        self._app = app
        self._table = table
        self._replay_id = replay_id
        self._as_type = as_type
        self._sleep = sleep
        self._rng = rng
        self._others: _OtherReplays | None = None
        self._sent: set[str] = set()
        self._jobs: set[str] = set()
        """Of the replay itself, digests of the letters whose jobs it has sent."""
        self.own = 0
        """Number of letters that the replay itself had sent when its marks were read."""
        self.canary: list[MarkedJob] = []
        """Their jobs, if they are no more than a canary has."""

    def __contains__(self, message_id: str) -> bool:
        """Return True if a letter's job has been sent."""
        return message_id in self._sent

    def has_sent_for_another(self, letter: DeadLetter) -> bool:
        """Return True if the replay has sent a letter's job for another one of the same death."""
        return digest_of(letter) in self._jobs

    async def load(
        self, replays: Sequence[ReplayReport], read_at: datetime, concurrency: Parallelism
    ) -> None:
        """Read the marks of those replays that have not come to their ends.

        Args:
            replays: all replays, this one included if it was begun before.
            read_at: the time just before these were read; aware.
            concurrency: makes several requests at once.

        Raises:
            TransportError: the table could not be asked.
        """
        self._others = _OtherReplays(
            self._table,
            self._replay_id,
            replays,
            read_at=read_at,
            concurrency=concurrency,
        )
        for replay_id in (each.id for each in replays if each.state is not ReplayState.DONE):
            after = ""
            while True:
                page = await self._table.page(partition_of(replay_id), after=after)
                marks = [item for item in page.items if item.sk.startswith(_SENT)]
                self._sent |= {mark.sk.removeprefix(_SENT) for mark in marks}
                if replay_id == self._replay_id:
                    digests = (text(mark.data.get("digest"), _MAX_CHARS) for mark in marks)
                    self._jobs |= {each for each in digests if each is not None}
                    self.own += len(marks)
                    self.canary += filter(None, map(self._job, marks[: self._canary_room]))
                if not (after := page.after):
                    break

    async def learn(self, letters: Sequence[DeadLetter]) -> None:
        """Look up which letters' jobs other replays have sent since their marks were read."""
        if letters and self._others is not None:
            self._sent |= await self._others.sent_of([each.message_id for each in letters])

    async def sent(self, letters: Sequence[DeadLetter], at: datetime) -> None:
        """Mark letters whose jobs have been sent, and record that in the jobs' histories.

        If that fails, they are to be deleted all the same: the marks only matter until then.
        """
        self._sent |= {letter.message_id for letter in letters}
        self._jobs |= {digest_of(letter) for letter in letters}
        marks = [self._sent_item(letter, at) for letter in letters]
        await self._put([*marks, *filter(None, (self._record(each, at) for each in letters))])

    async def refused(self, left: Sequence[LeftLetter], at: datetime) -> None:
        """Note letters that are left where they are, and why."""
        await self._put([self._left_item(each, at) for each in left])

    async def _put(self, items: Sequence[Item]) -> None:
        distinct = [*{(item.pk, item.sk): item for item in items}.values()]
        for start in range(0, len(distinct), MAX_PUT):
            batch = distinct[start : start + MAX_PUT]
            try:
                lost = await put_patiently(self._table, batch, sleep=self._sleep, rng=self._rng)
            except TransportError as error:
                _log.warning("marks of the replay %s are lost: %s", self._replay_id, error)
                continue
            if lost:
                _log.warning("%d marks of the replay %s are lost", len(lost), self._replay_id)

    @property
    def _canary_room(self) -> int:
        return MAX_CANARY - len(self.canary)

    def _job(self, mark: Item) -> MarkedJob | None:
        """Return the job that a mark is of, without what no replay can have written."""
        if (sent_at := moment(mark.data.get("at"))) is None:
            return None
        job_id, job_type = (text(mark.data.get(each), _MAX_CHARS) for each in ("job", "type"))
        return MarkedJob(
            job_id=job_id or None, job_type=self._as_type or job_type or None, sent_at=sent_at
        )

    def _sent_item(self, letter: DeadLetter, at: datetime) -> Item:
        told = {
            "at": at.isoformat(),
            "job": letter.job_id or "",
            "type": letter.job_type or "",
            "digest": digest_of(letter),
        }
        return self._place(f"{_SENT}{letter.message_id}", told, at)

    def _left_item(self, left: LeftLetter, at: datetime) -> Item:
        told = {
            "at": at.isoformat(),
            "job": left.job_id or "",
            "type": left.job_type or "",
            "why": legible(left.why, _MAX_CHARS),
        }
        return self._place(f"{_REFUSED}{left.message_id}", told, at)

    def _place(self, sk: str, told: dict[str, str], at: datetime) -> Item:
        return Item(pk=partition_of(self._replay_id), sk=sk, data=told, expires_at=at + KEPT)

    def _record(self, letter: DeadLetter, at: datetime) -> Item | None:
        """Return the item of the job's own history, if one is kept."""
        declared = self._app.types.get(self._as_type or letter.job_type or "")
        if letter.job_id is None or declared is None or records_of(self._app, declared) == "off":
            return None
        return replayed_item(
            letter.job_id,
            declared.name,
            self._replay_id,
            replays=letter.replays + 1,
            at=at,
            keep=job_keep_of(self._app, declared, _envelope_of(letter)),
            former=letter.job_type if letter.job_type != declared.name else None,
        )


class _OtherReplays:
    """The replays that may be carried out beside one.

    Args:
        table: holds all of them.
        replay_id: the one.
        known: the others, as they stood when their marks were read.
        read_at: the time just before that; aware.
        concurrency: makes several requests at once.
    """

    def __init__(
        self,
        table: AsyncTable,
        replay_id: str,
        known: Iterable[ReplayReport],
        *,
        read_at: datetime,
        concurrency: Parallelism,
    ) -> None:
        self._table = table
        self._replay_id = replay_id
        lively = read_at - timedelta(seconds=LEASE_S + SKEW_S)
        others = [each for each in known if each.id != replay_id]
        # One that was aborted just now ends with its next step, which may be to come.
        self._lively = [each.id for each in others if each.updated_at > lively and _is_open(each)]
        self._stopped = {
            each.id: each.updated_at
            for each in others
            if each.state is ReplayState.STOPPED and each.updated_at <= lively
        }
        # Ids begin with the time of the start, as the clock of its process tells it.
        self._since = f"{read_at - timedelta(seconds=SKEW_S):%Y%m%d-%H%M%S}"
        self._concurrency = concurrency

    async def sent_of(self, message_ids: Sequence[str]) -> set[str]:
        """Return the ids of those messages whose jobs another replay has sent.

        If the table can't be asked, none: as with its marks, a replay goes on without it for as
        long as its lease stands.
        """
        try:
            ids = await self._under_way()
            asked = [(replay_id, each) for replay_id in ids for each in message_ids]
            found = await self._concurrency.each(self._is_marked, asked, at_once=_AT_ONCE)
        except TransportError as error:
            _log.warning("other replays are not known to %s: %s", self._replay_id, error)
            return set()
        return {each for (_, each), is_marked in zip(asked, found, strict=True) if is_marked}

    async def _under_way(self) -> list[str]:
        """Return the replays that have gone on since their marks were read, or begun.

        One that is done has deleted all that it had sent.
        """
        page = await self._table.page(REPLAYS, after=self._since)
        begun = [each.sk for each in page.items if each.data.get("state") != ReplayState.DONE]
        ids = [*self._stopped]
        resumed = await self._concurrency.each(self._is_resumed, ids, at_once=_AT_ONCE)
        those = [each for each, is_resumed in zip(ids, resumed, strict=True) if is_resumed]
        every = dict.fromkeys((*self._lively, *those, *begun))
        return [each for each in every if each != self._replay_id]

    async def _is_resumed(self, replay_id: str) -> bool:
        item = await self._table.get(REPLAYS, replay_id)
        return item is not None and moment(item.data.get("updated")) != self._stopped[replay_id]

    async def _is_marked(self, asked: tuple[str, str]) -> bool:
        replay_id, message_id = asked
        return await self._table.get(partition_of(replay_id), f"{_SENT}{message_id}") is not None


def _is_open(report: ReplayReport) -> bool:
    return report.state is not ReplayState.DONE


def _envelope_of(letter: DeadLetter) -> Envelope | None:
    """Return the envelope of a letter; None if its message isn't at hand, or can't be read."""
    try:
        return None if letter.content is None else parse(letter.content.body)
    except MessageError:
        return None


def digest_of(letter: DeadLetter) -> str:
    """Return a digest that all letters of one death of a job share, and no others.

    Messages of other senders, which name no id, may be alike and yet stand for two jobs: each has a
    digest of its own.
    """
    if letter.content is None or not letter.job_id or letter.job_id not in letter.content.body:
        return letter.message_id
    told = (letter.origin or "", str(letter.replays), letter.content.body)
    return hashlib.sha256("\0".join(told).encode("utf-8", "surrogatepass")).hexdigest()


async def left_of(table: AsyncTable, replay_id: str) -> tuple[LeftLetter, ...]:
    """Return the first hundred letters that a replay has refused.

    Raises:
        TransportError: the table could not be asked.
    """
    page = await table.page(partition_of(replay_id), limit=MAX_LISTED)
    found = (item for item in page.items if item.sk.startswith(_REFUSED))
    return tuple(_left(item) for item in found)


def _left(item: Item) -> LeftLetter:
    """Return the letter that an item names, without what no replay can have written."""
    told = {name: text(item.data.get(name), _MAX_CHARS) or None for name in ("job", "type", "why")}
    return LeftLetter(
        message_id=item.sk.removeprefix(_REFUSED),
        job_id=told["job"],
        job_type=told["type"],
        why=told["why"] or "unknown",
    )
