"""Claims on uniqueness keys, as submissions make, renew and settle them; `unique` has the items."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from headgate.jobs.core.clock import SKEW_S
from headgate.jobs.core.events import Event
from headgate.jobs.core.ports.table import AsyncTable, Item
from headgate.jobs.errors import TransportError
from headgate.jobs.messages.envelope import UniqueBy
from headgate.jobs.submission.prepare import Submission
from headgate.jobs.submission.unique_keys import place
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.jobs.values.stored import epoch_s, text

PENDING_S = 15.0
"""Seconds without a renewal after which a job that is not sent counts as abandoned."""

RENEWED_S = PENDING_S / 3
"""Interval of the renewals, in seconds."""

_LONGEST_ID = 64
"""Characters of a job's id in a claim that is read; a longer one is none of ours."""

_LOOK_S = 0.1
"""Interval, in seconds, at which waiting submissions look at the item."""

_TRIES = 20
"""Attempts to claim a key while other submissions' writes come first."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class ClaimMeans:
    """The means by which one client claims keys; its ports are awaited."""

    table: AsyncTable
    sleep: Callable[[float], Awaitable[None]]
    now: Callable[[], datetime]
    """The wall clock."""
    tell: Callable[[Event], None]
    """Receives events of duplicates, and of failed claims."""


@dataclass(slots=True)
class KeyClaim:
    """One key of a call, and the state of its claim."""

    means: ClaimMeans
    chosen: Submission
    """The one of its submissions that counts."""
    by: UniqueBy
    known: Item
    """The table's item, as last seen."""
    is_ours: bool = False
    is_pending: bool = False
    """True while another submission is about to send its job."""
    is_asked: bool = False
    """True once the claim may have been written."""
    duplicate_of: str | None = None

    @property
    def kept(self) -> str:
        """The id of the job that counts for its submissions."""
        return self.duplicate_of or self.chosen.id

    @property
    def group(self) -> tuple[str, str] | None:
        """The queue and FIFO group of its job, if it has one."""
        queue, group = self.chosen.queue, self.chosen.message.group
        return (queue.name, group) if queue.fifo and group else None

    @property
    def is_old(self) -> bool:
        """True if its claim has to be renewed before the job is sent."""
        return self.is_asked and self.is_ours and self._age_s(self.known) > RENEWED_S

    async def reserve(self) -> None:
        """Claim the key for its submission, or find the job that has it; or renew the claim."""
        if self.by.mode == "replace":
            self.is_ours = True
            return
        self.is_asked, self.is_ours = True, False
        for _ in range(_TRIES):
            item = self._item(sent=False)
            standing = await self.means.table.replace(item)
            self.known = standing or item
            if standing is None or self._is_unsent_self(standing):
                self.is_ours, self.is_pending = True, False
                return
            if standing.version and not self._is_free(standing):
                self._read(standing)
                return
        raise TransportError(
            f"{self.chosen.envelope.type!r}: too many submissions with one uniqueness key at once"
        )

    async def wait(self) -> None:
        """Wait until the submission that has the key has sent its job, or counts as abandoned."""
        while self.is_pending:
            await self.means.sleep(_LOOK_S)
            standing = await self.means.table.get(self.known.pk, self.known.sk)
            if standing is None or self._is_free(standing):
                self.known = standing or place(self.by)
                await self.reserve()
            else:
                self._read(standing)

    async def renew(self) -> None:
        """Renew the claim. If that keeps failing, another submission takes over."""
        try:
            await self._restate(sent=False)
        except TransportError as error:
            self._report("renew", error)

    async def confirm(self) -> None:
        """Record that SQS has the job. If that fails, another job may be sent as well."""
        try:
            if self.by.mode == "replace":
                await self._write_down()
            else:
                await self._restate(sent=True)
        except TransportError as error:
            self._report("confirm", error)

    async def _restate(self, *, sent: bool) -> None:
        """Rewrite the claim, unless another job has the key."""
        for _ in range(2):
            item = self._item(sent=sent)
            standing = await self.means.table.replace(item)
            if standing is None:
                self.known = item
                return
            if not self._is_unsent_self(standing):
                return
            self.known = standing  # written by a request whose answer was lost

    async def take_back(self) -> None:
        """Release the claim for the next submission. If that fails, it lapses after `PENDING_S`."""
        if not self.is_asked or self.is_pending or self.duplicate_of is not None:
            return
        try:
            for _ in range(2):
                expired = replace(self._item(sent=False), expires_at=self.means.now())
                standing = await self.means.table.replace(expired)
                if standing is None or standing.data.get("job") != self.chosen.id:
                    return
                self.known = standing  # written by a request whose answer was lost
        except TransportError as error:
            self._report("take back", error)

    async def _write_down(self) -> None:
        """Write the job to the claim, unless that names a later one.

        The claim lasts as long as any of its jobs has asked for: each may come only then, and has
        to find that a later one counts.
        """
        for _ in range(_TRIES):
            standing = self.known
            kept = text(standing.data.get("job"), _LONGEST_ID) if standing.version else ""
            if kept is None:
                self._tell_strange()
            item, until = self._item(sent=True), standing.expires_at if kept else None
            latest = max(kept or "", self.chosen.id)
            lasts = max(filter(None, (item.expires_at, until)))
            if latest == kept and lasts == until:
                return
            written = replace(item, data={"job": latest}, expires_at=lasts)
            if (met := await self.means.table.replace(written)) is None:
                return
            self.known = met
        raise TransportError("too many jobs that replace each other at once")

    def _item(self, *, sent: bool) -> Item:
        now = self.means.now()
        begins = now
        # The claim has to outlast the job's delay, so that later jobs can replace it.
        if self.by.mode == "replace" and (due := self.chosen.envelope.not_before) is not None:
            begins = max(now, due)
        return Item(
            pk=self.known.pk,
            sk=self.known.sk,
            data={"job": self.chosen.id, "sent": sent, "at": now.timestamp()},
            version=self.known.version + 1,
            expires_at=begins + timedelta(seconds=self.by.for_s),
        )

    def _read(self, standing: Item) -> None:
        from headgate.jobs.client.inline.course import runs_in_place  # only for duplicates

        # A job that runs in place would wait for itself: its claim is confirmed when it has ended.
        counts = standing.data["sent"] or runs_in_place(standing.data["job"])
        self.is_pending = not counts
        self.duplicate_of = standing.data["job"] if counts else None

    def _is_unsent_self(self, standing: Item) -> bool:
        """Return True for the job's own claim, written by a request whose answer was lost."""
        found = standing.data.get("job"), standing.data.get("sent")
        return found == (self.chosen.id, False)

    def _is_free(self, standing: Item) -> bool:
        """Return True if the key may be taken over: its submission has died, or it is no claim."""
        if not _is_claim(standing):
            self._tell_strange()
            return True
        if standing.data["sent"]:
            return False
        # One from the future would be waited for until then.
        return self._age_s(standing) > PENDING_S + SKEW_S

    def _age_s(self, standing: Item) -> float:
        age_s: float = abs(self.means.now().timestamp() - standing.data["at"])
        return age_s

    def _tell_strange(self) -> None:
        from headgate.jobs.core.events import ItemsSkipped  # only once something is wrong

        told = ItemsSkipped(at=self.means.now(), kind="unique key", items=1, job_id=self.chosen.id)
        self.means.tell(told)

    def _report(self, action: str, error: TransportError) -> None:
        from headgate.jobs.core.events import ClaimFailed  # only once something fails

        self.means.tell(
            ClaimFailed(
                at=self.means.now(),
                queue=self.chosen.queue.name,
                action=action,
                job_id=self.chosen.id,
                error=str(error),
            )
        )


def _is_claim(standing: Item) -> bool:
    """Return True if an item is a claim as `KeyClaim` writes it."""
    data = standing.data
    return (
        text(data.get("job"), _LONGEST_ID) is not None
        and isinstance(data.get("sent"), bool)
        and epoch_s(data.get("at")) is not None
    )
