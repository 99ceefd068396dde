"""Any message in a queue ends by a verdict: none raises, hangs, or has no way out."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from headgate import Accepts, App, Backoff, Priority, Retry, RetryLater
from headgate.jobs.core.events import Events
from headgate.jobs.core.ports.transport import OutgoingMessage, ReceivedMessage
from headgate.jobs.execution.calling.means import Means
from headgate.jobs.execution.delivery import Delivery
from headgate.jobs.execution.executor import Executor
from headgate.jobs.execution.outcome import Unrunnable
from headgate.jobs.execution.run import Run
from headgate.jobs.execution.settling.actions import (
    Ack,
    DeadLetter,
    Quarantine,
    Release,
    RetryAfter,
    Way,
)
from headgate.jobs.execution.settling.delayed_retry import HandOver
from headgate.jobs.execution.settling.verdict import Verdict, parked
from headgate.jobs.testing import MemoryScheduler, MemorySqs, MemoryStore, VirtualClock
from headgate.jobs.testing.memory.sqs_limits import check_message

_TRIES = 3
_LONGEST_S = 366 * 86_400 * 1.2


class Note(BaseModel):
    text: str = ""
    rest: Any = None


def _app() -> App:
    """Return an app with every behaviour of handlers, and every format that a type may accept."""
    app = App("shop", parking=Retry(max_attempts=_TRIES, backoff=Backoff.fixed(10)))

    @app.job("done", accepts=Accepts.json())
    async def done(note: Note) -> Any:
        return note.rest

    @app.job("fails", retry=Retry(max_attempts=5, backoff=Backoff.exponential(base=1, cap=9_999)))
    async def fails(note: Note) -> None:
        raise OSError(note.text)

    @app.job("later", accepts=Accepts.eventbridge(fields={"text": "$.detail.text"}))
    async def later(note: Note) -> None:
        raise RetryLater(timedelta(days=len(note.text) * 100_000, seconds=1), note.text)

    @app.job("files", accepts=Accepts.s3())
    async def files(_files: list[Any]) -> None: ...

    @app.job("told", schema=3, accepts=Accepts.sns(), upgrade={2: lambda value: value["text"]})
    async def told(_told: Any) -> None: ...

    @app.queue("elsewhere").job("apart")
    async def apart(_note: Note) -> None: ...

    return app


APP = _app()
QUEUE = APP.topology.queue("jobs", Priority.NORMAL)


class Host:
    """Runs one delivery up to the requests to AWS, and checks that AWS would accept them all."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.sqs = MemorySqs(self.clock)
        self.sqs.provision(APP.topology)
        self.store = MemoryStore()
        self.events: list[Any] = []
        hub = Events(self.events.append)
        scheduler = MemoryScheduler(self.clock, fire=lambda _text: None)
        self._hand_over = HandOver(scheduler, APP.topology, clock=self.clock, events=hub)
        self._executor = Executor(Means(app=APP, clock=self.clock, events=hub, store=self.store))

    def receive(
        self, body: str, *, receives: int = 1, attributes: dict[str, str] | None = None
    ) -> Verdict:
        message = ReceivedMessage(
            message_id="m-1",
            receipt="r-1",
            body=body,
            receive_count=receives,
            sent_at=self.clock.now(),
            attributes=attributes or {},
        )
        return asyncio.run(self._through(Delivery(message=message, queue=QUEUE, received_at=0.0)))

    async def _through(self, delivery: Delivery) -> Verdict:
        run = Run(self._executor, delivery)
        verdict = run.unstarted(run.due_in_s) if run.due_in_s else await run.verdict()
        match verdict.action:
            case RetryAfter(way=way) | Release(way=way) if way is not Way.HIDDEN:
                verdict, message = await self._hand_over.take(delivery, verdict)
                if message is not None:
                    check_message(message, fifo=False)
                return verdict
            case DeadLetter() | Quarantine() as action:
                _, letter = parked(delivery, verdict, action, quarantine="q", at=self.clock.now())
                _check_letter(letter)
            case RetryAfter(delay_s=delay_s) | Release(delay_s=delay_s):
                assert 0 <= delay_s <= _LONGEST_S
            case Ack():
                pass
        assert all(event.name for event in verdict.aftermath(self.clock.now()))
        return verdict


def _check_letter(letter: OutgoingMessage) -> None:
    """Check a letter without its body, invalid only if SQS could not have delivered it."""
    check_message(
        OutgoingMessage(body="any", attributes=letter.attributes, group=letter.group), fifo=False
    )


# --- possible messages ---------------------------------------------------------------------------

_NASTY_TEXT = st.sampled_from(
    ["", "\x00", "\x1b[31m", "a\x7fb", "\ufffe\uffff", "\u202e", "x" * 3000, "None", "done\n"]
)
_NASTY_NUMBER = st.sampled_from(
    [-1, 0, 1e300, -1e300, 1e-320, 2**63, 10**30, 10**4299, float("nan"), math.inf, -math.inf]
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | _NASTY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
_ANYTHING = _JSON | _NASTY_NUMBER
_TIMES = st.sampled_from(
    [
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59-23:59",
        "1970-01-01T00:00:00Z",
        "2026-01-01",
        "+275760-09-13T00:00:00Z",
    ]
)
_TYPES = st.sampled_from([*APP.types, "from-the-future", "de\x00ad", "\x1b]0;", "x" * 128])
_VALID: dict[str, Any] = {
    "v": 1,
    "id": "01960000-0000-7000-8000-000000000000",
    "type": "done",
    "payload": {"text": "hello"},
    "queue": "jobs",
    "priority": "normal",
    "submitted_at": "2026-01-01T00:00:00Z",
}
_REFERENCE = st.fixed_dictionaries(
    {
        "key": st.sampled_from(["payloads/x", "../x", "results/x", "\x00", "payloads/" + "é" * 999])
        | st.text(),
        "sha256": st.sampled_from(["0" * 64, hashlib.sha256(b"").hexdigest()]),
        "size": st.sampled_from([0, 1, 10**30, -1]),
        "encoding": st.just("gzip"),
    }
)
_FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "v": _ANYTHING,
    "id": _ANYTHING | st.uuids().map(str),
    "type": _TYPES | _ANYTHING,
    "schema": st.integers(-1, 4) | _ANYTHING,
    "payload": _ANYTHING | st.fixed_dictionaries({"text": st.text(), "rest": _ANYTHING}),
    "payload_ref": _ANYTHING | _REFERENCE,
    "queue": _ANYTHING,
    "priority": _ANYTHING,
    "submitted_at": _TIMES | _ANYTHING,
    "not_before": _TIMES | _ANYTHING,
    "tenant": _ANYTHING | st.fixed_dictionaries({"org": st.text() | _NASTY_TEXT}),
    "trace": _ANYTHING,
    "source": _ANYTHING,
    "parent": _ANYTHING,
    "attempts_used": st.integers() | _ANYTHING,
    "options": _ANYTHING
    | st.dictionaries(st.sampled_from(["attempts", "timeout_s", "unique"]), _ANYTHING, min_size=1),
}
_CHANGES = st.lists(
    st.sampled_from(sorted(_FIELDS)).flatmap(lambda name: st.tuples(st.just(name), _FIELDS[name])),
    max_size=2,
).map(dict)
_ENVELOPES = st.tuples(st.sampled_from([*APP.types]), _CHANGES).map(
    lambda made: json.dumps({**_VALID, "type": made[0], **made[1]})
)
"""Nearly valid: a message wrong in two places is mostly refused for the first."""
_OTHERS = st.one_of(
    st.text(),
    st.text(st.characters(categories=["Cs", "L"])).map('"{}"'.format),
    _ANYTHING.map(json.dumps),
    st.dictionaries(st.sampled_from([*_VALID, "Records", "Event", "detail"]), _ANYTHING).map(
        json.dumps
    ),
    st.sampled_from(["[", '{"a":', '[{"b":']).flatmap(
        lambda opening: st.sampled_from([10, 150, 199, 201, 250, 100_000]).map(
            lambda depth: opening * depth
        )
    ),
    st.integers(1, 250).map(
        lambda depth: json.dumps(_VALID)[:-1] + ',"rest":' + "[" * depth + "]" * depth + "}"
    ),
)
_ATTRIBUTES = st.dictionaries(
    st.sampled_from(["JobType", "JobId", "Reason", "Other", "Another"]),
    st.sampled_from([*APP.types, "from-the-future", "unknown", "x" * 300, "\u202e"])
    | st.uuids().map(str),
)


@given(
    body=_ENVELOPES | _OTHERS,
    receives=st.integers(1, 1000),
    attributes=_ATTRIBUTES,
)
@settings(max_examples=300)
def test_every_message_ends_by_a_verdict_that_can_be_carried_out(
    body: str, receives: int, attributes: dict[str, str]
) -> None:
    verdict = Host().receive(body, receives=receives, attributes=attributes)

    if isinstance(verdict.outcome, Unrunnable):
        assert isinstance(verdict.action, RetryAfter if receives < _TRIES else DeadLetter)
