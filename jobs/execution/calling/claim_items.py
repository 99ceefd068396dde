"""Claims as the table holds them: whose a claim is, and how it stands for other runners.

`jobs.execution.calling.claims` has the format, and writes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic_core import from_json, to_json

from headgate.jobs.core.clock import SKEW_S
from headgate.jobs.core.ports.table import AsyncTable, Item
from headgate.jobs.core.topology import MAX_VISIBILITY
from headgate.jobs.errors import PayloadUnopenable, ResultNotSerializable, TransportError
from headgate.jobs.execution.outcome import Discarded, Done
from headgate.jobs.messages.envelope import Sealed
from headgate.jobs.messages.sealing import About, Seals
from headgate.jobs.records.items import partition
from headgate.jobs.records.reading import sealed_value
from headgate.jobs.records.results import MAX_RESULT_BYTES, dump_result, dumped
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.jobs.values.stored import epoch_s, text

CLAIM = "claim"
"""Sort key of the claim among a job's items."""

_ERASED = "what it said was erased"

LONGEST_LEASE_S = MAX_VISIBILITY.total_seconds()
"""No lease is longer, in seconds: a claim that says so was not written by Headgate."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The job is claimed by another runner."""

    left_s: float
    """Seconds until its lease has expired by all clocks."""
    ran_s: float
    """Seconds for which it has held the claim."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The job has ended and must not run again."""

    outcome: Done | Discarded
    sealed: Sealed | None = None
    """Stands in place of the outcome's result, as long as it has not been opened."""


@light_dataclass(frozen=True, slots=True)
class Unreadable:
    """The claim is none that Headgate has written, so nothing tells whether the job has ended."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class ClaimSubject:
    """The jobs that a claim speaks for, besides their id."""

    job_type: str
    queue: str
    """The queue group."""

    def is_meant(self, item: Item) -> bool:
        """Return True unless a claim is another type's or queue's; earlier versions name none."""
        of = item.data.get("type", self.job_type), item.data.get("queue", self.queue)
        return of == (self.job_type, self.queue)

    @property
    def place(self) -> str:
        """The sort key of a claim that found the first place taken."""
        return f"{CLAIM}#{self.job_type}#{self.queue}"


def standing_of(item: Item, now_s: float) -> Held | Ended | Unreadable | None:
    """Return a claim's standing for other runners; None if the job may be claimed.

    Args:
        item: the table's item; of version 0 if there is none.
        now_s: the wall clock, in seconds since 1970.
    """
    if not item.version:
        return Unreadable() if item.data else None
    match item.data.get("state"):
        case "running" | "lapsed":
            return _held(item.data, now_s)
        case "done":
            return _end_of(item.data)
        case "free":
            return None
        case _:
            return Unreadable()


def _held(data: Mapping[str, Any], now_s: float) -> Held | Unreadable | None:
    since, until = epoch_s(data.get("since")), epoch_s(data.get("until"))
    if since is None or until is None or until > now_s + LONGEST_LEASE_S + SKEW_S:
        return Unreadable()
    left_s = until + SKEW_S - now_s
    return Held(left_s=left_s, ran_s=max(0.0, now_s - since)) if left_s > 0 else None


def _end_of(data: Mapping[str, Any]) -> Ended | Unreadable:
    if "discarded" in data:
        reason = text(data["discarded"], MAX_RESULT_BYTES)
        return Unreadable() if reason is None else Ended(outcome=Discarded(reason=reason))
    if "result_sealed" in data:
        sealed = sealed_value(data["result_sealed"])
        return Unreadable() if sealed is None else Ended(outcome=Done(), sealed=sealed)
    if "result" not in data:
        return Ended(outcome=Done())
    try:
        return Ended(outcome=Done(result=from_json(data["result"])))
    except (TypeError, ValueError):
        return Unreadable()


async def find_claim(table: AsyncTable, job_id: str, subject: ClaimSubject) -> Item | None:
    """Return the claim that deliveries of a job have made; None if they have not, or it expired.

    Raises:
        TransportError: the table can't be asked, or the claim can't be read.
    """
    item = await table.get(partition(job_id), CLAIM)
    if item is not None and not subject.is_meant(item):
        return await table.get(partition(job_id), subject.place)
    return item


def is_claim(item: Item) -> bool:
    """Return True if an item of a job's partition is a claim."""
    return item.sk == CLAIM or item.sk.startswith(f"{CLAIM}#")


def emptied(item: Item) -> Item | None:
    """Return the next version of a claim, without its tenant and what its handler said.

    None for a claim that has neither, or that a runner holds, and for any other item. The job still
    counts as ended, if it has.
    """
    if not is_claim(item) or item.data.get("state") not in ("done", "free"):
        return None
    said = {"result", "result_sealed", "discarded", "tenant"} & item.data.keys()
    data = {name: value for name, value in item.data.items() if name not in said}
    if "discarded" in said:
        data["discarded"] = _ERASED
    return replace(item, data=data, version=item.version + 1) if data != item.data else None


def ended(outcome: Done | Discarded) -> dict[str, Any]:
    """Return the claim's data for a job with this outcome."""
    match outcome:
        case Discarded(reason=reason):
            return {"state": "done", "discarded": reason}
        case Done():
            text = _json_text(outcome)
            return {"state": "done"} if text is None else {"state": "done", "result": text}


async def ended_sealed(
    outcome: Done | Discarded, seals: Seals, job_id: str, job_type: str
) -> dict[str, Any]:
    """Return the same as `ended`, with the result sealed; without it if KMS can't be asked."""
    if isinstance(outcome, Discarded) or outcome.result is None:
        return ended(outcome)
    try:
        value, size = outcome.written or await dumped(outcome.result)
        if size > MAX_RESULT_BYTES:
            return ended(Done())
        sealed = await seals.seal(About(kind="result", type=job_type, of=job_id), value)
    except (ResultNotSerializable, TransportError):
        return ended(Done())  # its job is done all the same
    return {"state": "done", "result_sealed": sealed.model_dump(exclude_none=True)}


async def opened(ended: Ended, seals: Seals | None, job_id: str, job_type: str) -> Ended:
    """Return the end of a job with its result; without it if that can never be opened.

    Raises:
        TransportError: KMS can't be asked.
    """
    if ended.sealed is None or seals is None:
        return ended
    about = About(kind="result", type=job_type, of=job_id)
    try:
        return Ended(outcome=Done(result=await seals.open(about, ended.sealed)))
    except PayloadUnopenable:
        return Ended(outcome=Done())


def _json_text(done: Done) -> str | None:
    try:
        value, size = done.written or dump_result(done.result)
    except ResultNotSerializable:
        return None  # its job is done all the same
    return to_json(value).decode() if size <= MAX_RESULT_BYTES else None
