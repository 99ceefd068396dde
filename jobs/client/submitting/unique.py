"""Submission of unique jobs, whose keys are claimed in the table.

    pk  unique#KEY   sk  claim

    mode     before it is sent                after
    first    {"job", "sent": false, "at"}     {"job", "sent": true, "at"}
    replace                                   {"job"}

**first.** The submission that creates the item sends its job. Others return that job once it is
sent: they wait for it, so that no submission returns a job before SQS has it. While SQS doesn't
answer, `at` is renewed. If an item whose job is not sent has not been renewed for `PENDING_S`, its
process has died: the next submission takes it over.

**replace.** A later job has a greater id (`jobs.messages.job_ids.JobIds`): within a process
always, between processes by their clocks, to the millisecond. It is sent first, and then written to
the item, unless the item already has a later one. A worker that starts a job drops it if the item
has a later one. So at no time can both be lost.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from headgate.jobs.core.clock import SKEW_S
from headgate.jobs.core.concurrency import Parallelism
from headgate.jobs.core.events import Event
from headgate.jobs.core.ports.table import AsyncTable, Item
from headgate.jobs.errors import HeadgateError, PartlySubmitted, TransportError
from headgate.jobs.messages.envelope import UniqueBy
from headgate.jobs.submission.prepare import Submission
from headgate.jobs.submission.refused import Result, behind, is_shared, raise_refused
from headgate.jobs.submission.unique_keys import place
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.jobs.values.stored import epoch_s, text

PENDING_S = 15.0
"""Seconds without a renewal after which a job that is not sent counts as abandoned."""

RENEWED_S = PENDING_S / 3
"""Interval of the renewals, in seconds."""

_LONGEST_ID = 64

_LOOK_S = 0.1
"""Interval, in seconds, at which waiting submissions look at the item."""

_TOGETHER = 100
"""Keys whose jobs are sent before the next keys are claimed. So few that the claims last until they
are confirmed, even if a write takes half a second; a multiple of the jobs in one request to SQS."""

_AT_ONCE = 8
"""Most requests to the table at a time."""

_TRIES = 20
"""Attempts to claim a key while other submissions' writes come first."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class UniqueSubmitter:
    """Submits the unique jobs of one client; its ports are awaited."""

    table: AsyncTable
    send: Callable[[Sequence[Submission]], Awaitable[None]]
    """Sends jobs; raises as `headgate.Client.submit_many` does."""
    concurrency: Parallelism
    sleep: Callable[[float], Awaitable[None]]
    now: Callable[[], datetime]
    """The wall clock."""
    tell: Callable[[Event], None]
    """Receives events of duplicates, and of failed claims."""

    async def submit(self, submissions: Sequence[Submission]) -> list[Submission]:
        """Submit the jobs of one call, all of them unique; return what each has become.

        Raises:
            TransportError: the table or SQS could not be reached, or refused; SQS took none.
            PartlySubmitted: SQS took some, and not the others, which it lists.
        """
        keys = self._by_key(submissions)
        failed: dict[str, Result] = {}
        waiting = [*keys.values()]
        while waiting:
            together, waiting = waiting[:_TOGETHER], waiting[_TOGETHER:]
            lost = await self._claim_and_send(together, failed)
            failed |= lost
            waiting = _not_behind(
                [key for key in together if key.chosen.id in lost], waiting, failed
            )
        for key in keys.values():
            # Only now: waiting earlier could deadlock on a claim of our own.
            if key.is_pending:
                away = next(filter(is_shared, failed.values()), None)
                failed |= {key.chosen.id: away} if away else await self._send_after_waiting(key)
        results = [failed.get(_key_of(each, keys).chosen.id) for each in submissions]
        became = [
            self._became(each, _key_of(each, keys)) if result is None else each
            for each, result in zip(submissions, results, strict=True)
        ]
        raise_refused(became, results)
        return became

    async def _claim_and_send(
        self, keys: Sequence[_Key], before: Mapping[str, Result]
    ) -> dict[str, Result]:
        """Claim so few keys that the claims last, and send their jobs; as `_send`.

        None is tried if a request for the keys before them has failed, since theirs would too.
        """
        if away := next(filter(is_shared, before.values()), None):
            return {key.chosen.id: away for key in keys}
        try:
            await self._each(_Key.reserve, keys)
            # A slow table: by now others may take a claim for abandoned, and have it.
            await self._each(_Key.reserve, [key for key in keys if key.is_old])
        except TransportError as error:
            await self._each(_Key.take_back, keys)
            return dict.fromkeys((key.chosen.id for key in keys), error)
        return await self._send([key for key in keys if key.is_ours])

    async def _each(
        self, call: Callable[[_Key], Coroutine[Any, Any, None]], keys: Sequence[_Key]
    ) -> None:
        """Make a call for each key, some of them side by side."""
        if len(keys) > 1:
            await self.concurrency.each(call, keys, at_once=_AT_ONCE)
        elif keys:
            await call(keys[0])

    def _by_key(self, submissions: Sequence[Submission]) -> dict[str, _Key]:
        found: dict[str, _Key] = {}
        for submission in submissions:
            if (by := submission.unique) and (by.mode == "replace" or by.key not in found):
                found[by.key] = _Key(self, submission, by, place(by))
        return found

    async def _send_after_waiting(self, key: _Key) -> dict[str, Result]:
        """Send the job of a key unless the submission that has the key does; as `_send`."""
        try:
            await key.wait()
        except TransportError as error:
            return {key.chosen.id: error}
        return await self._send([key] if key.is_ours else [])

    async def _send(self, keys: Sequence[_Key]) -> dict[str, Result]:
        """Send the jobs of these keys, and settle their claims; return what failed, by job."""
        if not keys:
            return {}
        failed: dict[str, Result] = {}
        try:
            await self._send_renewing([key.chosen for key in keys], [k for k in keys if k.is_asked])
        except PartlySubmitted as error:
            failed = {refusal.id: refusal for refusal in error.refusals}
        except HeadgateError as error:
            failed = dict.fromkeys((key.chosen.id for key in keys), error)

        async def settle(key: _Key) -> None:
            await (key.take_back() if key.chosen.id in failed else key.confirm())

        await self._each(settle, keys)
        return failed

    async def _send_renewing(
        self, submissions: Sequence[Submission], claimed: Sequence[_Key]
    ) -> None:
        """Send the jobs, and renew the claims meanwhile."""

        async def renew() -> None:
            await self._each(_Key.renew, claimed)

        if not claimed:
            await self.send(submissions)
            return
        async with self.concurrency.meanwhile(renew, every_s=RENEWED_S):
            await self.send(submissions)

    def _became(self, submission: Submission, key: _Key) -> Submission:
        if key.kept == submission.id:
            return submission
        self.tell(submission.deduplicated(key.kept, self.now()))
        return replace(submission, duplicate_of=key.kept)


def _not_behind(
    lost: Sequence[_Key], waiting: Sequence[_Key], failed: dict[str, Result]
) -> list[_Key]:
    """Return the keys whose jobs would overtake none of their FIFO group; the others fail."""
    groups = {key.group: failed[key.chosen.id] for key in lost if key.group}
    for key in waiting:
        if key.group in groups:
            failed[key.chosen.id] = behind(groups[key.group])
    return [key for key in waiting if key.group not in groups]


def _key_of(submission: Submission, keys: Mapping[str, _Key]) -> _Key:
    assert submission.unique is not None  # noqa: S101 - `UniqueSubmitter` takes no others
    return keys[submission.unique.key]


@dataclass(slots=True)
class _Key:
    """One key of a call, and the state of its claim."""

    submitter: UniqueSubmitter
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
            standing = await self.submitter.table.replace(item)
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
            await self.submitter.sleep(_LOOK_S)
            standing = await self.submitter.table.get(self.known.pk, self.known.sk)
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
            standing = await self.submitter.table.replace(item)
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
                expired = replace(self._item(sent=False), expires_at=self.submitter.now())
                standing = await self.submitter.table.replace(expired)
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
            if (met := await self.submitter.table.replace(written)) is None:
                return
            self.known = met
        raise TransportError("too many jobs that replace each other at once")

    def _item(self, *, sent: bool) -> Item:
        now = self.submitter.now()
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
        self.is_pending = not standing.data["sent"]
        self.duplicate_of = standing.data["job"] if standing.data["sent"] else None

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
        age_s: float = abs(self.submitter.now().timestamp() - standing.data["at"])
        return age_s

    def _tell_strange(self) -> None:
        from headgate.jobs.core.events import ItemsSkipped  # only once something is wrong

        told = ItemsSkipped(
            at=self.submitter.now(), kind="unique key", items=1, job_id=self.chosen.id
        )
        self.submitter.tell(told)

    def _report(self, action: str, error: TransportError) -> None:
        from headgate.jobs.core.events import ClaimFailed  # only once something fails

        self.submitter.tell(
            ClaimFailed(
                at=self.submitter.now(),
                queue=self.chosen.queue.name,
                action=action,
                job_id=self.chosen.id,
                error=str(error),
            )
        )


def _is_claim(standing: Item) -> bool:
    """Return True if an item is a claim as `_Key` writes it."""
    data = standing.data
    return (
        text(data.get("job"), _LONGEST_ID) is not None
        and isinstance(data.get("sent"), bool)
        and epoch_s(data.get("at")) is not None
    )
