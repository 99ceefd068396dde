"""Handles of the jobs that handlers submit by ``ctx.submit``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Protocol, TypeVar

from headgate.jobs.core.concurrency import running_loop
from headgate.jobs.errors import ConfigurationError
from headgate.jobs.handles.handle import AsyncJobHandle, JobHandle, JobLookup, TypeOfJob
from headgate.jobs.messages.job_options import JobKeep

R = TypeVar("R")
T = TypeVar("T")

Run = Callable[[Coroutine[Any, Any, Any]], Any]
"""Runs a look-up to its end, and blocks meanwhile."""


class JobSent(Protocol):
    """A submission, as its handle knows it: `jobs.submission.prepare.Submission`."""

    @property
    def id(self) -> str: ...
    @property
    def is_duplicate(self) -> bool: ...
    @property
    def keep(self) -> JobKeep | None: ...


class SubmittedJob(JobHandle[R]):
    """A job that a handler has submitted; its `id` is known at once.

    In a synchronous handler, `ctx.submit` returns it once SQS has the job, and it is the job's
    handle. An async handler awaits it: that returns the job's `AsyncJobHandle` once SQS has the
    job, and raises `TransportError` if SQS didn't take it. Without that its
    methods raise `ConfigurationError` there, since they block.
    """

    __slots__ = ("_awaited", "_block", "_taken")

    def __init__(
        self,
        submission: JobSent,
        job: TypeOfJob[R],
        taken: Awaitable[JobSent],
        *,
        lookup: JobLookup,
        awaited: JobLookup,
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
        if running_loop() is not None:
            looking.close()
            raise ConfigurationError(
                f"{self!r} would block the event loop: write job = await ctx.submit(...), and then "
                "await job.result()"
            )
        found: T = self._block(looking)
        return found
