"""Replays and purges killed at each of their requests: no dead letter is lost.

A proxy counts the requests of ``headgate dead-letters replay`` or ``purge``, and kills its process
at one of them, before the server gets it or before the answer comes. What would take minutes then
is done at once: the lease of the killed process ends, and what it held shows again. Then another
process carries on. What the next one finds is what the server has carried out, so a kill before
each request shows all that kills after them can, but for those of requests that run side by side.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, Protocol

from headgate.jobs.aws.dynamo.table import AsyncDynamoTable
from headgate.jobs.aws.s3 import AsyncS3Store
from headgate.jobs.core.naming import DEAD_LETTERS
from headgate.jobs.core.ports.table import Item
from headgate.jobs.core.ports.transport import OutgoingMessage, ReceivedMessage, VisibilityChange
from headgate.jobs.core.topology import MAX_BATCH, MAX_MESSAGE_BYTES
from headgate.jobs.dead_letters.replaying.report import REPLAYS, ReplayState
from headgate.jobs.messages.envelope import parse
from tests.crash.trials.app import QUEUE
from tests.crash.trials.findings import Findings
from tests.support.proxy import Drop, Fault, Proxy, wire
from tests.support.stage import Stage
from tests.support.workers import started

Kind = Literal["replay", "purge"]
Choice = Callable[[int, str], bool]
Moment = Literal["before", "after"]
"""The moment of a kill: before the server gets the request, or before its answer comes."""

KINDS: tuple[Kind, ...] = ("replay", "purge")

MOMENTS: tuple[Moment, ...] = ("before", "after")

LETTERS = 6
"""Number of letters at each kill: one request sends them all."""

NONE_LEFT = 3
"""The exit code of a command that has found no letter."""

UNMARKED = frozenset({"replay after SendMessageBatch", "replay before BatchWriteItem"})
"""The kills after which a job may be sent twice: nothing tells yet that it was sent."""

_LOOK_S = 0.1

_COMMANDS: dict[Kind, tuple[str, ...]] = {
    "replay": ("dead-letters", "replay", "--yes"),
    "purge": ("dead-letters", "purge", "--yes"),
}


class Running(Protocol):
    """A command in a process of its own."""

    @property
    def pid(self) -> int: ...

    async def wait(self) -> int:
        """Wait for its end; return the exit code."""
        ...


class Start(Protocol):
    """Runs ``headgate``, and kills it at the end if it still runs."""

    def __call__(
        self, *arguments: str, env: Mapping[str, str]
    ) -> AbstractAsyncContextManager[Running]: ...


class Killer:
    """Kills a process at one of its requests.

    Args:
        chosen: called with a request's number, from 0, and its action; returns True for that one.
        moment: see `Moment`.
    """

    def __init__(self, chosen: Choice, moment: Moment = "before") -> None:
        self.requests: list[str] = []
        """The actions of its requests so far."""
        self.pid = 0
        self.has_killed = False
        self.where = ""
        """The moment and the action at which it has killed."""
        self._chosen = chosen
        self._moment = moment
        self._awaited: str | None = None

    def meets(self, action: str) -> Fault | None:
        """Count a request, before the server gets it; what a dead process asks is dropped."""
        self.requests.append(action)
        if not self.where and self._chosen(len(self.requests) - 1, action):
            self.where = f"{self._moment} {action}"
            if self._moment == "after":
                self._awaited = action
            else:
                self._kill()
        return Drop(forward=False) if self.has_killed else None

    def answered(self, action: str) -> None:
        """Notice an answer, before the process gets it."""
        if action == self._awaited:
            self._awaited = None
            self._kill()

    def _kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.has_killed = True


@dataclass(slots=True)
class LetterCuts:
    """Kills replays and purges of a stage's dead letters, one after the other.

    Args:
        stage: a stage with its queues, its table and its bucket.
        proxy: what the killed processes go through.
        start: starts a process.
    """

    stage: Stage
    proxy: Proxy
    start: Start = started
    findings: Findings = field(default_factory=Findings)
    kills: Counter[str] = field(default_factory=Counter)
    """Number of kills by command, request and moment."""
    twice: Counter[str] = field(default_factory=Counter)
    """Number of jobs that were sent twice, likewise."""
    _held: list[str] = field(default_factory=list)
    """The receipts of the letters that the killed process was handed."""
    _known: set[str] = field(default_factory=set)
    """The keys of the copies that were read before."""

    async def everywhere(self, kind: Kind) -> None:
        """Kill a command at each of its requests, at both moments."""
        numbers = range(len(await self.requests_of(kind)))
        for moment in MOMENTS:
            await self.at(kind, numbers, moment)

    async def requests_of(self, kind: Kind) -> list[str]:
        """Run a command to its end; return the actions of its requests."""
        ids = await self._filled()
        killer = Killer(lambda _number, _action: False)
        code = await self._run(kind, killer)
        self.findings.expect(code == 0, f"{kind} ended with {code}")
        await self._check(kind, ids, f"{kind} in one piece")
        return killer.requests

    async def at(self, kind: Kind, numbers: Iterable[int], moment: Moment = "before") -> None:
        """Kill a command at its requests of these numbers, from 0, each in a run of its own."""
        for number in numbers:
            await self._killed(kind, Killer(partial(_is_number, number), moment))

    async def at_first(self, kind: Kind, action: str, moment: Moment) -> None:
        """Kill a command at its first request of an action."""
        await self._killed(kind, Killer(lambda _number, each: each == action, moment))

    async def _killed(self, kind: Kind, killer: Killer) -> None:
        """Kill a command, carry on in another process, and check the letters."""
        ids = await self._filled()
        await self._run(kind, killer)
        if not killer.has_killed:  # this time it needed fewer requests
            await self._check(kind, ids, f"{kind} in one piece")
            return
        where = f"{kind} {killer.where}"
        self.kills[where] += 1
        await self._let_time_pass()
        code = await self._carried_on(kind)
        self.findings.expect(code in (0, NONE_LEFT), f"{where}: the next one ended with {code}")
        await self._check(kind, ids, where)

    def told(self) -> Findings:
        """Return the findings."""
        self.findings.figures |= {
            "kills": self.kills.total(),
            "jobs sent twice": dict(self.twice),
        }
        return self.findings

    # --- processes --------------------------------------------------------------------------------

    async def _run(self, kind: Kind, killer: Killer) -> int:
        """Run a command through the proxy to its end, whichever; return its exit code."""
        self.proxy.draw(killer.meets)
        self.proxy.listen(partial(self._heard, killer))
        env = self.stage.environment(endpoint_url=self.proxy.endpoint_url)
        async with self._command(_COMMANDS[kind], env) as process:
            killer.pid = process.pid
            return await process.wait()

    def _command(
        self, words: Iterable[str], env: Mapping[str, str]
    ) -> AbstractAsyncContextManager[Running]:
        return self.start("-A", self.stage.fixture.path, *words, env=env)

    def _heard(self, killer: Killer, action: str, answer: bytes) -> None:
        if action == "ReceiveMessage":
            messages = json.loads(wire.body(answer)).get("Messages", ())
            self._held += [each["ReceiptHandle"] for each in messages]
        killer.answered(action)

    async def _carried_on(self, kind: Kind) -> int:
        words = _COMMANDS[kind]
        if kind == "replay" and (item := await self._open_replay()) is not None:
            words = ("dead-letters", "resume", item.sk)
        async with self._command(words, self.stage.environment()) as process:
            return await process.wait()

    # --- time -------------------------------------------------------------------------------------

    async def _let_time_pass(self) -> None:
        """Show what the killed process held, and end its lease."""
        changes = [VisibilityChange(receipt=each, timeout_s=0) for each in self._held]
        for start in range(0, len(changes), MAX_BATCH):
            await self.stage.sqs.change_visibility(
                self._letters, changes[start : start + MAX_BATCH]
            )
        self._held.clear()
        if (item := await self._open_replay()) is not None:
            ended = replace(item, data={**item.data, "until": 0.0}, version=item.version + 1)
            async with self._table() as table:
                assert await table.replace(ended) is None
        while (await self.stage.sqs.depth(self._letters)).in_flight:  # noqa: ASYNC110 - SQS tells nobody
            await asyncio.sleep(_LOOK_S)

    async def _open_replay(self) -> Item | None:
        """Return the item of the replay that has not come to its end, if any."""
        async with self._table() as table:
            items = await table.query(REPLAYS)
        return next((item for item in items if item.data["state"] != ReplayState.DONE), None)

    def _table(self) -> AsyncDynamoTable:
        return AsyncDynamoTable(
            self.stage.app.topology.table_name, endpoint_url=self.stage.endpoint_url
        )

    # --- letters ----------------------------------------------------------------------------------

    @property
    def _letters(self) -> str:
        return self.stage.queue(QUEUE).dlq_name

    async def _filled(self) -> list[str]:
        """Leave letters as a worker does; return the ids of their jobs."""
        queue = self.stage.queue(QUEUE)
        ids = await self.stage.submit("quick", LETTERS)
        letters = [
            OutgoingMessage(body=each.body, attributes={"Reason": "do-not-retry"})
            for each in await self._taken(queue.name)
        ]
        assert await self.stage.sqs.send(queue.dlq_name, letters) == []
        return ids

    async def _taken(self, queue: str) -> list[ReceivedMessage]:
        """Take all messages out of a queue."""
        found: list[ReceivedMessage] = []
        while messages := await self.stage.sqs.receive(queue, limit=10, wait_s=0):
            await self.stage.sqs.delete(queue, [each.receipt for each in messages])
            found += messages
        return found

    async def _check(self, kind: Kind, ids: list[str], where: str) -> None:
        """Expect that each letter is sent or copied, and that none is left."""
        left = len(await self._taken(self._letters))
        self.findings.expect(not left, f"{where}: {left} letters are left")
        sent = _jobs_of(await self._taken(self.stage.queue(QUEUE).name))
        saved = sent if kind == "replay" else await self._copied()
        self.findings.expect(set(ids) <= saved.keys(), f"{where}: a letter is lost")
        self.findings.expect(sent.keys() <= set(ids), f"{where}: another job was sent")
        if twice := sum(times > 1 for times in sent.values()):
            self.twice[where] += twice
            self.findings.expect(where in UNMARKED, f"{where}: {twice} jobs were sent twice")
        self.findings.expect(max(sent.values(), default=0) <= 2, f"{where}: sent thrice")

    async def _copied(self) -> Counter[str]:
        """Return the ids of the jobs that have new copies in the bucket."""
        bucket = self.stage.app.topology.bucket
        async with AsyncS3Store(bucket, endpoint_url=self.stage.endpoint_url) as store:
            keys = {each.key for each in (await store.page(DEAD_LETTERS)).objects} - self._known
            found = [await store.get(key, max_bytes=MAX_MESSAGE_BYTES) for key in keys]
        self._known |= keys
        bodies = [json.loads(gzip.decompress(each or b""))["body"] for each in found]
        return Counter(str(parse(each).id) for each in bodies)


def _is_number(wanted: int, number: int, _action: str) -> bool:
    return number == wanted


def _jobs_of(messages: list[ReceivedMessage]) -> Counter[str]:
    return Counter(str(parse(each.body).id) for each in messages)
