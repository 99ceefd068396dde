"""The context of a batch: one call of a handler for several jobs."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import field
from datetime import datetime
from typing import Any, Protocol, TypeAlias

from headgate.jobs.definitions.handlers.context import JobContext, is_to_stop
from headgate.jobs.errors import Stopped
from headgate.jobs.values.light_dataclass import frozen_dataclass
from headgate.jobs.values.own_log import OwnLog

_VALUES = (str, bytes, int, float, type(None))
"""Payloads that are told apart by their value: of two equal ones Python may make one object."""


class BatchHost(Protocol):
    """The runner of a batch, as its context calls it. Callable from any thread."""

    def end(self, place: int, result: Any, error: BaseException | None) -> None:
        """Note how the attempt of the job at that place ends; the last call counts."""
        ...

    def has_ended(self, place: int) -> bool:
        """Return True if that is known."""
        ...


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class BatchContext:
    """The context of a batch, passed to handlers that take a second argument.

    Each job of a batch has an id, attempts, retries, a record and a result of its own. Where an
    item stands for its job, it may also be the job's context, one of ``jobs``. Payloads that are
    plain values, such as texts, are told apart by their value: equal ones end alike.

    Example:
        >>> @app.job("embed", batch=Batch(size=100, wait=2))  # doctest: +SKIP
        ... async def embed(items: list[Text], ctx: BatchContext) -> list[Vector | None]:
        ...     answers = await model.embed([item.text for item in items])
        ...     for item, answer in zip(items, answers):
        ...         if answer.error:
        ...             ctx.fail(item, EmbeddingFailed(answer.error))
        ...     return [answer.vector for answer in answers]
    """

    type: str
    queue: str
    """The queue group's name."""
    jobs: tuple[JobContext, ...]
    """The context of each job, in the order of the items."""
    deadline: datetime
    """The time at which this call times out; aware, UTC."""
    _items: Sequence[Any] = field(repr=False)
    _host: BatchHost = field(repr=False)

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger that adds ``job_type`` and ``jobs``, their number, to every line."""
        names = {"job_type": self.type, "jobs": len(self.jobs)}
        return OwnLog(f"headgate.job.{self.type}", names)

    def job(self, item: object) -> JobContext:
        """Return the context of an item's job; of several equal ones, that of the first.

        Raises:
            ValueError: it is no item of this batch.
        """
        return self.jobs[next(self._places(item))]

    def fail(self, item: object, error: BaseException) -> None:
        """Let the attempt of an item's job fail, whatever becomes of the others.

        It takes effect when the handler ends, however it ends. The job is retried by itself, or
        dead-lettered, as if its own handler had raised the error: `RetryLater`, `DoNotRetry` and
        `Discard` have their meaning.

        Args:
            item: an item of this batch, or the context of its job.
            error: the exception.

        Raises:
            ValueError: it is no item of this batch.
            TypeError: ``error`` is no exception.
        """
        if not isinstance(error, BaseException):
            raise TypeError(
                f"ctx.fail takes an exception, got {error!r}: write ctx.fail(item, ...)"
            )
        for place in self._places(item):
            self._host.end(place, None, error)

    def complete(self, item: object, result: Any = None) -> None:
        """Let an item's job complete, also if the handler raises, times out or is stopped later.

        It takes effect when the handler ends, however it ends; if the process dies before that, the
        job runs again.

        Args:
            item: an item of this batch, or the context of its job.
            result: the job's result.

        Raises:
            ValueError: it is no item of this batch.
        """
        for place in self._places(item):
            self._host.end(place, result, None)

    def progress(self, percent: float, message: str = "", **data: Any) -> None:
        """Report the progress of all jobs that are still open; see `JobContext.progress`.

        For one job, write ``ctx.job(item).progress(...)``.
        """
        for job in self._open():
            _ = job.progress(percent, message, **data)

    @property
    def cancelled(self) -> bool:
        """True once this call should end early: it overran, or all jobs still open should end.

        One job that is cancelled doesn't end the call: ``ctx.job(item).cancelled`` shows it.

        A job that a handler has seen to be cancelled, by either, completes only if the handler says
        so with `complete`, or returns a result for it that is not None.
        """
        jobs = self._open() or self.jobs
        return all(map(is_to_stop, jobs)) and all(job.cancelled for job in jobs)

    def raise_if_cancelled(self) -> None:
        """Raise `Stopped` if this call should end early; see `JobContext.raise_if_cancelled`.

        Raises:
            Stopped: it should end.
        """
        if self.cancelled:
            raise Stopped

    def _open(self) -> list[JobContext]:
        """Return the contexts of the jobs whose outcome is not known yet."""
        return [job for at, job in enumerate(self.jobs) if not self._host.has_ended(at)]

    def _places(self, item: object) -> Iterator[int]:
        """Return the places of an item: one, but for equal payloads that are plain values.

        Raises:
            ValueError: it is no item of this batch.
        """
        pairs = zip(self._items, self.jobs, strict=True)
        places = [
            at
            for at, (own, job) in enumerate(pairs)
            if own is item or job is item or (isinstance(own, _VALUES) and own == item)
        ]
        if not places:
            # Not quoted: it may be a payload.
            raise ValueError(
                f"this object of type {type(item).__name__} is no item of the batch: pass an item "
                "itself, not a copy, or the context of its job, one of ctx.jobs"
            )
        return iter(places)


AnyContext: TypeAlias = JobContext | BatchContext
"""The context of one call of a handler."""
