"""Makers of the handles of the jobs that handlers submit by ``ctx.submit``."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from headgate.jobs.client.lookup import Lookup
from headgate.jobs.core.immediate import drive
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.handles.submitted_job import SubmittedJob
from headgate.jobs.submission.prepare import Submission

R = TypeVar("R")


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
        services = replace(lookup.services, sleep=asyncio.sleep)
        self._awaited = replace(lookup, services=services)

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
