"""Steps about delays and schedules."""

from __future__ import annotations

from datetime import datetime, timedelta

from headgate.jobs.client.jobs.filters import JobFilter
from headgate.jobs.definitions.schedules.schedule import Schedule
from headgate.jobs.handles.handle import AsyncJobHandle
from headgate.ops.verify.steps.site import VerifySite
from headgate.ops.verify.steps.step import PATIENCE, eventually, seen, submit
from headgate.ops.verify.steps.verify_app import Note

_SHORT = timedelta(seconds=5)
_HELD = timedelta(seconds=70)
_LONG = timedelta(minutes=16)
_SKEW = timedelta(seconds=1)
"""Tolerance for the difference between the clocks of this machine, of workers and of AWS."""

_MINUTE = timedelta(minutes=1)
_FIRINGS = 2


async def short_delay(site: VerifySite) -> str:
    """Submit a job with a delay that SQS keeps."""
    job = await submit(site, "echo", Note(), delay=_SHORT)
    return await _punctual(job, site.now() + _SHORT, late=PATIENCE)


async def held_delay(site: VerifySite) -> str:
    """Submit a delayed job to a FIFO queue: a schedule holds it, and fires within a minute."""
    job = await submit(site, "in-order", Note(), delay=_HELD)
    return await _punctual(job, site.now() + _HELD, late=2 * _MINUTE)


async def long_delay(site: VerifySite) -> str:
    """Submit a job with a delay that SQS can't keep: a schedule does, and SQS its last minute."""
    job = await submit(site, "echo", Note(), delay=_LONG)
    return await _punctual(job, site.now() + _LONG, late=timedelta(seconds=30))


async def _punctual(job: AsyncJobHandle[object], due: datetime, *, late: timedelta) -> str:
    """Wait until a job has ended, and return how long after its time it started."""
    await job.wait(late + 2 * _LONG)
    attempts = (await job.history()).attempts
    started = attempts[0].started_at if attempts else None
    if started is None:
        return seen("it has no start", as_expected=False)
    after = started - due
    return seen(
        f"it started {after.total_seconds():.1f} s after its time",
        as_expected=-_SKEW <= after <= late,
    )


async def scheduled_once(site: VerifySite) -> str:
    """Create a schedule that fires once, in about a minute."""
    since = site.now()
    name = f"verify-{since:%H%M%S}"
    await site.client.schedules.create(
        name, site.app.find_type("chime"), schedule=Schedule.at(since + _MINUTE)
    )
    try:
        await eventually(lambda: _has_fired(site, "chime", since, 1))
    finally:
        await site.client.schedules.remove(name)
    fired = await _fired(site, "chime", since)
    return seen(f"fired {fired} times", as_expected=fired == 1)


async def recurring(site: VerifySite) -> str:
    """Wait for two firings of the declared schedule."""
    since = site.now()
    await eventually(lambda: _has_fired(site, "tick", since, _FIRINGS))
    took = (site.now() - since).total_seconds()
    return f"fired {_FIRINGS} times in {took:.0f} s"


async def _has_fired(site: VerifySite, job_type: str, since: datetime, times: int) -> bool:
    return await _fired(site, job_type, since) >= times


async def _fired(site: VerifySite, job_type: str, since: datetime) -> int:
    """Return how many jobs of a type have completed since then."""
    wanted = JobFilter(types=(job_type,), states=("completed",), since=since)
    return len((await site.client.jobs.list(wanted)).jobs)
