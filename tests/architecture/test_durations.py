"""Every public duration is given in seconds or as a timedelta, to the same effect.

The edges are found by the annotations of what is public, and each has to be in `EDGES`.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any, ParamSpec, Unpack, get_args, get_origin, get_type_hints, is_typeddict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headgate
import headgate.errors
import headgate.infra
import headgate.testing
from headgate import (
    App,
    AsyncClient,
    Backoff,
    Batch,
    Breaker,
    CrashLimit,
    DeadLetter,
    DeadLetterFilter,
    Encryption,
    ExistingQueue,
    JobFilter,
    JobType,
    Keep,
    Lane,
    RateLimit,
    Replay,
    RetryBudget,
    RetryLater,
    Schedule,
    Spool,
    Unique,
    cron,
)
from headgate.errors import HeadgateError, ResultTimeout
from headgate.infra import ConsumerGroup, Thresholds, WorkerGroup
from headgate.jobs.testing import MemoryBackend
from headgate.jobs.values.durations import Duration, DurationField
from headgate.lambdas import consume
from headgate.testing import Harness, MemorySqs, VirtualClock

HOMES: tuple[ModuleType, ...] = (headgate, headgate.errors, headgate.testing, headgate.infra)

_HOUR = 3600
_YEAR = 365 * 24 * _HOUR


@dataclass(frozen=True, kw_only=True)
class Edge:
    """A public parameter that is a duration."""

    give: Callable[[Any], object]
    """Gives it a value; returns an effect that can be compared."""
    at_least: int = 1
    at_most: int = _YEAR
    step_ms: int = 1
    """The bounds in seconds, and the step in milliseconds, of the values that it takes."""
    named: str = ""
    """Its name in errors, if that is not the parameter's."""


def declared(app: App | None = None, **options: Any) -> JobType[None, None]:
    return (app or App("shop")).define("nightly", **options)


def there(**options: Any) -> ExistingQueue:
    return ExistingQueue(queue="orders", **options)


def harnessed() -> tuple[Harness, JobType[None, None]]:
    job = declared(app := App("shop"))
    return Harness(app), job


def sent(**overrides: Any) -> object:
    """Return the message of a submission, without its id."""
    harness, job = harnessed()
    harness.client.submit(job, **overrides)
    [message] = harness.sqs.messages("shop-jobs-normal")
    return {**json.loads(message.body), "id": None}, message.visible_at


def waited(timeout: Duration, method: str) -> object:
    """Wait for a job that nobody runs; return the error and the time that it took."""
    harness, job = harnessed()
    handle = harness.client.submit(job)
    with pytest.raises(ResultTimeout) as raised:
        getattr(handle, method)(timeout)
    return raised.value.timeout_s, harness.clock.now()


def awaited(timeout: Duration, method: str) -> object:
    """`waited`, by an asynchronous handle."""

    async def wait() -> object:
        harness, job = harnessed()
        handle = await harness.async_client.submit(job)
        with pytest.raises(ResultTimeout) as raised:
            await getattr(handle, method)(timeout)
        return raised.value.timeout_s, harness.clock.now()

    return asyncio.run(wait())


def advanced(by: Duration) -> object:
    clock = VirtualClock()
    clock.advance(by)
    return clock.now()


def created(**options: Any) -> object:
    sqs = MemorySqs(VirtualClock())
    sqs.create_queue("q", **options)
    return sqs._queues["q"].settings


def function(**options: Any) -> ConsumerGroup:
    return ConsumerGroup(name="mail", handler="mail.handler", **options)


def lane(**numbers: Any) -> Lane:
    return Lane(**({"visibility": 60, "start_within": 60, "share": 0.1} | numbers))


def gathering(gather: Duration) -> object:
    app = App("shop")
    return AsyncClient(app, backend=MemoryBackend(app), gather=gather)._requests._gather_s


LETTER = DeadLetter(
    message_id="1",
    job_id=None,
    job_type=None,
    reason="redriven",
    sent_at=datetime(2026, 1, 1, tzinfo=UTC),
    queue="q",
)

_ATTEMPT: dict[str, Any] = {"at_most": 11 * _HOUR}
_MINUTES: dict[str, Any] = {"at_least": 60, "at_most": 24 * _HOUR, "step_ms": 60_000}
_SECONDS: dict[str, Any] = {"at_most": 12 * _HOUR, "step_ms": 1000}
_KEPT: dict[str, Any] = {"at_least": 60, "at_most": 14 * 24 * _HOUR, "step_ms": 1000}

EDGES: dict[str, Edge] = {
    "App.timeout": Edge(give=lambda it: App("shop", timeout=it).timeout, **_ATTEMPT),
    "App.keep": Edge(give=lambda it: App("shop", keep=it).keep),
    "App.keep_audit": Edge(give=lambda it: App("shop", keep_audit=it).keep_audit),
    "JobOptions.timeout": Edge(give=lambda it: declared(timeout=it).timeout, **_ATTEMPT),
    "JobOptions.expires": Edge(give=lambda it: declared(expires=it).expires),
    "JobOptions.keep": Edge(give=lambda it: declared(keep=it).keep),
    "SubmitOptions.delay": Edge(give=lambda it: sent(delay=it), at_most=900),
    "SubmitOptions.expires": Edge(give=lambda it: sent(expires=it)),
    "SubmitOptions.keep": Edge(give=lambda it: sent(keep=it)),
    "SubmitOptions.timeout": Edge(give=lambda it: sent(timeout=it), **_ATTEMPT),
    "JobHandle.wait.timeout": Edge(give=lambda it: waited(it, "wait"), at_most=_HOUR),
    "JobHandle.result.timeout": Edge(give=lambda it: waited(it, "result"), at_most=_HOUR),
    "AsyncJobHandle.wait.timeout": Edge(give=lambda it: awaited(it, "wait"), at_most=_HOUR),
    "AsyncJobHandle.result.timeout": Edge(give=lambda it: awaited(it, "result"), at_most=_HOUR),
    "Batch.wait": Edge(give=lambda it: Batch(10, wait=it), at_most=300),
    "Unique.within": Edge(give=lambda it: Unique(within=it)),
    "RateLimit.per": Edge(give=lambda it: RateLimit(20, per=it)),
    "RetryBudget.per": Edge(give=lambda it: RetryBudget(20, per=it)),
    "Breaker.window": Edge(give=lambda it: Breaker(window=it)),
    "Breaker.open_for": Edge(give=lambda it: Breaker(open_for=it)),
    "CrashLimit.within": Edge(give=lambda it: CrashLimit(within=it)),
    "DeadLetter.deleted_at.retention": Edge(give=LETTER.deleted_at),
    "DeadLetterFilter.since": Edge(give=lambda it: DeadLetterFilter(since=it)),
    "DeadLetterFilter.until": Edge(give=lambda it: DeadLetterFilter(until=it)),
    "JobFilter.since": Edge(give=lambda it: JobFilter(since=it)),
    "JobFilter.until": Edge(give=lambda it: JobFilter(until=it)),
    "Keep.completed": Edge(give=Keep),
    "Keep.failed": Edge(give=lambda it: Keep(failed=it)),
    "Replay.after": Edge(give=lambda it: Replay(after=it), at_least=300, at_most=12 * 24 * _HOUR),
    "Lane.visibility": Edge(give=lambda it: lane(visibility=it), at_most=12 * _HOUR),
    "Lane.start_within": Edge(give=lambda it: lane(start_within=it)),
    "Lane.gather": Edge(give=lambda it: lane(gather=it), at_most=6),
    "AsyncClient.gather": Edge(give=gathering),
    "Backoff.exponential.base": Edge(give=lambda it: Backoff.exponential(base=it, cap=_YEAR)),
    "Backoff.exponential.cap": Edge(give=lambda it: Backoff.exponential(cap=it)),
    "Backoff.adaptive.base": Edge(give=lambda it: Backoff.adaptive(base=it, cap=_YEAR)),
    "Backoff.adaptive.cap": Edge(give=lambda it: Backoff.adaptive(cap=it)),
    "Backoff.fixed.delay": Edge(give=Backoff.fixed),
    "Backoff.steps.delays": Edge(give=lambda it: Backoff.steps(1, it), named="delay"),
    "Backoff.custom.fn": Edge(
        give=lambda it: next(Backoff.custom(lambda _: it).bounds()), named="Backoff.custom"
    ),
    "RetryLater.after": Edge(give=lambda it: RetryLater(it).after),
    "Schedule.cron.flexible_window": Edge(
        give=lambda it: Schedule.cron("0 8 * * ? *", flexible_window=it), **_MINUTES
    ),
    "cron.flexible_window": Edge(
        give=lambda it: cron("0 8 * * ? *", flexible_window=it), **_MINUTES
    ),
    "Schedule.rate.every": Edge(give=Schedule.rate, **_MINUTES),
    "Schedule.rate.flexible_window": Edge(
        give=lambda it: Schedule.rate(60, flexible_window=it), **_MINUTES
    ),
    "Spool.lease": Edge(give=lambda it: Spool("jobs.spool", lease=it)),
    "Encryption.max_age": Edge(give=lambda it: Encryption(max_age=it)),
    "ExistingQueue.retention": Edge(give=lambda it: there(retention=it), **_KEPT),
    "ExistingQueue.dead_letters_retention": Edge(
        give=lambda it: there(dead_letters_retention=it), **_KEPT
    ),
    "VirtualClock.advance.by": Edge(give=advanced),
    "MemorySqs.create_queue.visibility": Edge(give=lambda it: created(visibility=it), **_SECONDS),
    "MemorySqs.create_queue.delay": Edge(give=lambda it: created(delay=it), **_SECONDS),
    "MemorySqs.create_queue.retention": Edge(give=lambda it: created(retention=it), **_SECONDS),
    "WorkerGroup.typical": Edge(give=lambda it: WorkerGroup(typical=it)),
    "WorkerGroup.stop_timeout": Edge(
        give=lambda it: WorkerGroup(stop_timeout=it), at_least=30, at_most=120
    ),
    "ConsumerGroup.timeout": Edge(give=lambda it: function(timeout=it), at_least=5, at_most=900),
    "ConsumerGroup.max_batching_window": Edge(
        give=lambda it: function(max_batching_window=it), at_least=0, at_most=300
    ),
    "ConsumerGroup.typical": Edge(give=lambda it: function(typical=it)),
    "Thresholds.oldest": Edge(give=lambda it: Thresholds(oldest=it)),
}

NOT_GIVEN = {
    "CrashLimit.window.visibility": "an argument of workers",
    "Schedule.flexible_window": "Schedule is made by cron, rate and at",
}
"""Timedeltas that no user writes."""

NUMBERS = {
    "Backoff.adaptive.factor",
    "Backoff.adaptive.jitter",
    "Backoff.exponential.factor",
    "Backoff.exponential.jitter",
    "Backoff.fixed.jitter",
    "Backoff.steps.jitter",
    "BatchContext.progress.percent",
    "Breaker.failure_ratio",
    "JobContext.progress.percent",
    "Lane.share",
    "MemoryMetrics.put.values",
    "RateLimit.cost",
    "Thresholds.failed_percent",
    "Thresholds.schedules_percent",
}
"""Parameters that are floats, and no durations."""

IN_SECONDS = {
    "Call.delays_s",
    "Call.timeouts_s",
    "ChildFailed.retry_after_s",
    "Deferred.after_s",
    "JobTimeout.timeout_s",
    "MemorySqs.receive.visibility_s",
    "MemorySqs.receive.wait_s",
    "MemorySqs.receive_now.visibility_s",
    "ResultTimeout.timeout_s",
}
"""Seconds by their names: of values that Headgate itself makes, and of calls as SQS has them."""


def parameters() -> Iterator[tuple[str, Any]]:
    """Yield each public parameter's name with its annotation."""
    for home in HOMES:
        for name, value in inspect.getmembers(home):
            if name in getattr(home, "__all__", dir(home)) and not name.startswith("_"):
                yield from parameters_of(name, value)
    yield from parameters_of("consumer", consume.consumer)


def parameters_of(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if not inspect.isclass(value):
        if inspect.isfunction(value):
            yield from parameters_of_function(name, value)
        return
    if inspect.isfunction(value.__init__):
        yield from parameters_of_function(name, value.__init__)
    for method, _ in inspect.getmembers(value, callable):
        found = inspect.unwrap(getattr(value, method))
        if not method.startswith("_") and inspect.isroutine(found):
            yield from parameters_of_function(f"{name}.{method}", getattr(found, "__func__", found))


def parameters_of_function(name: str, function: Any) -> Iterator[tuple[str, Any]]:
    try:
        hints = get_type_hints(function)
    except NameError:  # a name that is imported for type checkers alone
        told = inspect.get_annotations(function)
        hints = {name: read(function, annotation) for name, annotation in told.items()}
    for parameter, hint in hints.items():
        if get_origin(hint) is Unpack and is_typeddict(options := get_args(hint)[0]):
            for option, kind in get_type_hints(options).items():
                yield f"{options.__name__}.{option}", kind
        elif parameter != "return":
            yield f"{name}.{parameter}", hint


def read(function: Any, annotation: str) -> Any:
    """Return what an annotation stands for; itself if it has a name for type checkers alone."""
    try:
        return eval(annotation, function.__globals__)  # noqa: S307 - our own code
    except NameError:
        return annotation


def kinds(hint: Any) -> set[Any]:
    """Return the types that an annotation is made of; of a function's, those it returns."""
    if isinstance(hint, str | ParamSpec):
        return {hint}
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Callable:
        return kinds(inner[-1])
    if not inner or origin is Unpack:
        return {hint}
    return set().union(*(kinds(each) for each in inner if not isinstance(each, list)))


FOUND = {name: kinds(hint) for name, hint in parameters()}


def test_every_public_duration_is_in_the_table_and_takes_both_forms() -> None:
    durations = {
        name: found
        for name, found in FOUND.items()
        if found & {timedelta, DurationField} and name not in NOT_GIVEN
    }
    assert durations.keys() == EDGES.keys()
    forms = ({timedelta, float}, {DurationField})
    assert not [name for name, found in durations.items() if not any(f <= found for f in forms)]


def test_no_public_parameter_is_a_duration_without_the_annotation_of_one() -> None:
    others = FOUND.keys() - EDGES.keys() - NOT_GIVEN.keys() - IN_SECONDS
    assert {name for name in others if float in FOUND[name]} == NUMBERS
    assert not [name for name in others if name.endswith("_s")]
    unread = {kind for found in FOUND.values() for kind in found if isinstance(kind, str)}
    assert not [text for text in unread if "timedelta" in text or "Duration" in text]


@pytest.mark.parametrize("name", EDGES)
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_seconds_and_a_timedelta_have_the_same_effect(name: str, data: st.DataObject) -> None:
    edge = EDGES[name]
    steps = st.integers(edge.at_least * 1000 // edge.step_ms, edge.at_most * 1000 // edge.step_ms)
    length = timedelta(milliseconds=data.draw(steps) * edge.step_ms)
    effect = edge.give(length)
    assert edge.give(length.total_seconds()) == effect
    whole = timedelta(seconds=max(edge.at_least, edge.step_ms // 1000))
    assert edge.give(int(whole.total_seconds())) == edge.give(whole)


@pytest.mark.parametrize("value", ["30", "1m", True, float("nan"), float("inf"), -1, timedelta(-1)])
@pytest.mark.parametrize("name", EDGES)
def test_an_invalid_duration_is_refused_by_the_name_of_its_option(name: str, value: object) -> None:
    with pytest.raises(HeadgateError, match=EDGES[name].named or name.rpartition(".")[2]):
        EDGES[name].give(value)
