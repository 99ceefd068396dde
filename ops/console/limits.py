"""The limits of a queue and its types, as they are declared and as they stand at the workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headgate.jobs.core.limits import Breaker, Concurrency, LimitKey, Limits, RateLimit, Scope
from headgate.jobs.definitions.app import App
from headgate.jobs.records.fleet.worker_status import LimitState, WorkerStatus
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.ops.console.words import span

_WORST_FIRST = (LimitState.OPEN, LimitState.PROBING, LimitState.HOLDING)


@light_dataclass(frozen=True, slots=True, kw_only=True)
class LimitRow:
    """A limit as a row of a table."""

    name: str
    """As workers name it: ``rate:queue:payments``."""
    words: str
    """Its declaration in words."""
    state: LimitState | None
    """The most restrictive state that a worker tells; None if it lets all jobs start."""
    workers: int
    """Number of workers at which it holds jobs back."""


def limits_of(app: App, queue: str, workers: Sequence[WorkerStatus]) -> Iterator[LimitRow]:
    """Yield the limits that jobs of a queue pass: those of the app, the queue and its types."""
    types = [each for each in app.types.values() if each.queue == queue]
    of_queue = app.queues[queue].limits
    levels = (
        ("app", app.limits),
        (f"queue:{queue}", of_queue),
        *((f"type:{each.name}", each.limits) for each in types),
    )
    for level, limits in levels:
        if limits.rate_limit is not None:
            yield _row(f"rate:{level}", _rate(limits.rate_limit), workers)
        if limits.concurrency is not None:
            yield _row(f"concurrency:{level}", _at_once(limits.concurrency), workers)
    for each in types:
        if (breaker := _breaker_of(each.limits, of_queue, app.limits)) is not None:
            yield _row(f"breaker:type:{each.name}", _breaker(breaker), workers)


def _row(name: str, words: str, workers: Sequence[WorkerStatus]) -> LimitRow:
    states = [each.limits[name] for each in workers if name in each.limits]
    worst = next((each for each in _WORST_FIRST if each in states), None)
    return LimitRow(name=name, words=words, state=worst, workers=len(states))


def _breaker_of(*levels: Limits) -> Breaker | None:
    return next((each.breaker for each in levels if each.breaker is not None), None)


def _rate(rate: RateLimit) -> str:
    return f"{rate.limit:,} per {span(rate.per)}{_each(rate.scope, rate.key)}"


def _at_once(slots: Concurrency) -> str:
    return f"{slots.limit:,} at once{_each(slots.scope, slots.key)}"


def _breaker(breaker: Breaker) -> str:
    by = _by(breaker.key)
    return (
        f"opens for {span(breaker.open_for)} once {breaker.failure_ratio:.0%} of "
        f"{breaker.min_runs:,} or more runs within {span(breaker.window)} fail{by}"
    )


def _each(scope: Scope, key: LimitKey) -> str:
    return f"{_by(key)}, {'each worker' if scope == 'worker' else 'all workers together'}"


def _by(key: LimitKey) -> str:
    if key is None:
        return ""
    return f" for each {'tenant' if key == 'tenant' else 'key of the payload'}"
