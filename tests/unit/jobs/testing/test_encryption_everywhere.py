"""With ``App(encryption=...)`` no way that a job may take holds its payload open.

The ways of one job alone are in `test_encryption`; these are the ones where features meet.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import BaseModel

from headgate import (
    App,
    Backoff,
    Batch,
    BatchContext,
    Client,
    DeadLetterFilter,
    Encryption,
    JobContext,
    JobState,
    Priority,
    Replay,
    Retry,
    RetryLater,
    Schedule,
    Signing,
    Unique,
)
from headgate.jobs.errors import ServiceUnavailable
from headgate.jobs.testing import Harness
from tests.support.backends import over
from tests.support.sweep_bench import SweepBench
from tests.support.tape import Tape, recorded

CANARY = "canary 6e02 of Ada"
"""With spaces, which no hash and no base64 has by chance."""

DAY = timedelta(days=1)


class Card(BaseModel):
    number: str = CANARY
    fails: bool = False


class Bank:
    """An app whose types take every way, with the jobs that ran."""

    def __init__(self, encryption: Encryption | None) -> None:
        self.ran: list[str] = []
        self.waited: set[str] = set()
        """Ids of the jobs that have waited."""
        self.app = app = App(
            "shop",
            encryption=encryption,
            signing=Signing(),
            records="full",
            redact=[CANARY],
            replay=Replay(after=timedelta(hours=1)),
        )
        retry = Retry(max_attempts=2, backoff=Backoff.fixed(60))

        @app.job("embed", batch=Batch(5), bundle=True, retry=retry)
        async def embed(cards: list[Card], ctx: BatchContext) -> list[str]:
            ctx.progress(10, cards[0].number, card=cards[0].number)
            for card in cards:
                await ctx.job(card).submit(self.later, card)
                if card.fails:
                    ctx.fail(card, ValueError(card.number))
            return [card.number for card in cards]

        @app.job("late", once=True)
        async def late(card: Card, ctx: JobContext) -> str:
            if card.fails and ctx.id not in self.waited:
                self.waited.add(ctx.id)
                raise RetryLater(after=timedelta(hours=14), reason=card.number)
            self.ran.append(card.number)
            return card.number

        @app.job("refused", retry=Retry(max_attempts=1))
        def refused(card: Card) -> None:
            raise ValueError(card.number)

        ordered = app.queue("ordered", fifo=True, priorities=[Priority.NORMAL])

        @ordered.job("book", group_by=lambda _: "all")
        def book(card: Card) -> str:
            return card.number

        self.embed, self.later, self.refused, self.book = embed, late, refused, book


@pytest.fixture
def tape(monkeypatch: pytest.MonkeyPatch) -> Iterator[Tape]:
    with recorded(monkeypatch) as tape:
        yield tape


def test_batches_bundles_orders_long_waits_and_schedules_leave_nothing_open(tape: Tape) -> None:
    bank = Bank(Encryption(required=True))
    jobs = Harness(bank.app)
    jobs._hub.subscribe(tape)
    client = jobs.client
    handles = client.submit_many(bank.embed, [Card(), Card(fails=True), Card()])
    booked = client.submit(bank.book, Card())
    waited = client.submit(bank.later, Card(fails=True), unique=Unique(within=DAY, keep="last"))
    client.schedules.create("nightly", bank.later, Card(), schedule=Schedule.rate(DAY), limit=2)
    client.schedules.pause("nightly")
    client.schedules.resume("nightly")
    client.schedules.reschedule("nightly", schedule=Schedule.rate(2 * DAY), limit=2)
    client.schedules.run_now("nightly")
    jobs.drain()
    client.jobs.rerun(booked.id, payload=Card(number=f"{CANARY} again"))
    jobs.clock.advance(2 * DAY)
    jobs.drain()

    assert [each.state() for each in handles] == [
        JobState.COMPLETED,
        JobState.DEAD,
        JobState.COMPLETED,
    ]
    assert waited.result(1) == booked.result(1) == CANARY
    assert len(bank.ran) > 4
    assert tape.where(CANARY) == []


def test_dead_letters_wherever_they_go_leave_nothing_open(tape: Tape, tmp_path: Path) -> None:
    bank = Bank(Encryption())
    jobs = Harness(bank.app)
    jobs._hub.subscribe(tape)
    client = jobs.client
    client.submit_many(bank.refused, [Card(), Card()])
    jobs.drain()
    _sweep(jobs, bank.app)
    jobs.clock.advance(timedelta(hours=2))
    assert _sweep(jobs, bank.app) == 2, "they were sent back"
    jobs.drain()
    client.dead_letters.export(DeadLetterFilter(), to=tmp_path / "letters.jsonl")
    client.dead_letters.purge(DeadLetterFilter())
    client.dead_letters.import_(tmp_path / "letters.jsonl")

    assert len(jobs.dead_letters(bank.refused)) == 2
    assert CANARY.encode() not in (tmp_path / "letters.jsonl").read_bytes()
    assert any(key.startswith("dead-letters/") for key in jobs.store.objects)
    assert all(CANARY.encode() not in gzip.decompress(each) for each in jobs.store.objects.values())
    assert tape.where(CANARY) == []


def test_a_spool_on_the_way_to_signed_queues_leaves_nothing_open(
    tape: Tape, tmp_path: Path
) -> None:
    bank = Bank(Encryption())
    jobs = Harness(bank.app)
    path = tmp_path / "spool"
    jobs.sqs.faults.raise_on("send", ServiceUnavailable("SQS is down"), times=1)
    with _spooling(jobs, path) as client:
        handles = client.submit_many(bank.embed, [Card(), Card()])
        kept = b"".join(each.read_bytes() for each in tmp_path.iterdir())
    jobs.drain()

    assert b'"sealed"' in kept
    assert CANARY.encode() not in kept
    assert [each.state() for each in handles] == [JobState.COMPLETED] * 2
    assert tape.where(CANARY) == []


def test_without_the_option_the_same_search_finds_it_in_every_way(tape: Tape) -> None:
    bank = Bank(None)
    jobs = Harness(bank.app)
    jobs.client.submit_many(bank.embed, [Card(), Card()])
    jobs.client.submit(bank.refused, Card())
    jobs.drain()
    _sweep(jobs, bank.app)
    jobs.client.dead_letters.purge(DeadLetterFilter())
    found = {part.partition("(")[0].strip("'\"") for part in tape.where(CANARY)}
    assert found >= {"OutgoingMessage", "Item"}
    assert any(CANARY.encode() in gzip.decompress(each) for each in jobs.store.objects.values())


def _spooling(jobs: Harness, path: Path) -> Client:
    backend = over(
        jobs.sqs.sync,
        table=jobs.table.sync,
        store=jobs.store.sync,
        keys=jobs.keys.sync,
        secrets=jobs.secrets.sync,
        clock=jobs.clock,
    )
    return Client(jobs.app, backend=backend, spool=path)


def _sweep(jobs: Harness, app: App) -> int:
    """Sweep the harness's dead letters; return how many were sent back."""
    bench = SweepBench(app, clock=jobs.clock)
    bench.sqs, bench.table, bench.store = jobs.sqs, jobs.table, jobs.store
    return bench.swept().replayed.total()
