"""Steps about submissions: priorities, large payloads, unique jobs and jobs that run once."""

from __future__ import annotations

from headgate.jobs.core.topology import Priority
from headgate.jobs.handles.handle import AsyncJobHandle
from headgate.jobs.messages.job_ids import new_job_id
from headgate.jobs.records.items import Mark
from headgate.jobs.records.state import Happening, JobState
from headgate.jobs.submission.prepare import prepare
from headgate.ops.verify.steps.site import VerifySite
from headgate.ops.verify.steps.step import PATIENCE, eventually, seen, submit
from headgate.ops.verify.steps.verify_app import Note

LARGE = 400_000
"""Characters of a payload that no message of the app holds."""


async def every_priority(site: VerifySite) -> str:
    """Submit a job of each priority."""
    jobs = [await submit(site, "echo", Note(text=each), priority=each) for each in Priority]
    states = [await job.wait(PATIENCE) for job in jobs]
    done = states.count(JobState.COMPLETED)
    return seen(f"{done} of {len(jobs)} completed", as_expected=done == len(jobs))


async def large_payload(site: VerifySite) -> str:
    """Submit a payload that is too large for a message."""
    job = await submit(site, "measure", Note(text="x" * LARGE))
    found = await job.result(PATIENCE)
    return seen(f"the handler got {found:,} characters", as_expected=found == LARGE)


async def unique(site: VerifySite) -> str:
    """Submit the same twice, to a type whose jobs are unique."""
    same = Note(text=str(new_job_id(site.now())))
    first, second = [await submit(site, "single", same) for _ in range(2)]
    await first.wait(PATIENCE)
    jobs = len({first.id, second.id})
    return seen(f"{jobs} job" if jobs == 1 else f"{jobs} jobs", as_expected=jobs == 1)


async def once(site: VerifySite) -> str:
    """Send one message twice, as SQS may deliver it twice."""
    app, now = site.app, site.now()
    declared = app.find_type("counted")
    submission = prepare(app, app.topology, declared, None, {}, now=now, job_id=new_job_id(now))
    job = site.client.handle(submission.id, declared)
    await site.client.send(submission)
    await job.wait(PATIENCE)
    await site.client.send(submission)
    await eventually(lambda: _has_ended_twice(job))
    # The second delivery completes the job, too, with the result of the first.
    results = {each.data.get("result") for each in await _completions(job)} - {None}
    return seen(f"2 messages, {len(results)} run", as_expected=len(results) == 1)


async def _has_ended_twice(job: AsyncJobHandle[object]) -> bool:
    return len({each.message_id for each in await _completions(job)}) > 1


async def _completions(job: AsyncJobHandle[object]) -> list[Happening]:
    timeline = (await job.history()).timeline
    return [each for each in timeline if each.what == Mark.COMPLETED]
