"""Handles of the jobs that handlers submit by ``ctx.submit``."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from headgate.jobs.client.handle import AsyncJobHandle, JobHandle, Lookup
from headgate.jobs.core.immediate import drive
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.errors import ConfigurationError
from headgate.jobs.submission.prepare import Submission

R = TypeVar("R")
T = TypeVar("T")

Run = Callable[[Coroutine[Any, Any, Any]], Any]
"""Runs a look-up to its end, and blocks meanwhile."""


class SubmittedJob(JobHandle[R]):
    """A job that a handler has submitted; its `id` is known at once.

    In a synchronous handler, `ctx.submit` returns it once SQS has the job, and it is the job's
    handle. An async handler awaits it: that returns the job's `AsyncJobHandle` once SQS has the
    job, and raises `TransportError` or `PartlySubmitted` if SQS didn't take it. Without that its
    methods raise `ConfigurationError` there, since they block.
    """

    __slots__ = ("_awaited", "_block", "_taken")

    def __init__(
        self,
        submission: Submission,
        job: JobType[Any, R],
        taken: Awaitable[Submission],
        *,
        lookup: Lookup,
        awaited: Lookup,
        block: Run,
    ) -> None:
        super().__init__(
            submission.id,
            lookup,
            job,
            is_duplicate=submission.is_duplicate,
            keep=submission.keep,
        )
        self._taken = taken
        self._awaited = awaited
        self._block = block

    def __await__(self) -> Generator[Any, Any, AsyncJobHandle[R]]:
        sent = yield from self._taken.__await__()
        return AsyncJobHandle(
            sent.id,
            self._awaited,
            self._declared,
            is_duplicate=sent.is_duplicate,
            keep=sent.keep,
        )

    def _run(self, looking: Coroutine[Any, Any, T]) -> T:
        if _in_event_loop():
            looking.close()
            raise ConfigurationError(
                f"{self!r} would block the event loop: write job = await ctx.submit(...), and then "
                "await job.result()"
            )
        found: T = self._block(looking)
        return found


class AsyncChildHandles:
    """Makes the handles of the jobs that handlers submit, over the look-ups of an `AsyncClient`.

    To be called in the event loop, in which the look-ups of synchronous handlers run as well.
    """

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    def __call__(
        self, submission: Submission, job: JobType[Any, R], taken: Awaitable[Submission]
    ) -> SubmittedJob[R]:
        loop = asyncio.get_running_loop()
        return SubmittedJob(
            submission,
            job,
            taken,
            lookup=self._lookup,
            awaited=self._lookup,
            block=lambda looking: asyncio.run_coroutine_threadsafe(looking, loop).result(),
        )


class ChildHandles:
    """`AsyncChildHandles` over the look-ups of a `Client`, which block even if awaited.

    Awaited handles pause between look-ups without blocking.
    """

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._awaited = replace(lookup, sleep=asyncio.sleep)

    def __call__(
        self, submission: Submission, job: JobType[Any, R], taken: Awaitable[Submission]
    ) -> SubmittedJob[R]:
        return SubmittedJob(
            submission, job, taken, lookup=self._lookup, awaited=self._awaited, block=drive
        )


class _Client(Protocol):
    _lookup: Lookup


def async_child_handles(client: _Client) -> AsyncChildHandles:
    """Return what makes the handles of the jobs that handlers submit by an `AsyncClient`."""
    return AsyncChildHandles(client._lookup)  # noqa: SLF001 - not among what users call


def child_handles(client: _Client) -> ChildHandles:
    """Return what makes the handles of the jobs that handlers submit by a `Client`."""
    return ChildHandles(client._lookup)  # noqa: SLF001 - likewise


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
