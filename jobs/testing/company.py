"""Jobs of a harness that run in one call, as those of a batch do in a worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from headgate.jobs.execution.calling.batch_call import BatchCall, company_of
from headgate.jobs.execution.delivery import Delivery
from headgate.jobs.execution.executor import Executor
from headgate.jobs.execution.run import Run
from headgate.jobs.execution.settling.verdict import Verdict
from headgate.jobs.testing.next_message import NextMessage

Begin = Callable[[Delivery], Run]
"""Begins the run of a delivery."""


async def together(
    executor: Executor, begin: Begin, following: NextMessage, first: Run
) -> list[Run]:
    """Return a run with those that share its call: of the jobs that wait in its queue now.

    Args:
        executor: the host of the runs.
        begin: begins the runs that join.
        following: takes their deliveries.
        first: the run that starts.
    """
    job, queue = first.job, first.delivery.queue
    if job is None or first.due_in_s or (batch := job.handler.batch) is None:
        return [first]
    key = company_of(job, queue)

    def joins(delivery: Delivery) -> bool:
        other = Run(executor, delivery).job
        return other is not None and company_of(other, queue) == key

    found = [] if key is None else await following.take_if(queue, joins, most=batch.size - 1)
    runs = [first, *map(begin, found)]
    call = BatchCall(executor.means, len(runs))
    for run, seat in zip(runs, call.seats, strict=True):
        run.seat = seat
    return runs


async def all_of(
    runs: Sequence[Run], verdict: Callable[[Run], Coroutine[Any, Any, Verdict]]
) -> list[Verdict]:
    """Run jobs that start together, each in a task of its own, as a worker does.

    When cancelled, it cancels them, and ends once they have.
    """
    tasks = [asyncio.create_task(verdict(run), name="headgate-job") for run in runs]
    try:
        await asyncio.wait(tasks)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
    return [task.result() for task in tasks]
