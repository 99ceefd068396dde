"""`jobs.core.batcher`: many requests become few, and each of them gets its answer."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise

import looptime
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.jobs.core.batcher import LINGER_S, Batcher, Pacing
from headgate.jobs.core.batching import TRIES, EntryRejected, in_batches, pause_s
from headgate.jobs.core.ports.transport import EntryFailure
from headgate.jobs.core.topology import MAX_BATCH, MAX_MESSAGE_BYTES
from headgate.jobs.errors import AccessDenied, ServiceUnavailable, Throttled

pytestmark = pytest.mark.looptime


def _failure(index: int, *, sender_fault: bool = False) -> EntryFailure:
    return EntryFailure(
        index=index, code="InternalError", message="try again", sender_fault=sender_fault
    )


class _Service:
    """Accepts batches after a while; a script decides the fate of each."""

    def __init__(self, *script: Callable[[Sequence[int]], list[EntryFailure]]) -> None:
        self.batches: list[list[int]] = []
        self.done: list[int] = []
        self._script = iter(script)

    async def __call__(self, items: Sequence[int]) -> list[EntryFailure]:
        self.batches.append(list(items))
        await asyncio.sleep(0.01)
        step = next(self._script, None)
        failures = step(items) if step else []
        failed = {failure.index for failure in failures}
        self.done += [item for index, item in enumerate(items) if index not in failed]
        return failures


def _raise(error: BaseException) -> Callable[[Sequence[int]], list[EntryFailure]]:
    def step(_items: Sequence[int]) -> list[EntryFailure]:
        raise error

    return step


def _batcher(
    call: _Service,
    *,
    tries: int = 4,
    parallel: int = 16,
    eager: bool = False,
    size_of: Callable[[int], int] = lambda _item: 0,
) -> Batcher[int]:
    return Batcher(
        call,
        pacing=Pacing(parallel=parallel, tries=tries),
        linger_s=lambda: 0.0 if eager else LINGER_S,
        name="test-batch",
        rng=random.Random(0),  # noqa: S311 - spreads pauses
        size_of=size_of,
    )


async def test_what_comes_within_the_linger_shares_one_request() -> None:
    service = _Service()
    batcher = _batcher(service)
    first = batcher.put(1)
    await asyncio.sleep(0.003)
    await asyncio.gather(first, batcher.put(2))
    assert service.batches == [[1, 2]]


async def test_full_batches_of_ten_never_wait() -> None:
    service = _Service()
    batcher = _batcher(service)
    futures = [batcher.put(item) for item in range(25)]
    await asyncio.sleep(0)
    assert [len(batch) for batch in service.batches] == [10, 10]
    await asyncio.gather(*futures)
    assert [len(batch) for batch in service.batches] == [10, 10, 5]
    assert service.done == list(range(25))


async def test_an_eager_batcher_sends_at_the_end_of_the_loops_turn() -> None:
    service = _Service()
    batcher = _batcher(service, eager=True)
    before = asyncio.get_running_loop().time()
    await asyncio.gather(batcher.put(1), batcher.put(2))
    assert service.batches == [[1, 2]]
    assert asyncio.get_running_loop().time() - before == pytest.approx(0.01)


async def test_what_a_caller_waits_for_is_sent_when_the_request_before_it_has_ended() -> None:
    service = _Service()
    batcher: Batcher[int] = Batcher(
        service,
        pacing=Pacing(on_landing=True),
        linger_s=lambda: 5.0 if batcher.busy else 0.0,
        name="test",
        rng=random.Random(0),  # noqa: S311 - spreads pauses
    )
    before = asyncio.get_running_loop().time()
    first = batcher.put(1)
    await asyncio.sleep(0.001)
    await asyncio.gather(first, batcher.put(2))
    assert service.batches == [[1], [2]]
    assert asyncio.get_running_loop().time() - before < 1


async def test_no_batch_is_larger_than_sqs_takes() -> None:
    service = _Service()
    batcher = _batcher(service, size_of=lambda item: item)
    sizes = [400_000, 400_000, 400_000, MAX_MESSAGE_BYTES, 1, 2]
    await asyncio.gather(*(batcher.put(size) for size in sizes))
    assert all(sum(batch) <= MAX_MESSAGE_BYTES for batch in service.batches)
    assert sorted(service.done) == sorted(sizes)


@given(st.lists(st.integers(0, MAX_MESSAGE_BYTES), max_size=60))
def test_cutting_keeps_every_item_and_their_order_within_both_limits(sizes: list[int]) -> None:
    batches = list(in_batches(sizes, lambda size: size))
    assert [size for batch in batches for size in batch] == sizes
    assert all(1 <= len(batch) <= MAX_BATCH for batch in batches)
    assert all(sum(batch) <= MAX_MESSAGE_BYTES for batch in batches)
    for one, after in pairwise(batches):
        assert len(one) == MAX_BATCH or sum(one) + after[0] > MAX_MESSAGE_BYTES, "cut too early"


@given(st.integers(1, 30), st.integers())
def test_pauses_between_tries_grow_and_stay_within_five_seconds(tries: int, seed: int) -> None:
    longest = min(5.0, 0.05 * 2 ** (tries - 1))
    assert longest / 2 <= pause_s(tries, random.Random(seed)) <= longest  # noqa: S311 - seeded, to try them all


@given(st.integers())
def test_without_an_answer_the_tries_outlast_a_brief_outage(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - seeded, to try them all
    first, *others = [pause_s(tries, rng, answered=False) for tries in range(1, TRIES)]
    assert 0.025 <= first <= 0.05
    assert sum(others) > 1.5


async def test_only_the_entries_that_failed_are_sent_again() -> None:
    service = _Service(lambda _: [_failure(1), _failure(3)], lambda _: [_failure(0)])
    batcher = _batcher(service)
    await asyncio.gather(*(batcher.put(item) for item in range(5)))
    assert service.batches == [[0, 1, 2, 3, 4], [1, 3], [1]]
    assert Counter(service.done) == Counter(range(5))


async def test_an_entry_that_keeps_failing_is_given_up_after_all_tries() -> None:
    service = _Service(*[lambda _: [_failure(0)]] * 3)
    batcher = _batcher(service, tries=3)
    bad, good = batcher.put(1), batcher.put(2)
    await good
    with pytest.raises(EntryRejected, match="InternalError: try again"):
        await bad
    assert service.batches == [[1, 2], [1], [1]]


async def test_an_entry_at_fault_itself_is_rejected_at_once() -> None:
    service = _Service(lambda _: [_failure(0, sender_fault=True)])
    batcher = _batcher(service)
    bad, good = batcher.put(1), batcher.put(2)
    await good
    with pytest.raises(EntryRejected):
        await bad
    assert len(service.batches) == 1


@pytest.mark.parametrize("error", [Throttled("slow"), ServiceUnavailable("503")])
async def test_a_transient_error_of_the_call_is_tried_again(error: Exception) -> None:
    service = _Service(_raise(error), _raise(error))
    batcher = _batcher(service)
    await asyncio.gather(batcher.put(1), batcher.put(2))
    assert service.batches == [[1, 2]] * 3


@pytest.mark.parametrize(
    ("error", "calls"),
    [(ServiceUnavailable("503"), 4), (AccessDenied("no"), 1), (KeyError("a bug"), 1)],
)
async def test_an_error_that_stays_reaches_all_that_wait(error: Exception, calls: int) -> None:
    service = _Service(*[_raise(error)] * 10)
    batcher = _batcher(service)
    futures = [batcher.put(1), batcher.put(2)]
    await asyncio.wait(futures)
    assert [future.exception() for future in futures] == [error, error]
    assert len(service.batches) == calls
    assert batcher.unfinished == 0


async def test_a_cancelled_request_leaves_no_caller_waiting_forever() -> None:
    service = _Service(_raise(asyncio.CancelledError()))
    batcher = _batcher(service)
    futures = [batcher.put(1), batcher.put(2)]
    async with asyncio.timeout(60):
        await asyncio.wait(futures)
    assert all(future.cancelled() for future in futures)
    await batcher.put(3)
    assert service.done == [3]


async def test_a_caller_that_goes_away_does_not_stop_its_entry() -> None:
    service = _Service(lambda _: [_failure(0)])
    batcher = _batcher(service)

    async def caller(item: int) -> None:
        await batcher.put(item)

    async with asyncio.TaskGroup() as group:
        gone = group.create_task(caller(1))
        group.create_task(caller(2))
        await asyncio.sleep(0)
        gone.cancel()
    await batcher.drain()
    assert Counter(service.done) == Counter([1, 2])


async def test_drain_returns_when_everything_is_carried_out_or_given_up() -> None:
    service = _Service(_raise(Throttled("slow")), lambda _: [_failure(0)])
    batcher = _batcher(service, parallel=1)
    futures = [batcher.put(item) for item in range(33)]
    await batcher.drain()
    assert all(future.done() for future in futures)
    assert sorted(service.done) == list(range(33))
    assert not batcher.busy
    await batcher.drain()


async def test_what_is_put_while_draining_is_drained_too() -> None:
    service = _Service()
    batcher = _batcher(service)
    first = batcher.put(1)
    late: list[asyncio.Future[None]] = []
    first.add_done_callback(lambda _: late.append(batcher.put(2)))
    await batcher.drain()
    await batcher.drain()
    assert [future.done() for future in late] == [True]


async def test_requests_in_flight_are_bounded_and_those_that_wait_share() -> None:
    service = _Service()
    batcher = _batcher(service, parallel=2)
    async with asyncio.TaskGroup() as group:
        for item in range(100):
            group.create_task(_await(batcher.put(item)))
            if item % 3 == 0:
                await asyncio.sleep(0.0001)
            assert batcher.unfinished <= 2 + 100
    assert sorted(service.done) == list(range(100))
    assert len(service.batches) <= 30


async def _await(future: asyncio.Future[None]) -> None:
    await future


_STEP = st.sampled_from(["fine", "first", "some", "all", "blamed", "throttled", "denied", "bug"])


def _scripted(kind: str) -> Callable[[Sequence[int]], list[EntryFailure]]:
    match kind:
        case "first":
            return lambda _: [_failure(0)]
        case "some":
            return lambda items: [_failure(index) for index in range(0, len(items), 2)]
        case "all":
            return lambda items: [_failure(index) for index in range(len(items))]
        case "blamed":
            return lambda _: [_failure(0, sender_fault=True)]
        case "throttled":
            return _raise(Throttled("slow"))
        case "denied":
            return _raise(AccessDenied("no"))
        case "bug":
            return _raise(RuntimeError("a bug"))
    return lambda _: []


@given(
    st.lists(_STEP, max_size=30),
    st.lists(st.integers(0, 8), max_size=60),
    st.booleans(),
    st.integers(1, 3),
    st.sets(st.integers(0, 60)),
)
def test_the_batcher_loses_and_repeats_nothing_whatever_the_answer(
    steps: list[str], pauses: list[int], eager: bool, parallel: int, leaving: set[int]
) -> None:
    service = _Service(*map(_scripted, steps))

    async def scenario() -> list[BaseException | None]:
        batcher = _batcher(service, eager=eager, parallel=parallel, tries=3)
        futures = []
        for item, pause_ms in enumerate(pauses):
            futures.append(batcher.put(item))
            if pause_ms:
                await asyncio.sleep(pause_ms / 1000)
            if item in leaving:
                futures[-1].cancel()
        await batcher.drain()
        assert all(future.done() for future in futures)
        assert batcher.unfinished == 0
        return await asyncio.gather(*futures, return_exceptions=True)

    results = _in_virtual_time(scenario)
    told_done = {item for item, result in enumerate(results) if result is None}
    told_failed = {item for item, result in enumerate(results) if isinstance(result, Exception)}
    assert max(Counter(service.done).values(), default=1) == 1
    assert told_done <= set(service.done)
    assert not told_failed & set(service.done)
    sent = Counter(item for batch in service.batches for item in batch)
    assert set(sent) == set(range(len(pauses)))
    assert max(sent.values(), default=0) <= 3


def _in_virtual_time(scenario: Callable[[], object]) -> list[BaseException | None]:
    with asyncio.Runner(loop_factory=looptime.new_event_loop) as runner:
        return runner.run(scenario())  # type: ignore[arg-type]  # a coroutine, whoever calls
