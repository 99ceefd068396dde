"""Strange objects of the bucket: a job runs with its own whole payload, or it is parked.

Whoever may write to the bucket may put anything under any key, and whoever may send a message may
name any object in it. Each case is tried where payloads are read: by a worker, by a consumer on
Lambda, and by the sweep, which copies them.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import tracemalloc
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import UUID

import looptime
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import App, Priority, Retry
from headgate.jobs.core.naming import DEAD_LETTERS
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.errors import PayloadLost
from headgate.jobs.messages.envelope import VERSION, Envelope, PayloadRef
from headgate.jobs.messages.large_payloads import LARGEST, max_packed, payload_key, unpacked
from headgate.jobs.messages.outgoing import message_of
from headgate.jobs.testing import MemoryStore, StoredMessage
from headgate.lambdas.sweep.sweeper import SAVED_BEFORE
from tests.hostile.examples import hostile
from tests.support.sweep_bench import SweepBench
from tests.unit.lambdas.test_consume import Function
from tests.unit.workers.rig import DEAD_MAIL, MAIL, Note, Rig, one_lane

NOW = datetime(2026, 1, 2, tzinfo=UTC)
OTHER = UUID(int=2**100)

BOMB = gzip.compress(bytes(2**20))
"""A MiB in a KiB."""

TEXTS = (
    b'{"text":"ours"}',
    b'{"text":"' + b"y" * 100_000 + b'"}',
    b'{"text":5}',
    b'{"text":"\\ud800"}',
    b"{}",
    b"null",
    b"",
    b"[" * 5_000,
    b"1e999",
    b"\xff\xfe",
)

PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    "as it should be": gzip.compress,
    "not packed": bytes,
    "zlib": zlib.compress,
    "packed twice": lambda text: gzip.compress(gzip.compress(text)),
    "cut off": lambda text: gzip.compress(text)[:-5],
    "and more": lambda text: gzip.compress(text) + b"more",
    "and a bomb": lambda text: gzip.compress(text) + BOMB,
    "a bomb": lambda _text: BOMB,
    "a wrong checksum": lambda text: gzip.compress(text)[:-8] + bytes(8),
    "padded": lambda text: gzip.compress(text) + bytes(300_000),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A job whose payload is said to be an object, and what lies in the bucket."""

    ref: PayloadRef
    text: bytes = field(repr=False)
    """The text of which the object was made."""
    content: bytes | None = field(repr=False)

    def body(self, job_id: UUID) -> str:
        envelope = Envelope(
            v=VERSION,
            id=job_id,
            type="send",
            payload=None,
            payload_ref=self.ref,
            queue="mail",
            priority=Priority.NORMAL,
            submitted_at=NOW,
        )
        return message_of(envelope).body

    def may_run(self, job_id: UUID) -> bool:
        """Return True if the reference is true in every word."""
        return (
            self.ref.key == payload_key(job_id)
            and self.ref.size == len(self.text)
            and self.ref.sha256 == hashlib.sha256(self.text).hexdigest()
        )


def _job(number: int) -> UUID:
    return UUID(int=2**101 + number)


@st.composite
def cases(draw: st.DrawFn) -> list[Case]:
    """Draw some jobs, each with its object."""
    return [draw(_case(_job(number))) for number in range(draw(st.integers(1, 4)))]


@st.composite
def _case(draw: st.DrawFn, job_id: UUID) -> Case:
    text = draw(st.sampled_from(TEXTS) | st.binary(max_size=30))
    pack = PACKINGS[draw(st.sampled_from(sorted(PACKINGS)))]
    content = draw(st.just(pack(text)) | st.binary(max_size=60) | st.none())
    own = payload_key(job_id)
    ref = PayloadRef(
        key=draw(
            st.just(own)
            | st.sampled_from([payload_key(OTHER), f"payloads/results/{job_id}/send", f"{own}/.."])
        ),
        sha256=draw(st.just(hashlib.sha256(text).hexdigest()) | st.just("0" * 64)),
        size=draw(
            st.just(len(text))
            | st.sampled_from([0, 10, len(text) + 1, 2**20, LARGEST, LARGEST + 1, 2**62])
        ),
        encoding="gzip",
    )
    return Case(ref=ref, text=text, content=content)


def _app(ran: list[str]) -> App:
    app, mail = one_lane(parking=Retry(max_attempts=1))

    @mail.job("send")
    async def send(note: Note) -> None:
        ran.append(note.text)

    return app


def _fill(store: MemoryStore, given_cases: Sequence[Case]) -> None:
    store.objects[payload_key(OTHER)] = gzip.compress(b'{"text":"another job\'s"}')
    for case in given_cases:
        if case.content is not None:
            store.objects[case.ref.key] = case.content


def _check(
    given_cases: Sequence[Case],
    ran: Sequence[str],
    letters: Sequence[StoredMessage],
    store: MemoryStore,
) -> None:
    """Check that each job ran with its own payload or was parked, and what was read for it."""
    own = {payload_key(_job(number)) for number in range(len(given_cases))}
    assert {key for action, key in store.calls if action == "get"} <= own
    assert len(ran) + len(letters) == len(given_cases)
    assert {each.attributes["Reason"] for each in letters} <= {"payload-lost", "payload-invalid"}
    true = [case for number, case in enumerate(given_cases) if case.may_run(_job(number))]
    assert len(ran) <= len(true)
    assert set(ran) <= {"", "ours", "y" * 100_000}


@hostile
@given(cases())
def test_a_worker_runs_a_job_with_its_own_whole_payload_or_parks_it(
    given_cases: list[Case],
) -> None:
    ran: list[str] = []

    async def work() -> Rig:
        rig = Rig(_app(ran))
        _fill(rig.store, given_cases)
        for number, case in enumerate(given_cases):
            await rig.sqs.send(MAIL, [OutgoingMessage(body=case.body(_job(number)))])
        async with rig.working():
            while rig.sqs.messages(MAIL):  # noqa: ASYNC110 - in virtual time
                await asyncio.sleep(1)
        return rig

    with asyncio.Runner(loop_factory=looptime.new_event_loop) as runner:
        rig = runner.run(work())
    _check(given_cases, ran, rig.sqs.messages(DEAD_MAIL), rig.store)


@hostile
@given(cases())
def test_a_function_runs_a_job_with_its_own_whole_payload_or_parks_it(
    given_cases: list[Case],
) -> None:
    ran: list[str] = []
    function = Function(_app(ran), queue=MAIL)
    _fill(function.backend.store, given_cases)
    for number, case in enumerate(given_cases):
        function.sqs.sync.send(MAIL, [OutgoingMessage(body=case.body(_job(number)))])
    assert function.invoke() == {"batchItemFailures": []}
    function.consumer.close()
    _check(given_cases, ran, function.messages(DEAD_MAIL), function.backend.store)


@hostile
@given(cases())
def test_the_sweep_copies_a_jobs_own_payload_or_the_message_alone(
    given_cases: list[Case],
) -> None:
    bench = SweepBench()
    _fill(bench.store, given_cases)
    parking = bench.parking("send-email")
    for number, case in enumerate(given_cases):
        bench.send(parking.name, OutgoingMessage(body=case.body(_job(number))))
    bench.clock.advance(parking.retention - SAVED_BEFORE / 2)
    assert bench.swept().saved == len(given_cases)
    own = {payload_key(_job(number)): case.ref for number, case in enumerate(given_cases)}
    assert {key for action, key in bench.store.calls if action == "get"} <= own.keys()
    copies = [key for key in bench.store.objects if key.startswith(DEAD_LETTERS)]
    assert sum(key.endswith(".json.gz") for key in copies) == len(given_cases)
    largest = max(map(max_packed, own.values()))
    for key in copies:
        if key.endswith(".payload.gz"):
            assert bench.store.objects[key] in [case.content for case in given_cases]
            assert len(bench.store.objects[key]) <= largest


def test_a_bomb_is_unpacked_to_no_more_than_its_reference_says() -> None:
    bomb = gzip.compress(bytes(64 * 2**20))
    ref = PayloadRef(key="payloads/1", sha256="0" * 64, size=10, encoding="gzip")
    tracemalloc.start()
    try:
        with pytest.raises(PayloadLost, match="it does not have 10 bytes"):
            unpacked(ref, bomb)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**20
