"""Steps about what surrounds the jobs: functions, workers that stop, alarms, permissions."""

from __future__ import annotations

from headgate.jobs.handles.handle import AsyncJobHandle
from headgate.jobs.records.state import JobState
from headgate.ops.verify.steps.site import VerifySite
from headgate.ops.verify.steps.step import PATIENCE, eventually, seen, submit
from headgate.ops.verify.steps.verify_app import Nap

NAP_S = 45.0
"""Longer than a worker on ECS may take to stop, so that the job is interrupted."""


async def in_function(site: VerifySite) -> str:
    """Submit a job to the queue that a function serves."""
    job = await submit(site, "in-function")
    inside = await job.result(PATIENCE)
    return seen("a function ran it" if inside else "a worker ran it", as_expected=bool(inside))


async def stopped_worker(site: VerifySite) -> str:
    """Stop a worker while it runs a job that takes longer than the worker has left."""
    job = await submit(site, "nap", Nap(seconds=NAP_S))
    await eventually(lambda: _is_running(job))
    await site.stop_worker()
    state = await job.wait(4 * PATIENCE)
    record = await job.history()
    starts = len({each.receive for each in record.timeline if each.what == "started"})
    return seen(
        f"{state}, started {starts} times",
        as_expected=state is JobState.COMPLETED and starts > 1,
    )


async def _is_running(job: AsyncJobHandle[object]) -> bool:
    return await job.state() is JobState.RUNNING


async def alarms(site: VerifySite) -> str:
    """Compare the alarms with the queues."""
    found = await site.alarms()
    bare = [
        spec.name
        for spec in site.app.topology.queues
        if not any(name.startswith(spec.name.removesuffix(".fifo")) for name in found)
    ]
    said = f"{len(found)} alarms, {sum(state == 'ALARM' for state in found.values())} of them on"
    return seen(f"{said}; none for {', '.join(bare) or 'no queue'}", as_expected=not bare)


async def permissions(site: VerifySite) -> str:
    """Ask IAM for what the workers' role is allowed beyond its needs."""
    excess = await site.excess()
    said = f"allowed {', '.join(excess)}" if excess else "all of it is denied"
    return seen(said, as_expected=not excess)
