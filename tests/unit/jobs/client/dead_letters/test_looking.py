"""``client.dead_letters``: what it tells, and that no letter is lost by it."""

from __future__ import annotations

import gzip
import io
import json
import stat
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate import AsyncClient, Client, DeadLetter, DeadLetterFilter
from headgate.errors import ConfigurationError
from headgate.jobs.core.ports.transport import OutgoingMessage, ReceivedMessage
from headgate.jobs.core.topology import Topology
from headgate.jobs.dead_letters import surroundings
from headgate.jobs.dead_letters.reading import read_letter
from headgate.jobs.deployment.sweep_plan import ParkingQueue
from headgate.jobs.errors import ServiceUnavailable, TransportError
from headgate.jobs.messages.job_ids import new_job_id
from headgate.jobs.messages.large_payloads import parcel, payload_key
from tests.support.backends import over
from tests.support.clients import Kind, client_of
from tests.support.story import Story
from tests.support.sweep_bench import SweepBench

DOWN = ServiceUnavailable("it is down")
ALL = DeadLetterFilter()


@pytest.fixture
def bench() -> SweepBench:
    return SweepBench()


def client(kind: Kind, bench: SweepBench) -> AsyncClient:
    return client_of(
        kind, bench.app, bench.sqs, table=bench.table, store=bench.store, clock=bench.clock
    )


def filled(bench: SweepBench) -> list[str]:
    """Put letters of all kinds into all queues; return their jobs' ids, the first one first."""
    ids = []
    deaths: tuple[Callable[[], str], ...] = (
        lambda: bench.die("send-email", tenant={"org": "acme"}),
        lambda: bench.die("send-email", error="TimeoutError"),
        lambda: bench.die("capture"),
        lambda: bench.die("book"),
        lambda: bench.crash("send-email"),
    )
    for die in deaths:
        ids.append(die())
        bench.clock.advance(timedelta(hours=1))
    firing = {"type": "send-email", "job_id": ids[0], "queue": "jobs", "priority": "normal"}
    bench.send(bench.app.topology.failed_firings_name, OutgoingMessage(body=json.dumps(firing)))
    bench.send("shop-test-jobs-normal-dlq", OutgoingMessage(body="not JSON"))
    return ids


def offloaded(bench: SweepBench, payload: Any) -> str:
    """Let a job die whose payload is in the bucket; return its id."""
    job_id = new_job_id(bench.clock.now())
    kept = parcel(payload_key(job_id), payload)
    bench.store.objects[kept.ref.key] = kept.packed()
    return bench.die("send-email", id=job_id, payload=None, payload_ref=kept.ref)


# --- list ----------------------------------------------------------------------------------------


async def test_letters_of_all_queues_are_listed_the_last_one_first(
    kind: Kind, bench: SweepBench
) -> None:
    ids = filled(bench)
    before = bench.everything()
    page = await client(kind, bench).dead_letters.list()
    assert [each.job_id for each in page.letters[2:]] == ids[::-1]
    assert {each.reason for each in page.letters[:2]} == {"not-submitted", "redriven"}
    assert page.look.complete
    assert all(each.content is None for each in page.letters)
    assert bench.everything() == before
    assert bench.visible() == 7


async def test_a_letter_whose_reading_fails_is_listed_among_the_others(
    kind: Kind, bench: SweepBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [bench.die("send-email") for _ in range(3)]

    def read(message: ReceivedMessage, queue: ParkingQueue, topology: Topology) -> DeadLetter:
        if ids[1] in message.body:
            raise RecursionError
        return read_letter(message, queue, topology)

    monkeypatch.setattr(surroundings, "read_letter", read)
    page = await client(kind, bench).dead_letters.list()
    assert {each.job_id for each in page.letters} == {ids[0], None, ids[2]}
    assert {each.reason for each in page.letters if each.job_id is None} == {"unreadable"}


async def test_a_list_keeps_its_limit_and_says_that_there_are_more(
    kind: Kind, bench: SweepBench
) -> None:
    for _ in range(30):
        bench.die("send-email")
    page = await client(kind, bench).dead_letters.list(limit=12)
    assert len(page.letters) == 12
    rest = await client(kind, bench).dead_letters.list(limit=30)
    assert len(rest.letters) == 30
    assert bench.visible() == 30
    with pytest.raises(ConfigurationError, match="limit must be at least 1"):
        await client(kind, bench).dead_letters.list(limit=0)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (DeadLetterFilter(types=("capture",)), [2]),
        (DeadLetterFilter(reasons=("quarantined",)), [4]),
        (DeadLetterFilter(errors=("timeouterror",)), [1]),
        (DeadLetterFilter(queues=("ledger",)), [3]),
        (DeadLetterFilter(queues=("shop-test-quarantine",)), [4]),
        (DeadLetterFilter(tenants=("acme",)), [0]),
        (DeadLetterFilter(types=("send-email",), since=timedelta(hours=2.5), until=300), [4]),
    ],
)
async def test_a_list_has_what_its_filter_selects(
    kind: Kind, bench: SweepBench, wanted: DeadLetterFilter, found: list[int]
) -> None:
    ids = filled(bench)
    page = await client(kind, bench).dead_letters.list(wanted)
    assert [each.job_id for each in page.letters] == [ids[index] for index in found]


async def test_queues_that_a_filter_rules_out_are_not_asked(kind: Kind, bench: SweepBench) -> None:
    await client(kind, bench).dead_letters.list(DeadLetterFilter(queues=("payments",)))
    asked = {call.queue for call in bench.sqs.calls}
    topology = bench.app.topology
    assert asked == {
        topology.queue("payments").dlq_name,
        topology.quarantine_name,
        topology.failed_firings_name,
    }


# --- count ---------------------------------------------------------------------------------------


async def test_letters_are_counted_in_groups_with_the_times_of_first_and_last(
    kind: Kind, bench: SweepBench
) -> None:
    start = bench.clock.now()
    for _ in range(25):
        bench.die("send-email")
        bench.clock.advance(60)
    bench.die("capture")
    counts = await client(kind, bench).dead_letters.count()
    assert counts.total == 26
    [most, least] = counts.groups
    assert most.group == {"type": "send-email", "reason": "attempts-exhausted"}
    assert (most.count, most.first) == (25, start)
    assert most.last == start + timedelta(minutes=24)
    assert (least.group["type"], least.count) == ("capture", 1)


@pytest.mark.parametrize(
    ("by", "groups"),
    [
        (("error",), {("CardError",): 3, ("TimeoutError",): 1, (None,): 3}),
        (("tenant",), {(None,): 6, ("acme",): 1}),
        ((), {(): 7}),
        ("type", {("send-email",): 4, ("book",): 1, ("capture",): 1, (None,): 1}),
    ],
)
async def test_letters_are_counted_by_what_was_asked_for(
    kind: Kind, bench: SweepBench, by: Any, groups: dict[tuple[str | None, ...], int]
) -> None:
    filled(bench)
    counts = await client(kind, bench).dead_letters.count(by)
    assert {tuple(each.group.values()): each.count for each in counts.groups} == groups


async def test_the_hour_is_that_of_the_death_in_utc(kind: Kind, bench: SweepBench) -> None:
    bench.clock.advance(timedelta(minutes=59))
    bench.die("capture")
    [only] = (await client(kind, bench).dead_letters.count(("hour",))).groups
    assert only.group == {"hour": "2026-11-21T12Z"}


async def test_an_unknown_way_to_count_is_refused_before_anything_is_looked_at(
    kind: Kind, bench: SweepBench
) -> None:
    with pytest.raises(ConfigurationError, match="'typ': did you mean 'type'"):
        await client(kind, bench).dead_letters.count(("typ",))  # type: ignore[arg-type]
    assert bench.sqs.calls == []


# --- show ----------------------------------------------------------------------------------------


async def test_a_letter_is_shown_with_attributes_records_and_no_payload(
    kind: Kind, bench: SweepBench
) -> None:
    job_id = bench.die("send-email")
    story = Story(job_id, start=bench.clock.now(), job_type="send-email").submitted()
    story.run(9, "failed", attempt=1, error_type="CardError", traceback="Traceback: here")
    bench.table.sync.put(story.items)
    details = await client(kind, bench).dead_letters.show(job_id)
    assert details is not None
    assert details.letter.origin == "shop-test-jobs-normal"
    assert details.attributes["Attempts"] == "3"
    assert details.record is not None
    assert details.record.attempts[0].traceback == "Traceback: here"
    assert (details.payload, details.payload_fault) == (None, "")
    by_message = await client(kind, bench).dead_letters.show(details.letter.message_id)
    assert by_message == details
    assert bench.visible() == 1


async def test_a_payload_is_shown_when_asked_for_wherever_it_is(
    kind: Kind, bench: SweepBench
) -> None:
    away, lost = offloaded(bench, {"card": "4"}), offloaded(bench, 1)
    del bench.store.objects[f"payloads/{lost}"]
    here = bench.die("capture", payload={"n": 1})
    shown = {}
    for job_id in (away, here, lost):
        details = await client(kind, bench).dead_letters.show(job_id, payload=True)
        assert details is not None
        shown[job_id] = details
    assert shown[away].payload == {"card": "4"}
    assert shown[here].payload == {"n": 1}
    assert f"payloads/{lost}" in shown[lost].payload_fault


async def test_a_letter_of_nobody_is_shown_as_it_stands(kind: Kind, bench: SweepBench) -> None:
    bench.send("shop-test-quarantine", OutgoingMessage(body="[]", attributes={"JobId": "x"}))
    details = await client(kind, bench).dead_letters.show("x", payload=True)
    assert details is not None
    assert (details.record, details.record_fault, details.payload) == (None, "", "[]")
    assert await client(kind, bench).dead_letters.show("y") is None


async def test_without_the_table_a_letter_is_shown_and_the_fault_told(
    kind: Kind, bench: SweepBench
) -> None:
    job_id = bench.die("send-email")
    bench.table.faults.raise_on("query", DOWN)
    details = await client(kind, bench).dead_letters.show(job_id)
    assert details is not None
    assert (details.record, details.record_fault) == (None, "it is down")


# --- export and import ---------------------------------------------------------------------------


async def test_what_was_exported_and_purged_is_imported_as_it_was(
    kind: Kind, bench: SweepBench, tmp_path: Path
) -> None:
    filled(bench)
    before = Counter(_stored(bench))
    letters = client(kind, bench).dead_letters
    outcome = await letters.export(to=tmp_path / "all.jsonl")
    assert (outcome.exported, outcome.look.complete) == (7, True)
    assert stat.S_IMODE((tmp_path / "all.jsonl").stat().st_mode) == 0o600
    assert (await letters.purge(ALL, copy=False)).purged == 7
    assert bench.everything() == []
    bench.clock.advance(timedelta(minutes=6))  # over which FIFO queues drop duplicates
    assert await letters.import_(tmp_path / "all.jsonl") == 7
    assert Counter(_stored(bench)) == before


async def test_an_export_overwrites_nothing_and_goes_to_an_open_file_too(
    kind: Kind, bench: SweepBench, tmp_path: Path
) -> None:
    bench.die("send-email")
    letters = client(kind, bench).dead_letters
    (tmp_path / "there").write_text("mine")
    with pytest.raises(ConfigurationError, match="there can't be written: File exists"):
        await letters.export(to=str(tmp_path / "there"))
    assert (tmp_path / "there").read_text() == "mine"
    await letters.export(to=(text := io.StringIO()))
    assert json.loads(text.getvalue())["queue"] == "shop-test-jobs-normal-dlq"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("[]", "line 2: this is not a saved dead letter"),
        ('{"queue": "q", "message_id": "1", "body": 7, "attributes": {}}', "line 2: .*: body"),
        (
            '{"queue": "shop-jobs-normal", "message_id": "1", "body": "x", "attributes": {}}',
            "line 2: 'shop-jobs-normal' is not one of this app's dead-letter queues",
        ),
    ],
)
async def test_a_file_with_a_bad_line_is_refused_before_anything_is_sent(
    kind: Kind, bench: SweepBench, tmp_path: Path, line: str, said: str
) -> None:
    bench.die("send-email")
    letters = client(kind, bench).dead_letters
    await letters.export(to=tmp_path / "f")
    (tmp_path / "f").write_text((tmp_path / "f").read_text() + line + "\n")
    with pytest.raises(ConfigurationError, match=said):
        await letters.import_(tmp_path / "f")
    assert len(bench.everything()) == 1
    with pytest.raises(ConfigurationError, match="gone can't be read"):
        await letters.import_(tmp_path / "gone")


async def test_an_import_sends_again_what_sqs_did_not_take(
    kind: Kind, bench: SweepBench, tmp_path: Path
) -> None:
    for _ in range(12):
        bench.die("send-email")
    letters = client(kind, bench).dead_letters
    await letters.export(to=tmp_path / "f")
    bench.sqs.faults.fail_entries("send", indexes=[0, 3])
    assert await letters.import_(tmp_path / "f") == 12
    assert len(bench.everything()) == 24
    bench.sqs.faults.fail_entries("send", sender_fault=True)
    with pytest.raises(TransportError):
        await letters.import_(tmp_path / "f")


# --- purge ---------------------------------------------------------------------------------------


async def test_a_purge_deletes_what_is_selected_once_it_is_copied(
    kind: Kind, bench: SweepBench
) -> None:
    filled(bench)
    wanted = DeadLetterFilter(types=("send-email",))
    outcome = await client(kind, bench).dead_letters.purge(wanted)
    assert (outcome.purged, outcome.copied, outcome.failures) == (4, 4, [])
    assert len(bench.everything()) == bench.visible() == 3
    bodies = [json.loads(gzip.decompress(each))["body"] for each in bench.store.objects.values()]
    assert sum('"send-email"' in body for body in bodies) == 4


async def test_a_letter_that_cannot_be_copied_stays_and_ends_the_purge(
    kind: Kind, bench: SweepBench
) -> None:
    for _ in range(200):
        bench.die("send-email")
    bench.store.fail("put", DOWN, times=2)
    outcome = await client(kind, bench).dead_letters.purge(ALL)
    assert outcome.purged == outcome.copied < 200
    assert len(outcome.failures) == 2
    assert "could not be copied: it is down" in outcome.failures[0]
    assert len(bench.everything()) == bench.visible() == 200 - outcome.purged


async def test_a_letter_that_cannot_be_deleted_is_told_and_shows_again(
    kind: Kind, bench: SweepBench
) -> None:
    for _ in range(3):
        bench.die("send-email")
    bench.sqs.faults.fail_entries("delete", indexes=[1])
    outcome = await client(kind, bench).dead_letters.purge(ALL)
    assert (outcome.purged, len(outcome.failures)) == (2, 1)
    assert bench.visible() == 1
    bench.sqs.faults.raise_on("delete", DOWN)
    assert (await client(kind, bench).dead_letters.purge(ALL)).purged == 0
    assert bench.visible() == 1


class Killed(BaseException):
    """The process was killed."""


class Mortal:
    """Calls of AWS, at one of which the process is killed: nothing is done any more."""

    def __init__(self, at: int, *, before: bool) -> None:
        self.calls = 0
        self._at = at
        self._before = before
        self._dead = False

    def around(self, inner: Any) -> Any:
        mortal = self

        class Calls:
            def __getattr__(self, name: str) -> Any:
                return mortal._call(getattr(inner, name))

        return Calls()

    def _call(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **options: Any) -> Any:
            if self._dead:
                raise Killed
            self.calls += 1
            if self.calls != self._at:
                return call(*args, **options)
            self._dead = True
            if not self._before:
                call(*args, **options)
            raise Killed

        return wrapped


def _purge(at: int, *, before: bool) -> tuple[SweepBench, Mortal, Counter[tuple[str, str]]]:
    bench = SweepBench()
    offloaded(bench, {"card": "4"})
    for die in (bench.die, bench.crash):
        die("send-email")
    bench.die("book")
    stored = Counter((queue, body) for queue, body, _ in _stored(bench))
    mortal = Mortal(at, before=before)
    backend = over(
        mortal.around(bench.sqs.sync), store=mortal.around(bench.store.sync), clock=bench.clock
    )
    try:
        Client(bench.app, backend=backend).dead_letters.purge(ALL)
    except Killed:
        assert mortal.calls >= at > 0
    return bench, mortal, stored


def test_a_purge_killed_at_any_request_loses_no_letter_without_a_copy() -> None:
    _, whole, _ = _purge(0, before=True)
    assert whole.calls > 20
    for before in (True, False):
        for at in range(1, whole.calls + 1):
            bench, _, stored = _purge(at, before=before)
            left = Counter((queue, body) for queue, body, _ in _stored(bench))
            copies = Counter(_copied(bench))
            assert not stored - (left | copies), (at, before)
            bench.clock.advance(timedelta(minutes=3))
            assert bench.visible() == left.total(), "what was held shows again"
            Client(
                bench.app,
                backend=over(bench.sqs.sync, store=bench.store.sync, clock=bench.clock),
            ).dead_letters.purge(ALL)
            assert bench.everything() == []
            assert Counter(_copied(bench)) == stored


# --- hostile letters -----------------------------------------------------------------------------


TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)
BODIES = st.one_of(
    TEXTS,
    st.recursive(
        st.none() | st.booleans() | st.integers() | TEXTS,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["v", "id", "type", "queue", "requestPayload", "responsePayload", "errorType"]
                )
                | TEXTS,
                inner,
                max_size=4,
            )
        ),
        max_leaves=8,
    ).map(json.dumps),
)
NAMES = st.sampled_from(
    ["JobId", "JobType", "Reason", "ErrorType", "ErrorMessage", "Attempts", "FailedAt", "Replays"]
)


@settings(max_examples=15, deadline=None)
@given(
    letters=st.lists(
        st.tuples(BODIES, st.dictionaries(NAMES, TEXTS, max_size=8)), min_size=1, max_size=5
    )
)
def test_whatever_is_in_a_queue_is_listed_counted_exported_and_purged(
    letters: list[tuple[str, dict[str, str]]],
) -> None:
    bench = SweepBench()
    for number, (body, attributes) in enumerate(letters):
        queue = bench.plan.queues[number % len(bench.plan.queues)].name
        fifo = queue.endswith(".fifo")
        message = OutgoingMessage(
            body=body.replace("\ufffe", "").replace("\uffff", "") or "x",
            attributes={name: _sendable(text) for name, text in attributes.items()},
            group="g" if fifo else None,
            deduplication_id=str(number) if fifo else None,
        )
        bench.send(queue, message)
    backend = over(bench.sqs.sync, store=bench.store.sync, clock=bench.clock)
    found = Client(bench.app, backend=backend).dead_letters
    assert len(found.list().letters) == len(letters)
    assert found.count(("type", "reason", "error", "tenant", "hour")).total == len(letters)
    assert found.export(to=(text := io.StringIO())).exported == len(letters)
    assert len(text.getvalue().splitlines()) == len(letters)
    for message_id in bench.everything():
        assert found.show(message_id, payload=True) is not None
    assert bench.visible() == len(letters)
    assert found.purge(ALL).purged == len(bench.store.objects) == len(letters)


def _sendable(text: str) -> str:
    return text.replace("\ufffe", "").replace("\uffff", "") or "x"


def _stored(bench: SweepBench) -> list[tuple[str, str, str]]:
    return [
        (queue.name, message.body, json.dumps(dict(message.attributes), sort_keys=True))
        for queue in bench.plan.queues
        for message in bench.sqs.messages(queue.name)
    ]


def _copied(bench: SweepBench) -> list[tuple[str, str]]:
    copies = [
        json.loads(gzip.decompress(content))
        for key, content in bench.store.objects.items()
        if key.endswith(".json.gz")
    ]
    return [(copy["queue"], copy["body"]) for copy in copies]
