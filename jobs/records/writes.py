"""Writing items by the batch, so that one refused item doesn't cost the others.

BatchWriteItem takes all of a batch or, if one item can't be stored, none. The others are then
written without it, and its bare mark in its place: that it happened, without its long values.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from headgate.jobs.core.batching import TRIES, pause_s
from headgate.jobs.core.ports.table import AsyncTable, Item
from headgate.jobs.core.ports.transport import EntryFailure
from headgate.jobs.errors import ItemRefused
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.jobs.values.own_log import OwnLog
from headgate.jobs.values.texts import legible, text_of

REFUSAL = "refused"
"""Field of a bare mark with the reason why the item was refused."""

_LONGEST_VALUE = 200
"""Characters that a bare mark keeps of a text."""

_LARGEST_NUMBER = 2**53
"""Magnitude that no number written by Headgate itself exceeds."""

_log = OwnLog("headgate.worker")


@light_dataclass(frozen=True, slots=True, kw_only=True)
class WriteRefusal:
    """An item that the table can't hold."""

    item: Item
    error: ItemRefused
    marked: bool
    """True if its bare mark was stored in its place; if not, not even its key can be stored."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The outcome of a batch; the items in neither list were written."""

    left: Sequence[Item] = ()
    """The table was too busy for these: try them again."""
    refused: Sequence[WriteRefusal] = field(default_factory=list)


async def put_items(table: AsyncTable, items: Sequence[Item]) -> Written:
    """Write items by `AsyncTable.put`, with bare marks in place of those that the table refuses.

    Finding one of 25 takes about ten requests, so texts are made to fit where they come from
    (`jobs.values.texts`).

    Raises:
        TransportError: it is not known what was written; call again with the same items.
    """
    try:
        return Written(left=await table.put(items))
    except ItemRefused as error:
        if len(items) == 1:
            return await _put_bare(table, items[0], error)
    middle = len(items) // 2
    halves = [await put_items(table, half) for half in (items[:middle], items[middle:])]
    return Written(
        left=[item for half in halves for item in half.left],
        refused=[refusal for half in halves for refusal in half.refused],
    )


async def put_patiently(
    table: AsyncTable,
    items: Sequence[Item],
    *,
    sleep: Callable[[float], Awaitable[None]],
    rng: random.Random,
) -> Sequence[Item]:
    """Write items by `AsyncTable.put`, retrying those left out after pauses; return the rest.

    Raises:
        TransportError: as `AsyncTable.put`.
    """
    for tries in range(1, TRIES + 1):
        if not (items := await table.put(items)):
            break
        if tries < TRIES:
            await sleep(pause_s(tries, rng))
    return items


async def put_batch(
    table: AsyncTable,
    items: Sequence[Item],
    *,
    on_refused: Callable[[WriteRefusal], None] | None = None,
) -> list[EntryFailure]:
    """Adapt `put_items` to `jobs.core.batcher.Batcher`.

    An item whose bare mark was stored counts as written.

    Args:
        table: the table to write to.
        items: at most 25, of different places.
        on_refused: called with each item that was refused; None logs them.
    """
    written = await put_items(table, items)
    places = {(item.pk, item.sk): index for index, item in enumerate(items)}
    failures = [
        EntryFailure(
            index=places[item.pk, item.sk],
            code="Unprocessed",
            message="the table was too busy",
            sender_fault=False,
        )
        for item in written.left
    ]
    for refusal in written.refused:
        (on_refused or log_refusal)(refusal)
        if not refusal.marked:
            index = places[refusal.item.pk, refusal.item.sk]
            text = text_of(refusal.error)
            failures.append(
                EntryFailure(index=index, code="Refused", message=text, sender_fault=True)
            )
    return failures


def log_refusal(refusal: WriteRefusal) -> None:
    """Log which item could not be stored whole, and why."""
    _log.error("%s", text_of(refusal.error))


def bare_mark(item: Item, why: str) -> Item:
    """Return an item with the short values of its data, so that only its key can be refused.

    ``why`` is stored in it under `REFUSAL`.
    """
    line = item.line and replace(item.line, summary=_short(item.line.summary))
    return replace(item, data={**_short(item.data), REFUSAL: legible(why)}, line=line)


def _short(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        legible(name, _LONGEST_VALUE): legible(value, _LONGEST_VALUE) if _is_text(value) else value
        for name, value in values.items()
        if name and (_is_text(value) or _is_plain(value))
    }


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_plain(value: object) -> bool:
    if isinstance(value, float):
        return value == 0 or 2**-53 <= abs(value) <= _LARGEST_NUMBER
    return value is None or (isinstance(value, int) and abs(value) <= _LARGEST_NUMBER)


async def _put_bare(table: AsyncTable, item: Item, error: ItemRefused) -> Written:
    try:
        left = await table.put([bare_mark(item, text_of(error))])
    except ItemRefused:
        return Written(refused=[WriteRefusal(item=item, error=error, marked=False)])
    if left:
        return Written(left=[item])
    return Written(refused=[WriteRefusal(item=item, error=error, marked=True)])
