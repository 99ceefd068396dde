"""Claims on jobs: at most one runner at a time, and none once the job is done.

    pk  job#ID   sk  claim

    data  {"state": "running", "since": S, "until": S, ...}  the job is running
          {"state": "lapsed", "since": S, "until": S, ...}   the lease has expired
          {"state": "free", ...}                             an attempt has ended
          {"state": "done", "result": JSON_TEXT, ...}        the job has completed
          {"state": "done", "result_sealed": SEALED, ...}    likewise, in an app that seals
          {"state": "done", "discarded": REASON, ...}        its handler discarded it
    each with "runner": RUNNER, "type": TYPE, "queue": GROUP, and "tenant": {"org": ORG} if the job
    has one, by which an erasure finds it

Each write replaces exactly the item that its writer has read
(`jobs.core.ports.table.AsyncTable.replace`), so only one of two competing runners gets a job, and a
runner that has lost its claim can't mark the job as done. A runner is one delivery in one process.
It holds its lease until that expires by its own monotonic clock, counted from before the request;
other runners wait until the lease has expired by their wall clocks, and for another `SKEW_S`.

A runner that finds an expired lease first marks it as lapsed, and leaves `GRACE_S` before it claims
the job: while the table was unreachable the job's runner may have finished without being able to
record that. If that runner lives and reaches the table within that time, its record counts.

An id proves nothing, since the sender chooses it. So a claim is one type's and one queue group's:
whoever finds another's at its place steps aside, to ``claim#TYPE#GROUP``, and neither ever ends,
holds back or speaks for the other. It first extends the other claim, so that the place stays taken
for as long as its own claim counts; else a later delivery would look there, and find nothing. The
first place has no type in its name, because workers of earlier versions look there, whose claims
have no type either and count for any.

An attempt that was released may have handed the job to a schedule, or to another message, which
comes up to `LONGEST_WAIT_S` later; and a message that could not be deleted then brings the job
sooner. So an unfinished claim is kept for that long, and so is the claim of a finished job that
another runner had claimed before. If a job's first runner finishes it, nothing else can bring it
back: its claim expires with its messages.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from headgate.jobs.core.clock import SKEW_S, Clock
from headgate.jobs.core.ports.table import AsyncTable, Item
from headgate.jobs.core.topology import QueueSpec
from headgate.jobs.errors import ItemRefused, ServiceUnavailable
from headgate.jobs.execution.calling.claim_items import (
    CLAIM,
    ClaimSubject,
    Ended,
    Held,
    Unreadable,
    ended,
    ended_sealed,
    opened,
    standing_of,
)
from headgate.jobs.execution.outcome import Discarded, Done
from headgate.jobs.messages.sealing import Seals
from headgate.jobs.records.items import partition
from headgate.jobs.records.results import is_large
from headgate.jobs.retry.classification import LONGEST_WAIT_S

T = TypeVar("T")

LEASED_OF_VISIBILITY = 2 / 3
"""The lease, as a fraction of the visibility timeout. A message is extended once a third of its
timeout has passed, so after a crash it stays hidden for at least this fraction, and its next
receiver mostly finds the lease expired."""

GRACE_S = 4.0
"""Seconds for which a runner whose lease has expired may still record that its job is done. It
retries within a second of each answer, and waits `_PATIENCE_S` for one."""

_NO_LONGER = timedelta(0)

_ROUNDING = timedelta(seconds=1)
"""The difference that whole seconds make to an item's expiry."""

_TRIES = 4
"""Attempts to claim a job while other runners' writes come first."""

_PATIENCE_S = 2.0
"""Timeout of a request, in seconds. A write whose answer is lost may be repeated."""


async def answered(asking: Awaitable[T]) -> T:
    """Return the table's answer to a request that a job waits for.

    Raises:
        TransportError: the request failed, or was not answered in time.
    """
    try:
        async with asyncio.timeout(_PATIENCE_S):
            return await asking
    except TimeoutError as error:
        raise ServiceUnavailable(f"the table did not answer within {_PATIENCE_S:g} s") from error


class Claim:
    """One runner's claim on one job. Any method may raise a `TransportError`.

    Args:
        table: holds the claim.
        job_id: the job's id.
        subject: the job's type and queue.
        runner: the runner's name, which no other delivery has.
        lease_s: the lease's length in seconds, unless it is renewed.
        keep: how long the claim of a finished job is kept.
        outstanding: how long after an unfinished attempt the job may come again.
        clock: tells the time.
        seals: seals and opens results; None keeps them as they are.
        org: the ``org`` of the job's tenant; empty if it has none.
    """

    def __init__(
        self,
        table: AsyncTable,
        job_id: str,
        subject: ClaimSubject,
        *,
        runner: str,
        lease_s: float,
        keep: timedelta,
        outstanding: timedelta,
        clock: Clock,
        seals: Seals | None = None,
        org: str = "",
    ) -> None:
        self._seals = seals
        self._job_id = job_id
        self._of_tenant = {"tenant": {"org": org}} if org else {}
        self.lease_s = lease_s
        self._table = table
        self._runner = runner
        self._keep = keep
        self._outstanding = outstanding
        self._clock = clock
        self._subject = subject
        self._known = Item(pk=partition(job_id), sk=CLAIM)
        """The table's item, as last seen."""
        self._asked_until: datetime | None = None
        """The latest expiry that this runner has written."""
        self._not_before: datetime | None = None
        """An expiry that another runner has written, and that must not be shortened."""
        self.is_aside = False
        """True once the first place was found taken by another type's or queue's claim."""
        self._ends_at = float("-inf")
        """The end of the lease, on the monotonic clock."""
        self._since = 0.0
        """The time of the first request, in seconds since 1970."""

    @property
    def left_s(self) -> float:
        """Seconds for which the runner may still rely on the claim."""
        return self._ends_at - self._clock.monotonic()

    async def take(self) -> Held | Ended | Unreadable | None:
        """Claim the job, and return None if this runner has it. The first try costs one request.

        A claim whose lease has expired is marked as lapsed, and is held for `GRACE_S`.
        """
        for _ in range(_TRIES):
            if self._known.version:  # another runner may have handed the job on as well
                self._keep = max(self._keep, self._outstanding)
            if not self._subject.is_meant(self._known):
                if self.is_aside:
                    return Unreadable()
                await self._step_aside()
                continue
            self._not_before = self._known.expires_at
            standing = standing_of(self._known, self._clock.now().timestamp())
            if isinstance(standing, Ended):
                return await self._opened(standing)
            if standing is not None:
                return standing
            if self._known.data.get("state") == "running":
                refusal = await self._lapse()
                if refusal is None:
                    return Held(left_s=GRACE_S + SKEW_S, ran_s=0.0)
            elif (refusal := await self._lease()) is None:
                return None
            self._known = refusal
        return Held(left_s=self.lease_s, ran_s=0.0)  # another runner came first every time

    async def renew(self) -> bool:
        """Start a new lease; False if another runner has the claim."""
        if await self._lease() is None:
            return True
        self._ends_at = float("-inf")
        return False

    async def release(self) -> bool:
        """Release the claim for the next runner; False if another runner has it."""
        self._ends_at = float("-inf")
        return await self._write({"state": "free"}, self._outstanding) is None

    async def finish(self, outcome: Done | Discarded) -> bool:
        """Record that the job is done, even after the lease; False if it is another runner's.

        If the table can't hold the result, the end is recorded without it.
        """
        if self._seals is not None:
            said = await self._sealed(outcome, self._seals)
        elif isinstance(outcome, Done) and is_large(outcome.result):
            said = await asyncio.to_thread(ended, outcome)
        else:
            said = ended(outcome)
        try:
            return await self._write(said, self._keep) is None
        except ItemRefused:
            return await self._write(ended(Done()), self._keep) is None

    async def _sealed(self, outcome: Done | Discarded, seals: Seals) -> dict[str, Any]:
        try:
            async with asyncio.timeout(_PATIENCE_S):
                return await ended_sealed(outcome, seals, self._job_id, self._subject.job_type)
        except TimeoutError:
            return ended(Done())  # as if KMS had said that it can't be asked

    async def _opened(self, standing: Ended) -> Ended:
        return await answered(opened(standing, self._seals, self._job_id, self._subject.job_type))

    async def _lease(self) -> Item | None:
        started, now_s = self._clock.monotonic(), self._clock.now().timestamp()
        self._since = self._since or now_s
        running = {"state": "running", "since": self._since, "until": now_s + self.lease_s}
        refusal = await self._write(running, self._outstanding)
        if refusal is None:
            self._ends_at = started + self.lease_s
        return refusal

    async def _step_aside(self) -> None:
        """Leave the place to another's claim, and make that outlive ours."""
        other = self._known
        until = self._clock.now() + max(self._keep, self._outstanding)
        if other.version and other.expires_at is not None and other.expires_at < until:
            longer = replace(other, version=other.version + 1, expires_at=until)
            if (standing := await answered(self._table.replace(longer))) is not None:
                self._known = standing
                return
        self._known = Item(pk=other.pk, sk=self._subject.place)
        self.is_aside = True

    async def _lapse(self) -> Item | None:
        """Mark another runner's lease as expired; that runner's next write still counts."""
        until = self._clock.now().timestamp() + GRACE_S
        return await self._write(
            {**self._known.data, "state": "lapsed", "until": until}, self._outstanding
        )

    async def _write(self, said: Mapping[str, Any], lasting: timedelta) -> Item | None:
        """Replace the item if it is as last seen, or ours; else return the item found."""
        subject = self._subject
        owned = {"runner": self._runner, "type": subject.job_type, "queue": subject.queue}
        data = {**owned, **self._of_tenant, **said}
        while True:
            item = Item(
                pk=self._known.pk,
                sk=self._known.sk,
                data=data,
                version=self._known.version + 1,
                expires_at=self._expiry(lasting),
            )
            standing = await answered(self._table.replace(item))
            if standing is None or (standing.version, standing.data) == (item.version, data):
                self._known = item
                return None
            is_ours = standing.data.get("runner") == self._runner
            if not is_ours or standing.data.get("state") == "done":
                return standing
            self._known = standing  # our own write, whose answer was lost: go on from it
            if _is_after(standing.expires_at, self._asked_until):
                self._not_before = standing.expires_at  # one that stepped aside extended it

    def _expiry(self, lasting: timedelta) -> datetime:
        until = self._clock.now() + lasting
        if self._asked_until is None or until > self._asked_until:
            self._asked_until = until
        return until if self._not_before is None else max(until, self._not_before)


def _is_after(found: datetime | None, asked: datetime | None) -> bool:
    return found is not None and asked is not None and found > asked + _ROUNDING


class Claims:
    """Makes the claims of one process.

    Args:
        table: holds the claims.
        owner: this process's name, shown in the items.
        clock: tells the time.
        seals: seals and opens results; None keeps them as they are.
    """

    def __init__(
        self, table: AsyncTable, *, owner: str, clock: Clock, seals: Seals | None = None
    ) -> None:
        self.table = table
        self._seals = seals
        self._owner = owner
        self._clock = clock

    def on(
        self,
        job_id: str,
        job_type: str,
        queue: QueueSpec,
        *,
        keep: timedelta = _NO_LONGER,
        org: str = "",
    ) -> Claim:
        """Return a claim for a delivery of a job by a queue, without sending a request.

        The claim of a finished job is kept for ``keep``, and at least for the queue's retention; if
        the job was tried before, for as long as anything may still deliver it. So no delivery can
        come after the claim is gone.
        """
        return Claim(
            self.table,
            job_id,
            ClaimSubject(job_type=job_type, queue=queue.group),
            runner=f"{self._owner}/{secrets.token_hex(6)}",
            lease_s=queue.visibility_s * LEASED_OF_VISIBILITY,
            keep=max(keep, queue.retention),
            outstanding=timedelta(seconds=LONGEST_WAIT_S) + queue.retention,
            clock=self._clock,
            seals=self._seals,
            org=org,
        )
