"""A claim on a job: one runner has it at a time, and none any more once the job is done.

    pk  job#ID   sk  claim

    data  {"state": "running", "runner": RUNNER, "since": S, "until": S}  it is being run
          {"state": "lapsed", "runner": RUNNER, "since": S, "until": S}   its lease has ended
          {"state": "free", "runner": RUNNER}                            an attempt has ended
          {"state": "done", "runner": RUNNER, "result": JSON_TEXT}       it has completed
          {"state": "done", "runner": RUNNER, "discarded": REASON}       its handler ended it

Each write replaces exactly what its writer has seen (`jobs.core.ports.Table.replace`), so of two
runners that want a job one gets it, and whoever was overtaken can't say that it is done. A runner
is one delivery in one process. It believes in its lease for as long as that lasts by its own
monotonic clock, from before it was asked for; others wait until it has ended by theirs, and
`SKEW_S` more.

Whoever finds a lease that has ended says so first, and leaves `GRACE_S` before the job is claimed:
while the table was away its runner may have finished, and not have been able to say that. As long
as it lives and reaches the table within that time, what it says counts.

An attempt that was given back may have left the job to a schedule, or to another message, that
comes up to `LONGEST_WAIT_S` later; and a message that could not be deleted then brings it sooner.
So an unfinished claim is kept for that long, and so is one that is done where it was another
runner's before. A job that its first runner finishes has nothing else that could bring it: its
claim goes with its messages.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from pydantic_core import from_json, to_json

from headgate.jobs.core.clock import SKEW_S, Clock
from headgate.jobs.core.ports import Item, Table
from headgate.jobs.core.topology import QueueSpec
from headgate.jobs.errors import ItemRefused, ResultNotKept, ServiceUnavailable
from headgate.jobs.execution.outcome import Discarded, Done
from headgate.jobs.records.items import partition
from headgate.jobs.records.results import MAX_RESULT_BYTES, dump_result, is_large
from headgate.jobs.retry.classification import LONGEST_WAIT_S

T = TypeVar("T")

CLAIM = "claim"
"""Where a job's claim stands, among its items."""

LEASED_OF_VISIBILITY = 2 / 3
"""Of the visibility timeout. After a crash a message that was extended in time, at a third, is
hidden for so much longer at the least, so that its next receiver mostly finds the lease over."""

GRACE_S = 4.0
"""How long a runner whose lease has ended has left to say that its job is done. It tries again
within a second of each answer, and waits `_PATIENCE_S` for one."""

_NO_LONGER = timedelta(0)

_TRIES = 4
"""So often a claim is asked for, if others come first."""

_PATIENCE_S = 2.0
"""How long a request may take. A write whose answer is lost may be repeated."""


async def answered(asking: Awaitable[T]) -> T:
    """The table's answer to a request that a job waits for.

    Raises:
        TransportError: it has failed, or does not answer in time.
    """
    try:
        async with asyncio.timeout(_PATIENCE_S):
            return await asking
    except TimeoutError as error:
        raise ServiceUnavailable(f"the table did not answer within {_PATIENCE_S:g} s") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Another runner has it."""

    left_s: float
    """Until its lease has ended by all clocks."""
    ran_s: float
    """For how long it has had it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """It must not be run any more."""

    outcome: Done | Discarded


def standing_of(item: Item, now_s: float) -> Held | Ended | None:
    """What a claim says to somebody else than its runner; None: the job may be claimed.

    Args:
        item: what stands in the table; of version 0 where nothing does.
        now_s: the wall clock, in seconds since 1970.
    """
    match item.data:
        case {"state": "running" | "lapsed", "since": since, "until": until} if (
            until + SKEW_S > now_s
        ):
            return Held(left_s=until + SKEW_S - now_s, ran_s=max(0.0, now_s - since))
        case {"state": "done", "discarded": reason}:
            return Ended(outcome=Discarded(reason=reason))
        case {"state": "done", "result": text}:
            return Ended(outcome=Done(result=from_json(text)))
        case {"state": "done"}:
            return Ended(outcome=Done())
        case _:
            return None


def ended(outcome: Done | Discarded) -> dict[str, Any]:
    """What a claim says of a job that has ended so."""
    match outcome:
        case Discarded(reason=reason):
            return {"state": "done", "discarded": reason}
        case Done(result=result):
            text = _json_text(result)
            return {"state": "done"} if text is None else {"state": "done", "result": text}


def _json_text(result: Any) -> str | None:
    try:
        value, size = dump_result(result)
    except ResultNotKept:
        return None  # a handler may return anything, and has done its work whatever it returns
    return to_json(value).decode() if size <= MAX_RESULT_BYTES else None


class Claim:
    """One runner's claim on one job. Any method may raise a `TransportError`.

    Args:
        table: where it stands.
        job_id: which job.
        runner: who asks; no other delivery has this name.
        lease_s: how long it lasts, unless it is renewed.
        keep: how long it is remembered that the job is done.
        outstanding: how long after an attempt that has not ended it the job may come again.
        clock: tells the time.
    """

    def __init__(
        self,
        table: Table,
        job_id: str,
        *,
        runner: str,
        lease_s: float,
        keep: timedelta,
        outstanding: timedelta,
        clock: Clock,
    ) -> None:
        self.lease_s = lease_s
        self._table = table
        self._runner = runner
        self._keep = keep
        self._outstanding = outstanding
        self._clock = clock
        self._known = Item(pk=partition(job_id), sk=CLAIM)
        """What stands there, as far as it is known."""
        self._ends_at = float("-inf")
        """When the lease ends, on the monotonic clock."""
        self._since = 0.0
        """When it was first asked for, in seconds since 1970."""

    @property
    def left_s(self) -> float:
        """How long its runner may still believe that the job is its own."""
        return self._ends_at - self._clock.monotonic()

    async def take(self) -> Held | Ended | None:
        """Claim the job; None: this runner has it. The first try costs one request.

        Of one whose lease has ended that is said, and it is held for the grace.
        """
        for _ in range(_TRIES):
            if self._known.version:  # another's, whose attempt may have left the job elsewhere too
                self._keep = max(self._keep, self._outstanding)
            standing = standing_of(self._known, self._clock.now().timestamp())
            if standing is not None:
                return standing
            if self._known.data.get("state") == "running":
                refusal = await self._lapse()
                if refusal is None:
                    return Held(left_s=GRACE_S + SKEW_S, ran_s=0.0)
            elif (refusal := await self._lease()) is None:
                return None
            self._known = refusal
        return Held(left_s=self.lease_s, ran_s=0.0)  # whoever comes first again and again has it

    async def renew(self) -> bool:
        """Lease it from now on; False: it is another's."""
        if await self._lease() is None:
            return True
        self._ends_at = float("-inf")
        return False

    async def release(self) -> bool:
        """Give it back, so that the next runner need not wait; False: it is another's."""
        self._ends_at = float("-inf")
        return await self._write({"state": "free"}, self._outstanding) is None

    async def finish(self, outcome: Done | Discarded) -> bool:
        """Say that the job is done, also after the lease; False: it is another's by now.

        Where the table can't hold how it ended, that it has is said alone.
        """
        if isinstance(outcome, Done) and is_large(outcome.result):
            said = await asyncio.to_thread(ended, outcome)
        else:
            said = ended(outcome)
        try:
            return await self._write(said, self._keep) is None
        except ItemRefused:
            return await self._write(ended(Done()), self._keep) is None

    async def _lease(self) -> Item | None:
        started, now_s = self._clock.monotonic(), self._clock.now().timestamp()
        self._since = self._since or now_s
        running = {"state": "running", "since": self._since, "until": now_s + self.lease_s}
        refusal = await self._write(running, self._outstanding)
        if refusal is None:
            self._ends_at = started + self.lease_s
        return refusal

    async def _lapse(self) -> Item | None:
        """Say that another's lease has ended; what its runner writes next still counts."""
        until = self._clock.now().timestamp() + GRACE_S
        return await self._write(
            {**self._known.data, "state": "lapsed", "until": until}, self._outstanding
        )

    async def _write(self, said: Mapping[str, Any], lasting: timedelta) -> Item | None:
        """Replace the item if it is still what is known, or one of ours; else what stands there."""
        data = {"runner": self._runner, **said}
        while True:
            item = Item(
                pk=self._known.pk,
                sk=self._known.sk,
                data=data,
                version=self._known.version + 1,
                expires_at=self._clock.now() + lasting,
            )
            standing = await answered(self._table.replace(item))
            if standing is None or (standing.version, standing.data) == (item.version, data):
                self._known = item
                return None
            if standing.data.get("runner") != self._runner or standing.data["state"] == "done":
                return standing
            self._known = standing  # ours: a write whose answer was lost. So on from there


class Claims:
    """Makes the claims of one process.

    Args:
        table: where they stand.
        owner: this process's name, for those who read the items.
        clock: tells the time.
    """

    def __init__(self, table: Table, *, owner: str, clock: Clock) -> None:
        self.table = table
        self._owner = owner
        self._clock = clock

    def on(self, job_id: str, queue: QueueSpec, *, keep: timedelta = _NO_LONGER) -> Claim:
        """A claim for a delivery of that job by that queue; nothing has been asked for yet.

        That the job is done is remembered for ``keep``, and never shorter than the queue keeps
        messages; where it had been tried before, for as long as anything may still bring it. So no
        delivery can come later.
        """
        return Claim(
            self.table,
            job_id,
            runner=f"{self._owner}/{secrets.token_hex(6)}",
            lease_s=queue.visibility_s * LEASED_OF_VISIBILITY,
            keep=max(keep, queue.retention),
            outstanding=timedelta(seconds=LONGEST_WAIT_S) + queue.retention,
            clock=self._clock,
        )
