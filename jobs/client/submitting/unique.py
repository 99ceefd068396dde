"""Submission of unique jobs, whose keys are claimed in the table.

    pk  unique#KEY   sk  claim

    mode     before it is sent                after
    first    {"job", "sent": false, "at"}     {"job", "sent": true, "at"}
    replace                                   {"job"}

**first.** The submission that creates the item sends its job. Others return that job once it is
sent: they wait for it, so that no submission returns a job before SQS has it. While SQS doesn't
answer, `at` is renewed. If an item whose job is not sent has not been renewed for 15 seconds, its
process has died: the next submission takes it over.

**replace.** A later job has a greater id (`jobs.messages.job_ids.JobIds`): within a process
always, between processes by their clocks, to the millisecond. It is sent first, and then written to
the item, unless the item already has a later one. A worker that starts a job drops it if the item
has a later one. So at no time can both be lost.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any

from headgate.jobs.client.submitting.key_claims import RENEWED_S, ClaimMeans, KeyClaim
from headgate.jobs.core.concurrency import Parallelism
from headgate.jobs.errors import HeadgateError, PartlySubmitted, TransportError
from headgate.jobs.submission.prepare import Submission
from headgate.jobs.submission.refused import Result, behind, is_shared, raise_refused
from headgate.jobs.submission.unique_keys import place
from headgate.jobs.values.light_dataclass import light_dataclass

_TOGETHER = 100
"""Keys whose jobs are sent before the next keys are claimed. So few that the claims last until they
are confirmed, even if a write takes half a second; a multiple of the jobs in one request to SQS."""

_AT_ONCE = 8
"""Most requests to the table at a time."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class UniqueSubmitter:
    """Submits the unique jobs of one client; its ports are awaited."""

    means: ClaimMeans
    send: Callable[[Sequence[Submission]], Awaitable[None]]
    """Sends jobs; raises as `headgate.Client.submit_many` does."""
    concurrency: Parallelism

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
        self, keys: Sequence[KeyClaim], before: Mapping[str, Result]
    ) -> dict[str, Result]:
        """Claim so few keys that the claims last, and send their jobs; as `_send`.

        None is tried if a request for the keys before them has failed, since theirs would too.
        """
        if away := next(filter(is_shared, before.values()), None):
            return {key.chosen.id: away for key in keys}
        try:
            await self._each(KeyClaim.reserve, keys)
            # A slow table: by now others may take a claim for abandoned, and have it.
            await self._each(KeyClaim.reserve, [key for key in keys if key.is_old])
        except TransportError as error:
            await self._each(KeyClaim.take_back, keys)
            return dict.fromkeys((key.chosen.id for key in keys), error)
        return await self._send([key for key in keys if key.is_ours])

    async def _each(
        self, call: Callable[[KeyClaim], Coroutine[Any, Any, None]], keys: Sequence[KeyClaim]
    ) -> None:
        """Make a call for each key, some of them side by side."""
        if len(keys) > 1:
            await self.concurrency.each(call, keys, at_once=_AT_ONCE)
        elif keys:
            await call(keys[0])

    def _by_key(self, submissions: Sequence[Submission]) -> dict[str, KeyClaim]:
        found: dict[str, KeyClaim] = {}
        for submission in submissions:
            if (by := submission.unique) and (by.mode == "replace" or by.key not in found):
                found[by.key] = KeyClaim(self.means, submission, by, place(by))
        return found

    async def _send_after_waiting(self, key: KeyClaim) -> dict[str, Result]:
        """Send the job of a key unless the submission that has the key does; as `_send`."""
        try:
            await key.wait()
        except TransportError as error:
            return {key.chosen.id: error}
        return await self._send([key] if key.is_ours else [])

    async def _send(self, keys: Sequence[KeyClaim]) -> dict[str, Result]:
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

        async def settle(key: KeyClaim) -> None:
            await (key.take_back() if key.chosen.id in failed else key.confirm())

        await self._each(settle, keys)
        return failed

    async def _send_renewing(
        self, submissions: Sequence[Submission], claimed: Sequence[KeyClaim]
    ) -> None:
        """Send the jobs, and renew the claims meanwhile."""

        async def renew() -> None:
            await self._each(KeyClaim.renew, claimed)

        if not claimed:
            await self.send(submissions)
            return
        async with self.concurrency.meanwhile(renew, every_s=RENEWED_S):
            await self.send(submissions)

    def _became(self, submission: Submission, key: KeyClaim) -> Submission:
        if key.kept == submission.id:
            return submission
        self.means.tell(submission.deduplicated(key.kept, self.means.now()))
        return replace(submission, duplicate_of=key.kept)


def _not_behind(
    lost: Sequence[KeyClaim], waiting: Sequence[KeyClaim], failed: dict[str, Result]
) -> list[KeyClaim]:
    """Return the keys whose jobs would overtake none of their FIFO group; the others fail."""
    groups = {key.group: failed[key.chosen.id] for key in lost if key.group}
    for key in waiting:
        if key.group in groups:
            failed[key.chosen.id] = behind(groups[key.group])
    return [key for key in waiting if key.group not in groups]


def _key_of(submission: Submission, keys: Mapping[str, KeyClaim]) -> KeyClaim:
    assert submission.unique is not None  # noqa: S101 - `UniqueSubmitter` takes no others
    return keys[submission.unique.key]
