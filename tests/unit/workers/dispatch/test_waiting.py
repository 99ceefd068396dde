"""Choice of the next job: strict priority, and no message passed around until it dies."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import App, JobContext, Priority
from headgate.jobs.core.events import Events, JobCompleted, JobStarted
from headgate.jobs.core.ports.transport import ReceivedMessage
from headgate.jobs.core.topology import DEFAULT_LANES, QueueSpec
from headgate.jobs.errors import SettingsInvalid
from headgate.jobs.execution.calling.means import Means
from headgate.jobs.execution.delivery import Delivery
from headgate.jobs.execution.executor import Executor
from headgate.jobs.execution.run import Run
from headgate.jobs.testing import MessageState, VirtualClock
from headgate.workers.configuration import WorkerSettings
from headgate.workers.dispatch.shares import Shares
from headgate.workers.dispatch.waiting import Waiting
from headgate.workers.held import Hold
from headgate.workers.limits.guards import Block
from tests.unit.workers.rig import Gate, Note, Rig, gated_shop, without_threads


@pytest.mark.looptime
async def test_with_one_slot_the_four_lanes_start_in_the_order_of_their_priority() -> None:
    app, gate = gated_shop()
    rig = Rig(app)
    gate.open(*Priority)
    for priority in reversed(Priority):
        await rig.submit(app.types["work"], str(priority), priority=priority)
    async with rig.working(concurrency=1):
        await rig.happens(JobCompleted, 4)
    assert gate.started == list(Priority)


@pytest.mark.looptime
async def test_a_critical_job_that_arrives_goes_next() -> None:
    app, gate = gated_shop()
    rig = Rig(app)
    work = app.types["work"]
    async with rig.working(concurrency=1, give_back_after=timedelta(hours=1)):
        await asyncio.sleep(1)
        await rig.submit(work, "running", priority=Priority.LOW)
        await gate.reached(1)
        for priority in (Priority.LOW, Priority.NORMAL, Priority.CRITICAL):
            await rig.submit(work, str(priority), priority=priority)
            await asyncio.sleep(1)
        gate.open("running", *Priority)
        await rig.happens(JobCompleted, 4)
    assert gate.started[:2] == ["running", "critical"]


@pytest.mark.looptime
async def test_what_can_not_start_in_time_is_given_back() -> None:
    app, gate = gated_shop()
    rig = Rig(app)
    work = app.types["work"]
    async with rig.working(concurrency=1):
        await asyncio.sleep(1)
        await rig.submit(work, "long", priority=Priority.CRITICAL)
        await gate.reached(1)
        await rig.submit(work, "low", priority=Priority.LOW)
        await asyncio.sleep(1)
        [low] = rig.sqs.messages("shop-jobs-low")
        assert low.state is MessageState.IN_FLIGHT
        await asyncio.sleep(200)
        [low] = rig.sqs.messages("shop-jobs-low")
        assert low.state is MessageState.VISIBLE
        gate.open("long", "low")
        await rig.happens(JobCompleted, 2)


@without_threads
@pytest.mark.parametrize("concurrency", [1, 4])
async def test_low_work_is_not_passed_around_to_death_under_higher_work(
    concurrency: int,
) -> None:
    app = App("shop", priorities="all")
    shareless = replace(DEFAULT_LANES[Priority.LOW], share=0)
    jobs = app.queue("slow", lanes={**DEFAULT_LANES, Priority.LOW: shareless})

    @jobs.job("work")
    async def work(note: Note) -> None:
        await asyncio.sleep(40 if note.text == "long" else 0)

    rig = Rig(app)
    await rig.submit(work, *["long"] * 150 * concurrency, priority=Priority.CRITICAL)
    await rig.submit(work, *["low"] * 3, priority=Priority.LOW)
    async with rig.working(concurrency=concurrency):
        await asyncio.sleep(1.5 * 3600)
        receives = [message.receive_count for message in rig.sqs.messages("shop-slow-low")]
        assert len(receives) == 3
        assert max(receives) <= 5
        assert rig.sqs.messages("shop-slow-low-dlq") == []
        await rig.happens(JobCompleted, 150 * concurrency + 3)
    assert len(rig.heard(JobStarted)) == 150 * concurrency + 3


def _hold(waiting_in: str, received_at: float) -> Hold:
    spec = next(spec for spec in _SPECS if spec.name == waiting_in)
    message = ReceivedMessage(
        message_id="m",
        receipt=f"{waiting_in}/{received_at}",
        body="{}",
        receive_count=1,
        sent_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
    delivery = Delivery(message=message, queue=spec, received_at=received_at)
    return Hold(Run(_EXECUTOR, delivery), received_at)


def _always(_queue: QueueSpec) -> bool:
    return True


def _two_groups() -> App:
    app, _ = gated_shop()
    app.queue("mail")
    return app


_APP = _two_groups()
_SPECS = _APP.topology.queues
_EXECUTOR = Executor(Means(app=_APP, clock=VirtualClock(), events=Events()))


@given(st.lists(st.sampled_from([spec.name for spec in _SPECS]), max_size=40))
def test_messages_come_out_by_priority_then_age_without_loss(
    names: list[str],
) -> None:
    waiting = Waiting(_SPECS, Shares(()))
    holds = [_hold(name, float(moment)) for moment, name in enumerate(names)]
    for hold in holds:
        waiting.put(hold)
    out = []
    while (first := waiting.next(_always, _always)) is not None:
        out.append(first)
    assert out == sorted(
        holds, key=lambda hold: (hold.delivery.queue.priority.rank, hold.delivery.received_at)
    )
    assert len(waiting) == 0


@given(st.lists(st.sampled_from([spec.name for spec in _SPECS]), max_size=40), st.integers(0, 40))
def test_taking_out_by_a_condition_leaves_the_rest_in_order(names: list[str], moment: int) -> None:
    waiting = Waiting(_SPECS, Shares(()))
    holds = [_hold(name, float(received)) for received, name in enumerate(names)]
    for hold in holds:
        waiting.put(hold)
    taken = waiting.take_if(lambda hold: hold.delivery.received_at < moment)
    assert sorted(taken, key=id) == sorted(holds[:moment], key=id)
    assert sorted(waiting.take_all(), key=id) == sorted(holds[moment:], key=id)


@pytest.mark.looptime
async def test_a_critical_job_starts_at_once_when_lower_ones_hold_all_they_may() -> None:
    app = App("shop", priorities="all")
    gate = Gate()

    @app.job("work")
    async def work(note: Note, ctx: JobContext) -> None:
        await gate(note, ctx)

    rig = Rig(app)
    await rig.submit(work, *map(str, range(100)), priority=Priority.LOW)
    async with rig.working(concurrency=20):
        await gate.reached(18)
        await asyncio.sleep(60)
        assert len(gate.started) == 18, "a tenth of the slots is for critical jobs alone"
        before = rig.clock.monotonic()
        await rig.submit(work, "urgent", "urgent too", priority=Priority.CRITICAL)
        await gate.reached(20)
        assert gate.started[18:] == ["urgent", "urgent too"]
        assert rig.clock.monotonic() - before < 0.1
        gate.open(*gate.started, *map(str, range(100)))
        await rig.happens(JobCompleted, 102)


@pytest.mark.looptime
@pytest.mark.parametrize("priority", [Priority.CRITICAL, Priority.LOW])
async def test_without_anyone_to_keep_slots_from_all_of_them_are_used(priority: Priority) -> None:
    app = App("shop")
    gate = Gate()
    mail = app.queue("mail", priorities=[priority])

    @mail.job("work")
    async def work(note: Note, ctx: JobContext) -> None:
        await gate(note, ctx)

    rig = Rig(app)
    await rig.submit(work, *map(str, range(20)))
    async with rig.working(concurrency=20):
        await gate.reached(20)
        gate.open(*map(str, range(20)))
        await rig.happens(JobCompleted, 20)


@pytest.mark.parametrize(
    ("concurrency", "reserved"), [(10, 10), (10, 11), (10, -1)], ids=["all", "more", "negative"]
)
def test_slots_can_not_be_reserved_so_that_nothing_else_could_start(
    concurrency: int, reserved: int
) -> None:
    with pytest.raises(SettingsInvalid, match="reserved"):
        WorkerSettings(concurrency=concurrency, reserved=reserved)


# --- jobs that can't start -----------------------------------------------------------------------


def test_what_may_not_start_is_counted_apart_until_it_may() -> None:
    blocks: dict[Hold, Block] = {}
    waiting = Waiting(_SPECS, Shares(()), block=blocks.get)
    name = _SPECS[0].name
    first, second, third, follower = (_hold(name, float(moment)) for moment in range(4))
    blocks |= {first: Block("a", 1, 1), second: Block("a", 1, 1)}
    for hold in (first, second, third):
        waiting.put(hold)
    waiting.put(follower, behind=True)

    assert waiting.next(_always, _always) is third
    assert (waiting.startable(name), waiting.aside, waiting.up_to(3)) == (0, 3, 0)
    assert [hold for hold, _ in waiting.news()] == [first, second]
    assert waiting.next(_always, _always) is None
    assert waiting.news() == []

    blocks[first] = Block("b", 1, 1)  # one limit lets it through, another does not
    waiting.ease("a")
    assert waiting.next(_always, _always) is None
    line = waiting.line(name)
    assert (line.held_back_by("a"), line.held_back_by("b"), line.held_back) == (1, 1, 2)
    assert [hold for hold, _ in waiting.news()] == [first]

    waiting.lead(follower)
    assert waiting.next(_always, _always) is follower
    blocks.clear()
    assert waiting.next(_always, _always) is None, "nothing has told that a limit has eased"
    waiting.ease()
    assert waiting.next(_always, _always) is second
    assert waiting.take_all() == [first]
    assert (len(waiting), waiting.aside) == (0, 0)


def test_a_limit_is_asked_again_only_once_it_has_eased() -> None:
    asked: list[Hold] = []

    def block(hold: Hold) -> Block:
        asked.append(hold)
        return Block(f"tenant#{hold.delivery.received_at}", 1, 1)

    waiting = Waiting(_SPECS, Shares(()), block=block)
    holds = [_hold(_SPECS[0].name, float(moment)) for moment in range(100)]
    for hold in holds:
        waiting.put(hold)
    assert waiting.next(_always, _always) is None
    assert asked == holds
    for _ in range(10):
        assert waiting.next(_always, _always) is None
    assert asked == holds
    waiting.ease("tenant#7.0")
    for _ in range(10):
        assert waiting.next(_always, _always) is None
    assert asked == [*holds, holds[7]]
    waiting.ease()
    assert waiting.next(_always, _always) is None
    assert len(asked) == 201


def test_a_limit_that_eases_lets_the_oldest_start_of_all_queues_of_a_priority() -> None:
    free = 0

    def block(_hold: Hold) -> Block | None:
        return None if free else Block("concurrency:app", 1, 1)

    first, second = (spec.name for spec in _SPECS if spec.priority is Priority.LOW)
    waiting = Waiting(_SPECS, Shares(()), block=block)
    holds = [_hold(name, float(moment)) for moment, name in enumerate([second, first] * 3)]
    for hold in holds:
        waiting.put(hold)
    started = []
    for _ in holds:
        free = 0
        assert waiting.next(_always, _always) is None
        free = 1
        waiting.ease("concurrency:app")
        started.append(waiting.next(_always, _always))
    assert started == holds


def test_messages_of_one_receive_start_in_their_order() -> None:
    waiting, name = Waiting(_SPECS, Shares(())), _SPECS[0].name
    holds = [_hold(name, 1.0) for _ in range(4)]
    for number, hold in enumerate(holds):
        hold.number, hold.ready = number, number % 2 == 1
        waiting.put(hold)
    for hold in (holds[2], holds[0]):
        hold.ready = True
        waiting.read(hold)
    assert [waiting.next(_always, _always) for _ in range(5)] == [*holds, None]


def test_a_message_starts_once_it_is_read_and_before_those_that_came_later() -> None:
    waiting = Waiting(_SPECS, Shares(()))
    name = _SPECS[0].name
    holds = [_hold(name, float(moment)) for moment in range(4)]
    holds[1].ready = False
    for hold in holds:
        waiting.put(hold)
    assert waiting.startable(name) == 4
    assert waiting.next(_always, _always) is holds[0]
    holds[1].ready = True
    waiting.read(holds[1])
    assert [waiting.next(_always, _always) for _ in range(4)] == [*holds[1:], None]


# --- guaranteed shares ---------------------------------------------------------------------------

_JOBS = [spec for spec in _SPECS if spec.group == "jobs"]
_LANES = [spec.name for spec in _JOBS]


class _Choice:
    """A worker's choice of jobs alone: the waiting jobs, and those started, in order."""

    def __init__(self, *, slots: int | None = None) -> None:
        self.shares = Shares(_JOBS, slots=slots)
        self.waiting = Waiting(_JOBS, self.shares)
        self.started: list[str] = []
        self._moment = 0.0

    def offer(self, name: str) -> None:
        self._moment += 1
        self.waiting.put(_hold(name, self._moment))

    def start(self, has_slot: Callable[[QueueSpec], bool] = _always) -> str | None:
        if (hold := self.waiting.next(has_slot, has_slot)) is None:
            return None
        name = hold.delivery.queue.name
        self.shares.started(name)
        self.started.append(name)
        return name


def test_under_backlog_each_priority_gets_its_share_and_the_highest_the_rest() -> None:
    choice = _Choice()
    for name in _LANES:
        choice.offer(name)
    for _ in range(10_000):
        started = choice.start()
        assert started is not None
        choice.offer(started)
    counts = Counter(choice.started)
    assert [round(counts[name] / 10_000, 2) for name in _LANES] == [0.65, 0.20, 0.10, 0.05]


@given(
    st.lists(st.sets(st.sampled_from(_LANES)), min_size=1, max_size=200),
    st.integers(1, 50),
)
def test_a_queue_with_work_always_gets_its_share_of_the_starts(
    turns: list[set[str]], lull: int
) -> None:
    choice = _Choice()
    for number, names in enumerate(turns):
        # A lull in which nothing waits must neither cost a queue its share nor let it hoard.
        for name in names if number % lull else ():
            if not choice.waiting.startable(name):
                choice.offer(name)
        choice.start()
    for spec in _JOBS:
        choice = _Choice()
        starts_with_work = 0
        for names in turns:
            for name in {*names, spec.name}:
                if not choice.waiting.startable(name):
                    choice.offer(name)
            choice.start()
            starts_with_work += 1
        owed = spec.lane.share * starts_with_work
        assert choice.started.count(spec.name) >= owed - 2


@given(st.lists(st.sampled_from(_LANES), min_size=1, max_size=60))
def test_every_waiting_job_starts_within_a_bounded_number_of_starts(
    names: list[str],
) -> None:
    choice = _Choice()
    for name in [*_LANES[1:], *names]:
        choice.offer(name)
    for _ in range(1000):  # critical work without end
        if not choice.waiting.startable(_LANES[0]):
            choice.offer(_LANES[0])
        choice.start()
    least = min(spec.lane.share for spec in _JOBS if spec.lane.share)
    assert len(choice.waiting) <= max(1, len(names) + 3 - int(1000 * least))


@given(st.lists(st.sampled_from(_LANES), min_size=1, max_size=100), st.data())
def test_a_critical_job_never_waits_while_a_reserved_slot_is_free(
    names: list[str], data: st.DataObject
) -> None:
    choice = _Choice()
    critical = _LANES[0]
    for name in names:
        choice.offer(name)
        for _ in range(data.draw(st.integers(0, 2))):
            # Only reserved slots are free: the shares of others must not stand in the way.
            waits = choice.waiting.startable(critical)
            started = choice.start(lambda queue: queue.priority is Priority.CRITICAL)
            assert started == (critical if waits else None)


@given(st.lists(st.sampled_from(_LANES), max_size=100))
def test_order_within_a_queue_is_kept(names: list[str]) -> None:
    choice = _Choice()
    holds = []
    for moment, name in enumerate(names):
        holds.append(_hold(name, float(moment)))
        choice.waiting.put(holds[-1])
    out = []
    while (hold := choice.waiting.next(_always, _always)) is not None:
        choice.shares.started(hold.delivery.queue.name)
        out.append(hold)
    for name in _LANES:
        assert [hold for hold in out if hold.delivery.queue.name == name] == [
            hold for hold in holds if hold.delivery.queue.name == name
        ]


def test_a_queue_that_holds_its_share_of_the_slots_is_owed_no_more_starts() -> None:
    choice = _Choice(slots=20)
    low = _LANES[3]  # a share of a twentieth: of 20 slots, one, and one more
    for _ in range(500):
        for name in (_LANES[0], low):
            if not choice.waiting.startable(name):
                choice.offer(name)
        if choice.start() != low:  # the others end at once, these never do
            choice.shares.finished(_LANES[0])
    assert choice.started.count(low) == 2


def test_a_queue_whose_slots_come_free_is_owed_starts_again() -> None:
    choice = _Choice(slots=20)
    low = _LANES[3]
    for _ in range(200):
        for name in (_LANES[0], low):
            if not choice.waiting.startable(name):
                choice.offer(name)
        choice.start()
    assert choice.started.count(low) == 2
    choice.shares.finished(low)
    choice.offer(_LANES[0])
    assert choice.start() == low


def test_a_queue_with_long_jobs_does_not_starve_its_peers() -> None:
    shares = Shares(_SPECS, slots=20)
    waiting = Waiting(_SPECS, shares)
    critical, *_ = (spec.name for spec in _SPECS)
    long, short = (spec.name for spec in _SPECS if spec.priority is Priority.LOW)
    started: Counter[str] = Counter()
    for moment in range(1000):
        for name in (critical, long, short):
            if not waiting.startable(name):
                waiting.put(_hold(name, float(moment)))
        hold = waiting.next(_always, _always)
        assert hold is not None
        shares.started(name := hold.delivery.queue.name)
        started[name] += 1
        if name != long:  # whose jobs never end
            shares.finished(name)
    assert started[long] == 3, "a tenth of the slots for both, rounded up, and one more"
    assert started[short] >= 40


def test_what_comes_and_goes_while_nothing_starts_takes_no_memory() -> None:
    choice = _Choice()
    for _ in range(1000):
        choice.offer(_LANES[3])
        choice.waiting.take_all()
    assert len(choice.shares._due) < 50


def test_shares_that_exceed_one_are_scaled_down_in_proportion() -> None:
    greedy = [replace(spec, lane=replace(spec.lane, share=0.8)) for spec in _JOBS]
    shares = Shares(greedy)
    assert sum(shares.of(spec.name) for spec in greedy) == pytest.approx(0.95)
    assert len({shares.of(spec.name) for spec in greedy}) == 1


@pytest.mark.looptime
async def test_under_backlog_a_worker_receives_and_starts_each_queues_share() -> None:
    app = App("shop", priorities="all")

    @app.job("work")
    async def work(_note: Note) -> None:
        await asyncio.sleep(0.2)

    rig = Rig(app)
    for priority in Priority:
        await rig.submit(work, *[str(priority)] * 1000, priority=priority)
    async with rig.working(concurrency=20):
        await rig.happens(JobStarted, 1000)
        counts = Counter(event.priority for event in rig.heard(JobStarted)[:1000])
    for priority in Priority:
        assert counts[priority] >= 1000 * DEFAULT_LANES[priority].share * 0.9
    assert counts[Priority.CRITICAL] > 600


@pytest.mark.looptime
async def test_what_nobody_waits_for_is_not_kept_free() -> None:
    app = App("shop", priorities="all")

    @app.job("work")
    async def work(_note: Note) -> None:
        await asyncio.sleep(1)

    rig = Rig(app)
    await rig.submit(work, *["low"] * 400, priority=Priority.LOW)
    async with rig.working(concurrency=20, reserved=0):
        began = rig.clock.monotonic()
        await rig.happens(JobCompleted, 400)
        assert rig.clock.monotonic() - began < 24, "20 slots, 400 s of work"
