"""The jobs of one invocation that a batch handler takes in one call."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence

from headgate.jobs.execution.calling.batch_call import BatchCall, Seat, company_of
from headgate.jobs.execution.calling.means import Means
from headgate.jobs.execution.executor import Executor
from headgate.jobs.execution.run import Run
from headgate.lambdas.source import Line


def together(lines: Sequence[Line], executor: Executor) -> Iterator[Sequence[Line]]:
    """Yield lines that start together: alone, or those whose jobs may run in one call.

    Payloads in the bucket, and sealed ones, are read by each job itself before it joins the call.
    """
    if all(declared.batch is None for declared in executor.means.app.types.values()):
        yield from ([line] for line in lines)
        return
    companies: defaultdict[Hashable, list[Line]] = defaultdict(list)
    for line in lines:
        job = Run(executor, line[0]).job
        key = None if job is None else company_of(job, line[0].queue, unread=True)
        if job is None or key is None or (batch := job.handler.batch) is None:
            yield [line]
            continue
        companies[key].append(line)
        if len(companies[key]) == batch.size:
            yield companies.pop(key)
    yield from companies.values()


def seated(lines: Sequence[Line], means: Means) -> Iterator[tuple[Line, Seat | None]]:
    """Yield lines that start together, each with its place in their call; alone, it has none."""
    if len(lines) == 1:
        yield lines[0], None
    else:
        yield from zip(lines, BatchCall(means, len(lines)).seats, strict=True)
