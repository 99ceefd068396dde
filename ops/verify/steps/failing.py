"""Steps about jobs that fail, die, are cancelled or paused."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from itertools import pairwise

from headgate.jobs.dead_letters.filters import DeadLetterFilter
from headgate.jobs.handles.handle import AsyncJobHandle
from headgate.jobs.records.state import JobState
from headgate.ops.verify.steps.site import VerifySite
from headgate.ops.verify.steps.step import PATIENCE, eventually, seen, submit
from headgate.ops.verify.steps.verify_app import FLAKY_WAITS_S, Doom, Note

_CANCELLED_BEFORE = timedelta(seconds=15)
"""The delay of a job that is cancelled: workers learn of it within five seconds."""

_PAUSED_S = 8.0
"""Seconds after which every worker knows of a pause."""


async def retry(site: VerifySite) -> str:
    """Submit a job that fails twice."""
    job = await submit(site, "flaky")
    state = await job.wait(PATIENCE)
    attempts = (await job.history()).attempts
    waits = [
        (after.started_at - before.ended_at).total_seconds()
        for before, after in pairwise(attempts)
        if after.started_at is not None and before.ended_at is not None
    ]
    patient = len(waits) == len(FLAKY_WAITS_S) and all(
        wait >= least - 1 for wait, least in zip(waits, FLAKY_WAITS_S, strict=True)
    )
    said = " s and ".join(f"{wait:.1f}" for wait in waits)
    return seen(
        f"{state} with attempt {len(attempts)}, after waits of {said} s",
        as_expected=state is JobState.COMPLETED and patient,
    )


async def dead_letter(site: VerifySite) -> str:
    """Submit a job that is given up, look at its letter, and replay it."""
    job = await submit(site, "doomed", Doom())
    await job.wait(PATIENCE)
    record, desk = await job.history(), site.client.dead_letters
    letters = (await desk.list(DeadLetterFilter(ids=(job.id,)))).letters
    reasons = [letter.reason for letter in letters]
    seen(
        f"{record.state}, with letters for {reasons}: {record.reason}",
        as_expected=record.state is JobState.DEAD and reasons == ["do-not-retry"],
    )
    report = await desk.replay([job.id], set={"doomed": False})
    seen(f"the replay has sent {report.sent} of 1", as_expected=report.sent == 1)
    await eventually(lambda: _has_completed(job))
    return f"dead for {record.reason!r} ({reasons[0]}), replayed, completed"


async def _has_completed(job: AsyncJobHandle[object]) -> bool:
    return await job.state() is JobState.COMPLETED


async def cancel(site: VerifySite) -> str:
    """Cancel a job that waits for its time."""
    job = await submit(site, "echo", Note(), delay=_CANCELLED_BEFORE)
    await job.cancel("verify")
    state = await job.wait(PATIENCE)
    return seen(str(state), as_expected=state is JobState.CANCELLED)


async def pause(site: VerifySite) -> str:
    """Pause a type, submit one of its jobs, and resume it."""
    pauses = site.client.pauses
    await pauses.create(job_type="paused", lasts=timedelta(minutes=10), reason="verify")
    try:
        await asyncio.sleep(_PAUSED_S)
        job = await submit(site, "paused", Note())
        await asyncio.sleep(_PAUSED_S)
        early = await job.state()
    finally:
        await pauses.remove(job_type="paused")
    state = await job.wait(PATIENCE)
    return seen(
        f"{early} while it was paused, {state} after",
        as_expected=not early.is_final and state is JobState.COMPLETED,
    )
