"""Strange items of the table: skipped, counted and reported, and they stop nobody.

Whoever holds a grant on the table may write anything to it. Each reader is tried on its own, over
random items, and through what is deployed: worker, consumer, bridge, sweep, command line, harness.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import App, AuditEntry, Client, JobHandle, Priority, Schedule, Unique
from headgate.jobs.aws.dynamo.wire import read_items, read_page
from headgate.jobs.core.event_log import log_event
from headgate.jobs.core.events import (
    Event,
    Events,
    ItemsSkipped,
    JobCancelled,
    JobCompleted,
    LeaseFailed,
    MessageUnrunnable,
    QueuePaused,
    QueueResumed,
)
from headgate.jobs.core.ports.table import Item
from headgate.jobs.errors import ItemUnreadable, ServiceUnavailable
from headgate.jobs.execution.calling.claim_items import CLAIM, Unreadable, standing_of
from headgate.jobs.execution.earlier_deliveries import Past
from headgate.jobs.records.audit.entry import AUDIT, AuditTarget, begun_item, new_place
from headgate.jobs.records.cancellation import CANCELLATIONS, cancellation
from headgate.jobs.records.cancellations import MOST, PAGE, POLL_S, Cancelling
from headgate.jobs.records.fleet.worker_status import read_status, status_item
from headgate.jobs.records.history import read_job
from headgate.jobs.records.items import is_partition, list_name, partition
from headgate.jobs.records.lists.children import children_partition
from headgate.jobs.records.lives import LIVES, Lives, read_life
from headgate.jobs.records.pausing.pause import Pause, PauseTarget, pause_item, read_pauses
from headgate.jobs.records.pausing.paused import Paused
from headgate.jobs.records.state import JobState
from headgate.jobs.schedules.bridging import SENT, Bridge, place_of
from headgate.jobs.schedules.routes import Routes
from headgate.jobs.testing import Harness, MemoryBackend, MemorySqs, MemoryTable, VirtualClock
from headgate.workers.limits.fleet_leases import FleetLeases
from headgate.workers.limits.fleet_retry_budget import FleetBudget
from headgate.workers.limits.lease import LEASE_S, Lease
from tests.hostile.examples import STORED, fields, hostile
from tests.support.functions import Function
from tests.support.statuses import STATUS
from tests.support.story import JOB, START, Story
from tests.support.sweep_bench import SweepBench
from tests.unit.workers.rig import DEAD_MAIL, MAIL, Gate, Note, Rig, one_lane

pytestmark = pytest.mark.looptime

RNG = random.Random(0)  # noqa: S311 - spreads pauses

STRANGE: list[dict[str, Any]] = [
    {},
    {"reason": None},
    {"reason": 7},
    {"reason": ["a"]},
    {"reason": "x" * 301},
    {"reason": "fine", "type": 5},
]
"""The data of cancellations that no client writes."""


def _cancellations() -> list[Item]:
    return [Item(pk=CANCELLATIONS, sk=f"0000-{n}", data=data) for n, data in enumerate(STRANGE)] + [
        Item(pk=CANCELLATIONS, sk="x" * 65, data={"reason": "a long id"})
    ]


# --- cancellations -------------------------------------------------------------------------------


async def test_strange_cancellations_end_no_worker_and_hide_no_other() -> None:
    app, mail = one_lane()
    gate = Gate()
    send = mail.job("send")(gate.__call__)
    rig = Rig(app)
    await rig.table.put(_cancellations())
    async with rig.working():
        stays, goes = await rig.submit(send, "stays", "goes")
        await gate.reached(2)
        await rig.table.put(cancellation(goes, "a mistake", rig.clock.now(), useful=timedelta(1)))
        [cancelled] = await rig.happens(JobCancelled)
        gate.open("stays")
        [completed] = await rig.happens(JobCompleted)
        await asyncio.sleep(10 * POLL_S)
    assert (cancelled.job_id, completed.job_id) == (goes, stays)
    [skipped] = rig.heard(ItemsSkipped)  # not again at each look
    assert (skipped.kind, skipped.items) == ("cancellation", len(_cancellations()))


def test_strange_cancellations_end_no_invocation() -> None:
    app, mail = one_lane()
    ran: list[str] = []

    @mail.job("send")
    async def send(note: Note) -> None:
        ran.append(note.text)

    function = Function(app, queue=MAIL)
    asyncio.run(function.table.put(_cancellations()))
    function.submit(send, Note(text="a"))
    assert function.invoke() == {"batchItemFailures": []}
    function.close()
    assert (ran, function.heard(ItemsSkipped)) == (["a"], 1)


def test_strange_cancellations_end_no_harness() -> None:
    app, mail = one_lane()

    @mail.job("send")
    def send(_note: Note) -> None: ...

    harness = Harness(app)
    asyncio.run(harness.table.put(_cancellations()))
    harness.client.submit(send, Note())
    harness.drain()
    assert len(harness.completed(send)) == 1


async def test_a_look_reads_one_page_and_looks_find_all() -> None:
    clock, told = VirtualClock(), list[Event]()
    table = MemoryTable(clock)
    count = 2 * PAGE + 500
    ids = [f"{number:05}" for number in range(count)]
    for start in range(0, count, 25):
        await table.put([_asked(job_id) for job_id in ids[start : start + 25]])
    looking = _cancelling(table, clock, told)
    for known in (PAGE, 2 * PAGE, 2 * PAGE, count, count):  # every other look reads the pauses
        table.calls.clear()
        await looking.look()
        assert table.calls == ["page"]
        assert sum(looking.reason(job_id, "send") is not None for job_id in ids) == known
    await table.delete([(CANCELLATIONS, ids[-1])])
    for _ in range(6):
        await looking.look()
    assert looking.reason(ids[-1], "send") is None
    assert told == []


async def test_large_cancellations_are_read_a_mebibyte_at_a_time() -> None:
    clock = VirtualClock()
    table = MemoryTable(clock)
    for n in range(8):
        await table.put([Item(pk=CANCELLATIONS, sk=str(n), data={"reason": "x" * 300_000})])
    page = await table.page(CANCELLATIONS)
    assert (len(page.items), page.after) == (3, "2")


async def test_no_more_cancellations_are_known_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headgate.jobs.records.cancellations.MOST", 10)
    clock, told = VirtualClock(), list[Event]()
    table = MemoryTable(clock)
    await table.put([_asked(f"{number:02}") for number in range(25)])
    looking = _cancelling(table, clock, told)
    await looking.look()
    assert [looking.reason(f"{n:02}", "send") is not None for n in range(25)].count(True) == 10
    assert [event.items for event in told if isinstance(event, ItemsSkipped)] == [15]
    assert MOST == 20_000


async def test_a_typed_cancellation_ends_no_job_of_another_type() -> None:
    clock = VirtualClock()
    table = MemoryTable(clock)
    _, asked = cancellation(JOB, "no", clock.now(), useful=timedelta(1), job_type="send")
    await table.put([asked])
    looking = _cancelling(table, clock, [])
    await looking.look()
    assert (looking.reason(JOB, "send"), looking.reason(JOB, "pay")) == ("no", None)


def _asked(job_id: str) -> Item:
    return Item(pk=CANCELLATIONS, sk=job_id, data={"reason": "", "at": START.isoformat()})


def _cancelling(table: MemoryTable, clock: VirtualClock, told: list[Event]) -> Cancelling:
    events = Events(told.append)
    paused = Paused(clock=clock, events=events)
    return Cancelling(table, paused, clock=clock, events=events, rng=RNG)


# --- claims --------------------------------------------------------------------------------------

CLAIMS: list[dict[str, Any]] = [
    {"state": "later version"},
    {"state": 5},
    {"state": "running", "since": "a", "until": 5},
    {"state": "running", "since": 0},
    {"state": "running", "since": 0, "until": 1e15},
    {"state": "running", "since": 0, "until": 253_000_000_000},
    {"state": "done", "result": "{"},
    {"state": "done", "result": 5},
    {"state": "done", "discarded": None},
]


@pytest.mark.parametrize("data", CLAIMS, ids=str)
async def test_a_job_with_a_strange_claim_is_parked_unrun(data: dict[str, Any]) -> None:
    app, mail = one_lane()
    ran: list[str] = []

    @mail.job("charge", once=True)
    async def charge(note: Note) -> None:
        ran.append(note.text)

    rig = Rig(app)
    [job] = await rig.submit(charge, "a")
    claim = Item(pk=partition(job), sk=CLAIM, data={"runner": "x", **data}, version=1)
    assert await rig.table.replace(claim) is None
    async with rig.working():
        await rig.submit(charge, "another")
        await rig.happens(JobCompleted)
        said = await rig.happens(MessageUnrunnable, app.parking.max_attempts)
    [letter] = rig.sqs.messages(DEAD_MAIL)
    assert letter.attributes["Reason"] == "claim-unreadable"
    assert {event.reason for event in said} == {"claim-unreadable"}
    assert {event.kind for event in rig.heard(ItemsSkipped)} == {"claim"}
    assert ran == ["another"]


@hostile
@given(fields("state", "since", "until", "result", "discarded", "runner", "type", "queue"))
def test_any_claim_has_a_standing(data: dict[str, Any]) -> None:
    found = standing_of(Item(pk="job#1", sk=CLAIM, data=data, version=1), 1e9)
    if data.get("state") not in ("running", "lapsed", "done", "free"):
        assert isinstance(found, Unreadable)


# --- unique keys ---------------------------------------------------------------------------------


@hostile
@given(fields("job", "sent", "at"), st.sampled_from(["first", "last"]))
def test_any_claim_on_a_key_lets_the_job_be_submitted(data: dict[str, Any], keep: Any) -> None:
    app, mail = one_lane()
    send = mail.define("send", Note, unique=Unique(within=60, keep=keep))
    told: list[Event] = []
    backend = MemoryBackend(app)
    with Client(app, backend=backend, events=Events(told.append)) as client:
        first = client.submit(send, Note())
        table = backend.table.sync
        [key] = {pk for pk, _ in backend.table._store.places() if pk.startswith("unique#")}
        standing = table.get(key, CLAIM)
        assert standing is not None
        strange = Item(pk=key, sk=CLAIM, data=data, version=standing.version + 1)
        assert table.replace(strange) is None
        if not (data.get("sent") is True and isinstance(data.get("job"), str)):
            assert client.submit(send, Note()).id != first.id


@pytest.mark.parametrize("data", [{}, {"job": 5}, {"job": None}, {"job": "x" * 100}], ids=str)
async def test_a_strange_claim_on_a_key_drops_no_job(data: dict[str, Any]) -> None:
    app, mail = one_lane()

    @mail.job("send", unique=Unique(within=60, keep="last"))
    async def send(_note: Note) -> None: ...

    rig = Rig(app)
    with Client(app, backend=rig.backend) as client:
        client.submit(send, Note())
    [key] = {pk for pk, _ in rig.table._store.places() if pk.startswith("unique#")}
    await rig.table.put([Item(pk=key, sk=CLAIM, data=data)])
    async with rig.working():
        await rig.happens(JobCompleted)
    assert [event.kind for event in rig.heard(ItemsSkipped)] == ["unique key"]


# --- records -------------------------------------------------------------------------------------

_RECORD_FIELDS = (
    *("at", "worker", "type", "queue", "priority", "source", "parent", "tenant", "not_before"),
    *("attempt", "percent", "note", "data", "reason", "detail", "kind", "final", "beats", "until"),
    *("error_type", "error_message", "traceback", "ran_s", "retry_in_s", "result", "result_ref"),
)
_PLACES = st.sampled_from(
    ["submitted", "progress", "cancel", "claim", "run", "run#m-1#1"]
    + [f"run#m-1#{number}#{what}" for number in ("00001", "9" * 900, "-1", "٣", "x")
       for what in ("started", "failed", "completed", "dead", "crashed", "nonsense")]
)  # fmt: skip


@hostile
@given(st.lists(st.tuples(_PLACES, fields(*_RECORD_FIELDS), st.booleans()), max_size=4))
def test_any_records_make_a_history(written: list[tuple[str, dict[str, Any], bool]]) -> None:
    items = [
        Item(pk=partition(JOB), sk=sk, data=data | ({"at": START.isoformat()} if timed else {}))
        for sk, data, timed in written
    ]
    Past(items, "m-1", 5)
    record = read_job(JOB, items, "send", now=START)
    for attempt in record.attempts:
        assert attempt.ran_s is None or 0 <= attempt.ran_s < 1e10
    assert all(each.at.utcoffset() is not None for each in record.timeline)


async def test_strange_records_keep_no_one_from_the_result() -> None:
    app, mail = one_lane()
    send = mail.define("send", Note, returns=int)
    backend = MemoryBackend(app, clock=VirtualClock(START))
    whole = Story().run(5, "completed", result=7).items
    strange = [
        Item(pk=partition(JOB), sk="submitted", data={"at": "soon"}),
        Item(pk=partition(JOB), sk="progress", data={"at": START.isoformat(), "percent": "half"}),
        Item(pk=partition(JOB), sk="cancel", data={"at": START.replace(tzinfo=None).isoformat()}),
        Item(pk=partition(JOB), sk="run#m-1#x#failed", data={"at": START.isoformat()}),
        Item(
            pk=partition(JOB),
            sk="run#m-1#00001#failed",
            data={"at": START.isoformat(), "ran_s": 1e100, "tenant": 5, "result_ref": "x"},
        ),
    ]
    await backend.table.put([*strange, *whole])
    with Client(app, backend=backend) as client:
        job: JobHandle[int] = client.handle(JOB, send)
        assert (job.state(), job.result(timeout=1)) == (JobState.COMPLETED, 7)


async def test_a_strange_line_of_a_list_has_no_partition_trimmed() -> None:
    assert is_partition(partition(JOB))
    assert not is_partition(CANCELLATIONS)
    assert list_name("recent", "send", 0) == "recent#send#0"


# --- pauses --------------------------------------------------------------------------------------

_PAUSE_TIMES = st.sampled_from(
    [
        START.isoformat(),
        (START + timedelta(days=1)).isoformat(),
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59-23:59",
        "9999-12-31T23:59:59Z",
        "2026-02-30T00:00:00Z",
    ]
)
_PAUSES = st.sampled_from(
    [
        PauseTarget(kind="queue", name="mail"),
        PauseTarget(kind="queue", name="mail\x1b[2J"),
        PauseTarget(kind="queue", name="mail", priority=Priority.NORMAL),
        PauseTarget(kind="type", name="send"),
        PauseTarget(kind="tenant", name="x" * 500),
    ]
)


@hostile
@given(
    st.lists(
        st.tuples(
            _PAUSES,
            st.fixed_dictionaries({"at": _PAUSE_TIMES, "until": _PAUSE_TIMES}),
            fields("at", "until", "reason", "actor", "kind", "name", "priority"),
        ),
        max_size=5,
    )
)
def test_any_pause_lasts_as_it_says_or_is_left_out(
    written: list[tuple[PauseTarget, dict[str, Any], dict[str, Any]]],
) -> None:
    items = [
        replace(item, sk=target.sort_key, data={**item.data, **times, **data})
        for target, times, data in written
        for item in [pause_item(Pause(target=target, at=START, until=START))]
    ]
    clock, told = VirtualClock(START), list[Event]()
    paused = Paused(clock=clock, events=Events(told.append))
    app, _ = one_lane()
    mail = app.topology.queue("mail", Priority.NORMAL)
    for _ in range(2):
        _, strange = paused.read(items)
        found, left_out = read_pauses(items)
        assert strange == left_out == len(items) - len(found)
        for pause in found:
            assert 1 <= pause.away_s(clock.now(), 3) <= 3_600
        pause_of_mail = paused.of(mail, "send", "org-1")
        assert pause_of_mail is None or pause_of_mail.until > clock.now()
        clock.advance(timedelta(days=2))
    for event in told:
        log_event(event)
    resumed = [each.kind for each in told if isinstance(each, QueueResumed)]
    begun = [each.kind for each in told if isinstance(each, QueuePaused)]
    assert len(resumed) <= len(begun) <= len(items)


# --- the audit -----------------------------------------------------------------------------------

_AUDIT_FIELDS = (
    *("at", "actor", "action", "kind", "name", "reason", "detail"),
    *("outcome", "count", "result", "error_type"),
)
_ENTRY = begun_item(
    AuditEntry(
        id=new_place(START),
        at=START,
        actor="ada",
        action="purge",
        target=AuditTarget(kind="dead letters", name="all"),
    ),
    timedelta(days=365),
)
_AUDIT_PLACES = st.sampled_from(
    [_ENTRY.sk, f"{_ENTRY.sk}#outcome", "#outcome", "0", f"{_ENTRY.sk}#", "x" * 1_000]
)


@hostile
@given(st.lists(st.tuples(_AUDIT_PLACES, fields(*_AUDIT_FIELDS), st.booleans())))
def test_any_items_leave_the_audit_readable(
    written: list[tuple[str, dict[str, Any], bool]],
) -> None:
    strange = {
        sk: Item(pk=AUDIT, sk=sk, data={**(_ENTRY.data if whole else {}), **data})
        for sk, data, whole in written
    }
    app, mail = one_lane()
    mail.define("send", Note)
    backend = MemoryBackend(app, clock=VirtualClock(START))
    for item in strange.values():
        backend.table.sync.put([item])
    with Client(app, actor="bob", backend=backend) as client:
        client.pauses.create(queue="mail")
        entries, skipped, after = list[AuditEntry](), 0, ""
        for _ in range(len(strange) + 2):
            page = client.audit.list(limit=1, after=after)
            entries, skipped = [*entries, *page.entries], skipped + page.skipped
            if not (after := page.next):
                break
    assert not after
    assert [each.action for each in entries if each.actor == "bob"] == ["pause"]
    told = len(entries) + sum(each.outcome is not None for each in entries)
    assert told + skipped == len(strange) + 2


# --- leases, budgets, lives ----------------------------------------------------------------------


@hostile
@given(st.dictionaries(st.text("abc", min_size=1), fields("tokens", "until", "hungry") | STORED))
def test_any_leases_leave_the_limit_to_the_living(leases: dict[str, Any]) -> None:
    asyncio.run(_leased({"leases": leases}))


@hostile
@given(fields("leases"))
def test_any_item_of_a_limit_can_be_leased_from(data: dict[str, Any]) -> None:
    asyncio.run(_leased(data))


async def _leased(data: dict[str, Any]) -> None:
    clock = VirtualClock(START)
    table = MemoryTable(clock)
    assert await table.replace(Item(pk="limit#l", sk="leases", data=data, version=1)) is None
    lease = _lease(table, clock)
    await lease.renew()
    assert lease.fault == ""
    assert lease.tokens == 10 or clock.now().timestamp() < LEASE_S  # nobody else lives


def _lease(table: MemoryTable, clock: VirtualClock) -> Lease:
    return Lease(
        table,
        "l",
        "me",
        10,
        in_use=lambda: 0,
        lasting_s=0,
        may_run=lambda _worker: False,
        rank=0,
        clock=clock,
        rng=RNG,
    )


def _leased_of_fleet(
    table: MemoryTable, clock: VirtualClock, told: list[Event]
) -> tuple[FleetLeases, Lease]:
    fleet = FleetLeases(
        table,
        "me",
        clock=clock,
        events=Events(told.append),
        rng=RNG,
        may_run=lambda _worker: False,
        on_renewed=lambda _names: None,
    )
    return fleet, fleet.lease("l", 10, lasting_s=0, rank=0, in_use=lambda: 0)


async def test_an_item_that_cant_be_read_stops_a_limit_once_only() -> None:
    clock, told = VirtualClock(START), list[Event]()
    table = MemoryTable(clock)
    table._store._partitions["limit#l"]["leases"] = {
        "pk": {"S": "limit#l"},
        "sk": {"S": "leases"},
        "data": {"B": b"x"},
    }
    fleet, lease = _leased_of_fleet(table, clock, told)
    await fleet._renew(fleet._kept["l"])
    assert (lease.tokens, [type(event) for event in told]) == (0, [LeaseFailed])
    await fleet._renew(fleet._kept["l"])
    assert lease.tokens == 10


async def test_strange_leases_are_reported() -> None:
    clock, told = VirtualClock(START), list[Event]()
    table = MemoryTable(clock)
    leases = {"a": {"tokens": 10, "until": 1e12, "hungry": True}, "b": 5}
    item = Item(pk="limit#l", sk="leases", data={"leases": leases}, version=1)
    assert await table.replace(item) is None
    fleet, lease = _leased_of_fleet(table, clock, told)
    await fleet._renew(fleet._kept["l"])
    assert lease.tokens == 10
    assert [(event.kind, event.items) for event in told if isinstance(event, ItemsSkipped)] == [
        ("lease", 2)
    ]


@hostile
@given(st.dictionaries(st.text("0123456789x-", min_size=1), STORED, max_size=3) | STORED)
def test_any_counts_leave_a_budget_usable(taken: Any) -> None:
    async def taking() -> None:
        clock = VirtualClock(START)
        table = MemoryTable(clock)
        budget = FleetBudget(table, "b", 5, 60, clock=clock, rng=RNG, tell=lambda _fault: None)
        block = int(clock.now().timestamp() // 60) // 64
        place = f"windows#{block:012}"
        strange = Item(pk="limit#b", sk=place, data={"taken": taken}, version=1)
        assert await table.replace(strange) is None
        await budget.take(0, longest_s=0)

    asyncio.run(taking())


_CHILDREN = st.dictionaries(
    st.sampled_from([JOB[:-1] + "2", JOB[:-1] + "3", JOB.upper(), "no id", "#", "x" * 900]),
    fields("at", "type", "queue", "priority", "tenant", "not_before"),
    max_size=4,
)


@hostile
@given(written=_CHILDREN, told=st.booleans())
def test_any_entries_of_children_are_listed_or_skipped(
    written: dict[str, dict[str, Any]], *, told: bool
) -> None:
    app = App("shop")
    app.define("send", dict)
    backend = MemoryBackend(app, clock=VirtualClock(START))
    usual = {"at": START.isoformat(), "type": "send"} if told else {}
    for sk, data in written.items():
        backend.table.sync.put([Item(pk=children_partition(JOB), sk=sk, data=data | usual)])
    page = Client(app, backend=backend).jobs.children(JOB)
    assert len(page.jobs) + page.skipped == len(written)
    assert all(each.changed_at.utcoffset() is not None for each in page.jobs)
    assert {each.id for each in page.jobs} <= {JOB[:-1] + "2", JOB[:-1] + "3"}


@hostile
@given(fields("beat", "groups", "at"))
def test_any_life_is_read_or_left_out(data: dict[str, Any]) -> None:
    life = read_life(Item(pk=LIVES, sk="other", data=data))
    assert life is None or life.at.utcoffset() is not None


@hostile
@given(fields(*status_item(STATUS).data))
def test_any_status_of_a_worker_is_read_or_left_out(data: dict[str, Any]) -> None:
    known = status_item(STATUS)
    read = read_status(Item(pk=known.pk, sk=known.sk, data={**known.data, **data}))
    if read is None:
        return
    written = read_status(status_item(read))  # in which control characters are escaped
    assert written is not None
    assert read_status(status_item(written)) == written


async def test_more_lives_than_workers_write_judge_nobody() -> None:
    clock = VirtualClock(START)
    table = MemoryTable(clock)
    for start in range(0, 8_200, 25):
        await table.put([Item(pk=LIVES, sk=f"{n:05}") for n in range(start, start + 25)])
    table.calls.clear()
    with pytest.raises(ServiceUnavailable, match="more than workers write"):
        await Lives(table, own="me", clock=clock).look()
    assert table.calls == ["page"] * 8


# --- bridge and sweep ----------------------------------------------------------------------------


@hostile
@given(fields("sent"), st.integers(0, 3))
def test_any_mark_of_a_sending_lets_the_bridge_send(data: dict[str, Any], version: int) -> None:
    from tests.unit.lambdas.test_bridge import FIRED, Report  # the input of one firing

    clock = VirtualClock(START)
    app = App("shop", stage="test")
    app.define("report", Report, schedule=Schedule.rate(timedelta(days=1)))
    sqs, table = MemorySqs(clock), MemoryTable(clock)
    sqs.provision(app.topology)
    given_input = _firing(app, FIRED)
    mark = Item(
        pk=f"{SENT}{given_input.job_id}",
        sk=place_of(given_input),
        data=data,
        version=version,
    )
    asyncio.run(table.put([mark]))
    bridge = Bridge(sqs.sync, table.sync, clock.now, routes=Routes.of(app))
    assert bridge.submit(given_input) is (data.get("sent") is not True)


def _firing(app: App, fired: dict[str, str]) -> Any:
    import json

    from headgate.jobs.schedules.firing import schedule_input
    from headgate.jobs.schedules.inputs import read_input

    text = json.dumps(schedule_input(app, app.types["report"]))
    for attribute, value in fired.items():
        text = text.replace(attribute, value)
    return read_input(json.loads(text))


@pytest.mark.parametrize("data", [{}, {"told": 1}, {"saved": True}, {"told": "x", "saved": {}}])
def test_a_strange_item_keeps_no_queue_from_being_swept(data: dict[str, Any]) -> None:
    bench = SweepBench()
    bench.die("send-email")
    queue = bench.parking("send-email").name
    items = [Item(pk=f"dead-letters#{queue}", sk="m-1", data=data)]
    items += [Item(pk="sweep", sk="lease"), Item(pk="sweep", sk="summary")]  # that never expire
    asyncio.run(bench.table.put(items))
    assert bench.swept().told == 1
    assert bench.swept().told == 0


# --- what DynamoDB itself holds ------------------------------------------------------------------

_ATTRIBUTE = st.one_of(
    st.fixed_dictionaries({"S": st.text(max_size=5)}),
    st.fixed_dictionaries({"N": st.sampled_from(["0", "-1", "1E+125", "1.5", "9" * 38, "x"])}),
    st.fixed_dictionaries({"B": st.binary(max_size=3)}),
    st.fixed_dictionaries({"SS": st.lists(st.text(max_size=3), max_size=2)}),
    st.fixed_dictionaries({"M": st.dictionaries(st.text(max_size=2), STORED, max_size=2)}),
    st.just({}),
)


@hostile
@given(
    st.fixed_dictionaries(
        {"pk": st.just({"S": "p"}), "sk": st.just({"S": "s"})},
        optional=dict.fromkeys(
            ("data", "version", "expires_at", "list", "place", "summary"), _ATTRIBUTE
        ),
    )
)
def test_any_attributes_are_an_item_or_left_out(attributes: dict[str, Any]) -> None:
    last = {"pk": {"S": "p"}, "sk": {"S": "t"}}
    found = read_items({"Items": [attributes, {"pk": {"S": "p"}, "sk": {"S": "t"}}]}, START)
    assert found[-1].sk == "t"
    assert all(0 <= item.version <= 2**53 for item in found)
    # A page that nothing can be read of doesn't seem to be the last one.
    assert read_page({"Items": [attributes], "LastEvaluatedKey": last}, START).after == "t"


async def test_an_item_that_cant_be_read_is_named_without_its_content() -> None:
    table = MemoryTable(VirtualClock(START))
    table._store._partitions["p"]["s"] = {
        "pk": {"S": "p"},
        "sk": {"S": "s"},
        "data": {"B": b"secret"},
    }
    with pytest.raises(ItemUnreadable, match="pk='p', sk='s'") as raised:
        await table.get("p", "s")
    assert "secret" not in str(raised.value)
    assert raised.value.__cause__ is None
    assert await table.query("p") == []
