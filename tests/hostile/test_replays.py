"""Strange replays in the table, and strange letters in the queues: they stop no replay."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from pydantic_core import to_json

from headgate import App
from headgate.jobs.core.ports.table import Item
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.dead_letters.replaying.marks import left_of, partition_of
from headgate.jobs.dead_letters.replaying.report import (
    REPLAYS,
    ReplayReport,
    ReplayState,
    read_replay,
    replay_item,
)
from headgate.testing import MemoryBackend
from tests.hostile.examples import fields, hostile
from tests.support.replays import EVERYTHING, ReplayBench

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LETTERS = "shop-jobs-normal-dlq"


class Note(BaseModel):
    text: str


APP = App("shop")
APP.define("send", Note)

_WRITTEN: dict[str, Any] = dict(
    replay_item(
        ReplayReport(
            id="r-1",
            state=ReplayState.STOPPED,
            started_at=NOW,
            updated_at=NOW,
            filter=EVERYTHING,
            options=ReplayBench.options(rate=1, set={"text": "a"}),
        ),
        runner="w-1",
        until=NOW,
        version=1,
    ).data
)
"""A replay as it is written."""


def _changed() -> st.SearchStrategy[dict[str, Any]]:
    """Return replays with some fields of any value."""
    return fields(*_WRITTEN).map(lambda strange: {**_WRITTEN, **strange})


@hostile
@given(_changed() | fields(*_WRITTEN))
def test_any_item_is_a_whole_replay_or_none(data: dict[str, Any]) -> None:
    found = read_replay(Item(pk=REPLAYS, sk="r-1", data=data), NOW)
    assert found is None or isinstance(found.sent, int)


def test_strange_replays_and_marks_stop_no_replay() -> None:
    backend = MemoryBackend(APP)
    bench = ReplayBench(APP, backend)
    strange: list[dict[str, Any]] = [{}, {"state": 7}, {**_WRITTEN, "sent": -1}]
    items = [Item(pk=REPLAYS, sk=str(n), data=data) for n, data in enumerate(strange)]
    items.append(Item(pk=REPLAYS, sk="r-1", data=_WRITTEN, version=1))
    items += [
        Item(pk=partition_of("r-1"), sk=sk, data={"job": 7, "why": ["a"]})
        for sk in ("sent#", "refused#m-1", "other")
    ]
    asyncio.run(backend.table.put(items))
    backend.sqs.send_now(LETTERS, [OutgoingMessage(body="{}")])
    backend.clock.advance(60)
    assert bench.replay().sent == 1
    replays = asyncio.run(bench.replays().all())
    assert {each.id for each in replays} >= {"r-1"}
    assert len(replays) == 2, "its own, and the one that can be read"
    [left] = asyncio.run(left_of(backend.table, "r-1"))
    assert (left.message_id, left.job_id, left.why) == ("m-1", None, "unknown")


_BODIES = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.builds(
    lambda strange: {
        "v": 1,
        "id": "0196a2b4-0000-7000-8000-000000000001",
        "type": "send",
        "payload": {"text": "a"},
        "queue": "jobs",
        "priority": "normal",
        "submitted_at": "2026-01-01T00:00:00Z",
        **strange,
    },
    fields("v", "id", "type", "payload", "payload_ref", "queue", "priority", "source", "schema"),
)
_VALUES = st.text("abc019\u2028", min_size=1, max_size=8)
_ATTRIBUTES = st.dictionaries(
    st.sampled_from(["Reason", "JobId", "JobType", "Replays", "Attempts", "FailedAt", "Other"]),
    _VALUES,
)


@hostile
@given(_BODIES, _ATTRIBUTES, st.sampled_from([LETTERS, "shop-quarantine"]))
def test_any_letter_is_sent_or_left_where_it_is(
    body: Any, attributes: dict[str, str], queue: str
) -> None:
    backend = MemoryBackend(APP)
    text = body if isinstance(body, str) else to_json(body).decode()
    letter = OutgoingMessage(body=text or "{}", attributes=attributes)
    if backend.sqs.send_now(queue, [letter]):
        return  # SQS takes no such message
    backend.clock.advance(60)
    report = ReplayBench(APP, backend).replay()
    assert report.state is ReplayState.DONE
    left = len(backend.sqs.messages(queue))
    assert (report.sent, report.refused) == (1 - left, left)
