"""The replays of ``client.dead_letters``, with both kinds of client."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from headgate import App, AsyncClient, Client, DeadLetterFilter
from headgate.errors import ReplayOver, SettingsInvalid
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.dead_letters.replaying.report import ReplayState
from headgate.testing import MemoryBackend
from tests.support.clients import Kind, awaited

QUEUE, LETTERS = "shop-jobs-normal", "shop-jobs-normal-dlq"


class Note(BaseModel):
    text: str


class Shop:
    """A client over services in memory, and dead letters."""

    def __init__(self, kind: Kind, count: int) -> None:
        app = App("shop")
        send = app.define("send", Note)
        self.backend = MemoryBackend(app)
        with Client(app, backend=self.backend) as client:
            self.ids = [job.id for job in client.submit_many(send, [Note(text="a")] * count)]
        sqs = self.backend.sqs.sync
        while found := sqs.receive(QUEUE, limit=10, wait_s=0):
            sqs.delete(QUEUE, [each.receipt for each in found])
            sqs.send(LETTERS, [OutgoingMessage(body=each.body) for each in found])
        self.backend.clock.advance(60)
        self.client: AsyncClient = (
            AsyncClient(app, backend=self.backend)
            if kind == "AsyncClient"
            else awaited(Client(app, backend=self.backend))
        )

    @property
    def sent(self) -> int:
        return len(self.backend.sqs.messages(QUEUE))


async def test_letters_are_replayed_by_filter_and_by_id(kind: Kind) -> None:
    shop = Shop(kind, 40)
    letters = shop.client.dead_letters
    plan = await letters.replay(DeadLetterFilter(), dry_run=True)
    assert (plan.sent, shop.sent) == (40, 0)
    steps: list[int] = []
    report = await letters.replay(shop.ids[:3], on_step=lambda step: steps.append(step.sent))
    assert (report.sent, shop.sent, steps[0], steps[-1]) == (3, 3, 0, 3)
    report = await letters.replay(DeadLetterFilter(types=("send",)), spread=timedelta(minutes=2))
    assert (report.state, report.sent, shop.sent) == (ReplayState.DONE, 37, 40)
    assert sorted([each.sent for each in await letters.replays()]) == [3, 37]
    assert (await letters.get_replay(report.id)).total == 37


async def test_a_replay_is_stopped_resumed_and_over(kind: Kind) -> None:
    shop = Shop(kind, 40)
    letters = shop.client.dead_letters
    stop: Any = letters.stop
    report = await letters.replay(DeadLetterFilter(), rate=1, on_step=lambda _step: stop())
    assert (report.state, report.reason) == (ReplayState.STOPPED, "interrupted")
    rest = await letters.resume(report.id)
    assert (rest.state, shop.sent) == (ReplayState.DONE, 40)
    with pytest.raises(ReplayOver):
        await letters.abort(report.id)


@pytest.mark.parametrize("letters", ["an-id", [], None])
async def test_what_selects_nothing_is_refused(kind: Kind, letters: Any) -> None:
    shop = Shop(kind, 0)
    with pytest.raises(SettingsInvalid, match="DeadLetterFilter"):
        await shop.client.dead_letters.replay(letters)
