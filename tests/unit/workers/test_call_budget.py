"""The cost of a job and of a submission, in calls of Python functions, stays within a budget.

Calls are counted, not timed, so the figures are the same on any machine. They include the start of
a worker or a client, which are a few calls for each of these jobs.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from headgate import App, AsyncClient, Client, Concurrency, Priority
from headgate.jobs.core.events import Event, JobCompleted
from headgate.jobs.core.limits import LimitOptions
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.testing import MemoryBackend
from tests.support.environment import with_test_credentials
from tests.support.function_calls import counted_calls
from tests.support.prompt_aws import prompt_aws_in_thread
from tests.unit.workers.rig import Note, Rig, without_threads

pytestmark = without_threads

JOBS = 240
"""Number of jobs, a multiple of the numbers of queues."""

TOLERANCE = 0.1

COUNTED_HERE = sys.version_info < (3, 12)
"""False where comprehensions are no calls, so that a figure may be well below its budget."""

BUDGETS = {
    "drain": 226,
    "drain of 40 queues": 232,
    "drain under a limit that never binds": 256,
    "submit": 90,
    "submit to a server": 142,
    "AsyncClient.submit": 207,
}
"""Calls per job; neither 40 queues nor such a limit may cost 1.3 times as much as one queue."""


class _Ended:
    """Waits until all jobs have completed."""

    def __init__(self) -> None:
        self.all = asyncio.Event()
        self._left = JOBS

    def __call__(self, event: Event) -> None:
        """Count completed jobs; called with each event."""
        self._left -= isinstance(event, JobCompleted)
        if not self._left:
            self.all.set()


def _app(queues: int = 1, limits: LimitOptions | None = None) -> App:
    app = App("shop", records="off")
    for number in range(queues):
        queue = app.queue(f"queue-{number}", priorities=[Priority.NORMAL])

        @queue.job(f"job-{number}", **(limits or {}))
        async def work(_note: Note) -> None:
            return None

    return app


async def _drain(app: App) -> Counter[str]:
    """Return the calls of a worker that runs a backlog, spread evenly over the app's types."""
    rig, ended = Rig(app), _Ended()
    rig.hear = ended  # type: ignore[method-assign]  # the rig's own wakes a task for each event
    types: list[JobType[Note, None]] = list(app.types.values())
    for job in types:
        await rig.submit(job, *[""] * (JOBS // len(types)))
    async with rig.working():
        with counted_calls() as calls:
            await ended.all.wait()
    return calls


async def _submit() -> Counter[str]:
    app = _app()
    [job] = app.types.values()
    with counted_calls() as calls, Client(app, backend=MemoryBackend(app)) as client:
        for _ in range(JOBS):
            client.submit(job, Note())
    return calls


async def _submit_to_a_server() -> Counter[str]:
    app = _app()
    [job] = app.types.values()
    with prompt_aws_in_thread() as url, pytest.MonkeyPatch.context() as environ:
        with_test_credentials(environ, Path(url))
        environ.setenv("AWS_ENDPOINT_URL", url)
        with Client(app) as client:
            client.submit(job, Note())  # opens the connection
            with counted_calls() as calls:
                for _ in range(JOBS):
                    client.submit(job, Note())
    return calls


async def _submit_async() -> Counter[str]:
    app = _app()
    [job] = app.types.values()
    with counted_calls() as calls:
        async with AsyncClient(app, backend=MemoryBackend(app)) as client:
            for _ in range(JOBS):
                await client.submit(job, Note())
    return calls


WORK: dict[str, Callable[[], Awaitable[Counter[str]]]] = {
    "drain": lambda: _drain(_app()),
    "drain of 40 queues": lambda: _drain(_app(40)),
    "drain under a limit that never binds": lambda: _drain(
        _app(limits={"concurrency": Concurrency(60)})
    ),
    "submit": _submit,
    "submit to a server": _submit_to_a_server,
    "AsyncClient.submit": _submit_async,
}


@pytest.mark.parametrize("name", WORK)
async def test_a_job_takes_no_more_calls_than_its_budget(name: str) -> None:
    calls = await WORK[name]()
    each = calls.total() / JOBS
    least = BUDGETS[name] * (1 - TOLERANCE) if COUNTED_HERE else 0
    assert least <= each <= BUDGETS[name] * (1 + TOLERANCE), _advice(name, calls)


def _advice(name: str, calls: Counter[str]) -> str:
    """Return what to do about a figure beyond the budget."""
    each = calls.total() / JOBS
    if each < BUDGETS[name]:
        return f"{name}: {each:.0f} calls a job, well below the budget: set it to that figure"
    most = "\n".join(f"{n / JOBS:8.2f}  {function}" for function, n in calls.most_common(40))
    return (
        f"{name}: {each:.0f} calls a job, and the budget is {BUDGETS[name]}. Find what is done for "
        "each job that could be done once for many, or not at all; compare this list with that of "
        f"the commit before. If it has to be so, raise the budget, and say why.\n{most}"
    )
