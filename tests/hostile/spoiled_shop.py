"""An app in memory in which all has happened that is ever shown, with strange texts in it."""

from __future__ import annotations

import json
import random
import re
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from headgate import App, Client, DeadLetterFilter, JobContext, Priority, Retry, Schedule
from headgate.jobs.aws.dynamo.attributes import decode, encode
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.errors import HeadgateError
from headgate.jobs.records.fleet.worker_status import status_item
from headgate.jobs.testing import Harness
from tests.support.backends import over
from tests.support.statuses import STATUS

DEAD = "shop-mail-normal-dlq"

NASTY = (
    "\x1b]52;c;b3duZWQ=\x07",
    "\x1b[2J\x9b5m",
    "\u202egnp.exe\u2066",
    "[bold]x[/] [/red] [link=x]",
    "a\rb\nheadgate: forged",
    "<script>alert(1)</script>",
    "\x00\x7f\x85\u2028",
    "x" * 5_000,
    "",
)
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""The characters that may not reach a terminal."""


class Note(BaseModel):
    text: str = ""


class Shop:
    """An app in memory in which all has happened that commands show."""

    def __init__(self) -> None:
        self.app = app = App("shop", records="full")
        mail = app.queue("mail", priorities=[Priority.NORMAL], retry=Retry(max_attempts=1))

        @mail.job("send", schedule=Schedule.rate(timedelta(hours=1)))
        async def send(note: Note, ctx: JobContext) -> str:
            await ctx.progress(50, "half", step="one")
            if note.text == "die":
                raise ValueError("it died")
            return note.text

        self.jobs = jobs = Harness(app)
        client = jobs.client
        self.job = client.submit(send, Note(text="done"), tenant="org-1").id
        self.dead = client.submit(send, Note(text="die"), tenant="org-1").id
        client.schedules.create("nightly", send, Note(), schedule=Schedule.rate(3_600), limit=1)
        jobs.drain(max_runs=4)
        client.pauses.create(tenant="org-2", reason="they asked")
        self.replay = client.dead_letters.replay(DeadLetterFilter()).id
        jobs.drain(max_runs=4)
        client.submit(send, Note(text="waits"), delay=timedelta(days=2))
        with suppress(HeadgateError):
            client.handle(self.job).cancel(reason="no")
        seen = replace(STATUS, name="host-1", seen_at=jobs.clock.now())
        jobs.table.sync.put([status_item(seen)])

    def spoil(self, rng: random.Random) -> None:
        """Put nasty texts in the place of some of those that are stored."""
        for items in self.jobs.table._store._partitions.values():
            for sk, attributes in list(items.items()):
                item = decode(attributes)
                spoiled = replace(item, data=_spoiled(item.data, rng))
                items[sk] = encode(spoiled)
        for spec in self.jobs.scheduler.schedules:
            given = json.dumps(_spoiled(json.loads(spec.input), rng))
            self.jobs.scheduler.replace(replace(spec, input=given))
        letters = [
            OutgoingMessage(
                body=json.dumps(_spoiled(json.loads(letter.body), rng)),
                attributes={
                    name: _sendable(_spoiled(text, rng)) for name, text in letter.attributes.items()
                },
            )
            for letter in self.jobs.sqs.messages(DEAD)
            for _ in range(2)
        ]
        assert self.jobs.sqs.sync.send(DEAD, letters) == []

    def client(self, app: App) -> Client:
        """Return the client that a command makes."""
        jobs = self.jobs
        backend = over(
            jobs.sqs.sync,
            table=jobs.table.sync,
            scheduler=jobs.scheduler.sync,
            store=jobs.store.sync,
            clock=jobs.clock,
            sleep=jobs.clock.advance,
        )
        return Client(app, backend=backend)


def _spoiled(value: Any, rng: random.Random) -> Any:
    """Return a JSON value with nasty texts in the place of some of its texts."""
    match value:
        case str() if rng.random() < 0.2:
            return rng.choice(NASTY)
        case dict():
            return {name: _spoiled(each, rng) for name, each in value.items()}
        case list():
            return [_spoiled(each, rng) for each in value]
    return value


def _sendable(text: str) -> str:
    """Leave out what SQS refuses in attributes."""
    return re.sub("[\x00-\x08\x0b-\x1f]", "", text) or "-"
