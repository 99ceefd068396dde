"""A replay that is killed at any of its requests, one after the other, and resumed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from headgate import App, AsyncClient, Priority
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.dead_letters.replaying.report import ReplayState
from headgate.jobs.dead_letters.replaying.services import HOLD
from headgate.jobs.messages.envelope import parse
from headgate.jobs.testing.inspection import StoredMessage
from tests.support.replays import Cut, Killed, Moment, ReplayBench

FEW, MORE = 6, 24
"""Numbers of letters that one request sends, and that several send at the same time."""

QUEUE, LETTERS = "shop-mail-normal", "shop-mail-normal-dlq"
FIFO, FIFO_LETTERS = "shop-orders-normal.fifo", "shop-orders-normal-dlq.fifo"

LEASE_OVER = timedelta(minutes=2)


class Note(BaseModel):
    text: str


def _app() -> App:
    app = App("shop")
    mail = app.queue("mail", priorities=[Priority.NORMAL])
    orders = app.queue("orders", priorities=[Priority.NORMAL], fifo=True)

    @mail.job("send")
    async def send(_note: Note) -> None: ...

    @orders.job("ship", group_by=lambda note: note.text)
    async def ship(_note: Note) -> None: ...

    return app


APP = _app()


async def with_letters(queue: str, letters: str, count: int) -> tuple[ReplayBench, set[str]]:
    """Return a bench with dead letters, and the ids of their jobs."""
    made = ReplayBench(APP)
    client = AsyncClient(made.app, backend=made.backend)
    kind = made.app.types["ship" if queue == FIFO else "send"]
    notes = [Note(text=f"group-{number % 3}") for number in range(count)]
    ids = {handle.id for handle in await client.submit_many(kind, notes)}
    for held in await _all_of(made, queue):
        dead = OutgoingMessage(
            body=held.body,
            attributes={"Reason": "attempts-exhausted", "Attempts": "3"},
            group=held.group,
            deduplication_id=held.message_id if queue == FIFO else None,
        )
        assert await made.sqs.send(letters, [dead]) == []
    made.clock.advance(timedelta(hours=1))
    return made, ids


async def _all_of(made: ReplayBench, queue: str) -> list[Any]:
    found: list[Any] = []
    while batch := await made.sqs.receive(queue, limit=10, wait_s=0):
        found += batch
        await made.sqs.delete(queue, [each.receipt for each in batch])
    return found


def jobs_of(messages: list[StoredMessage]) -> Counter[str]:
    return Counter(str(parse(message.body).id) for message in messages)


async def resumed(made: ReplayBench) -> None:
    """Go on in another process, however far the killed one came."""
    made.clock.advance(LEASE_OVER)
    replays = made.replays()
    if not (found := await replays.all()):
        await made.start()  # it was killed before it was entered
    elif found[0].state is not ReplayState.DONE:
        assert found[0].state is ReplayState.STOPPED
        report = await replays.resume(found[0].id)
        assert report.state is ReplayState.DONE


async def requests_of_a_whole_replay(queue: str, letters: str, count: int) -> list[str]:
    made, _ = await with_letters(queue, letters, count)
    cut = Cut()
    await made.start(cut=cut)
    return cut.requests


@pytest.mark.parametrize(("queue", "letters"), [(QUEUE, LETTERS), (FIFO, FIFO_LETTERS)])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_replay_killed_at_any_request_and_resumed_loses_nothing(
    queue: str, letters: str, moment: Moment
) -> None:
    async def each() -> None:
        requests = await requests_of_a_whole_replay(queue, letters, FEW)
        assert {"receive", "send", "put", "delete", "replace"} <= {*requests}
        for number, request in enumerate(requests):
            twice = await _killed_at(number, moment, queue, letters, FEW)
            # Only between a sending and its mark does nothing tell that it was made.
            unmarked = (request, moment) in {("send", "after"), ("put", "before")}
            assert unmarked or not twice, f"killed {moment} request {number}, {request}"

    asyncio.run(each())


def test_a_replay_killed_while_it_sends_several_requests_loses_nothing() -> None:
    async def each() -> None:
        requests = await requests_of_a_whole_replay(QUEUE, LETTERS, MORE)
        for number, request in enumerate(requests):
            if request in {"send", "put", "delete"}:
                await _killed_at(number, "after", QUEUE, LETTERS, MORE)

    asyncio.run(each())


async def _killed_at(
    number: int, moment: Moment, queue: str, letters: str, count: int
) -> Collection[str]:
    """Kill a replay at a request, and resume it; return the ids of the jobs that it sent twice."""
    made, ids = await with_letters(queue, letters, count)
    with pytest.raises(Killed):
        await made.start(cut=Cut(number, moment))
    await resumed(made)
    sent = jobs_of(made.sqs.messages(queue))
    assert {*sent} == ids, f"killed {moment} request {number}"
    assert made.sqs.messages(letters) == [], f"killed {moment} request {number}"
    assert max(sent.values()) <= 2
    return {job_id for job_id, sendings in sent.items() if sendings > 1}


async def test_what_a_killed_replay_held_is_waited_for() -> None:
    made, ids = await with_letters(QUEUE, LETTERS, FEW)
    requests = await requests_of_a_whole_replay(QUEUE, LETTERS, FEW)
    with pytest.raises(Killed):
        await made.start(cut=Cut(requests.index("send")))
    killed_at = made.clock.now()
    await resumed(made)
    assert made.clock.now() - killed_at >= HOLD
    assert {*jobs_of(made.sqs.messages(QUEUE))} == ids
