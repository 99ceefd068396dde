"""A worker and a submitter that get odd answers: neither ends, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from tests.crash.trials.app import KINDS, ONCE, QUEUE
from tests.crash.trials.catalogue import SLOW, TABLE, Weather
from tests.crash.trials.findings import Account, Findings, settle_accounts
from tests.support.fixture_app import FLAKY
from tests.support.journal import until
from tests.support.proxy import Proxy
from tests.support.stage import Stage
from tests.support.submitter import Submitter
from tests.support.workers import READY, WorkerProcess

_SHARE = 0.3
"""Fraction of a worker's requests that get odd answers; a submitter gets nothing else."""
_SLOW_SHARE = 0.03
"""Fraction for the kinds of odd answers that cost the client seconds."""
_MOST = 0.6
"""Fraction of the jobs that must end on one kind of answers before the next has its turn.

While the table's answers are odd, a job that needs a claim is put off for longer each time.
"""
_BOUND_S = 300.0


def remarkable(line: str) -> bool:
    """Return True for the lines that a trial reads; a long-lived worker writes very many others."""
    return READY in line or ("Traceback" in line and FLAKY not in line)


async def worker_meets(
    stage: Stage, weather: Weather, *, groups: Sequence[Sequence[str]], jobs: int
) -> Findings:
    """Run that many jobs on one worker for each group of kinds of answers, one group at a time."""
    findings, account = Findings(), Account(stage.journal)
    async with _proxy(stage, weather) as proxy, AsyncExitStack() as owned:
        worker = await owned.enter_async_context(
            stage.process(QUEUE, endpoint_url=proxy.endpoint_url, keep=remarkable)
        )
        for kinds in groups:
            share = _SLOW_SHARE if SLOW.issuperset(kinds) else _SHARE
            weather.turn(share, kinds)
            ids = await _submit(stage, account, jobs)
            await _have_run(partial(_most_of, ids, account), findings, kinds, worker)
        weather.clear()
        await _have_run(lambda: not account.missing, findings, ["good ones"], worker)
        await stage.empties(QUEUE)
        findings.expect(worker.alive, "the worker's process ended")
        findings.expect("Traceback" not in worker.log, "the worker logged a traceback")
        findings.figures["requests, all told"] = proxy.requests.total()
        findings.figures["requests of the table's"] = sum(
            proxy.requests[action] for action in TABLE
        )
    await settle_accounts(findings, account, stage)
    findings.expect(not account.twice & account.once, "jobs with once=True ended twice")
    return findings


async def submitter_meets(
    stage: Stage, weather: Weather, directory: Path, *, groups: Sequence[Sequence[str]], jobs: int
) -> Findings:
    """Submit that many jobs with a spool for each group, while no request gets a good answer."""
    findings, account = Findings(), Account(stage.journal)
    worker = await stage.worker(QUEUE)
    async with _proxy(stage, weather) as proxy:
        env = stage.environment(endpoint_url=proxy.endpoint_url)
        spool = directory / "jobs.spool"
        async with Submitter(spool, env, app=stage.fixture.path) as submitter:
            for kinds in groups:
                weather.turn(1, kinds)
                ids = await submitter.submit("quick", jobs)
                findings.expect(
                    len(ids) == jobs, f"submit raised on {', '.join(kinds)}: {len(ids)} of {jobs}"
                )
                account.submitted.update(ids)
                weather.clear()
                await _have_run(lambda: not account.missing, findings, kinds, worker)
    await stage.empties(QUEUE)
    await settle_accounts(findings, account, stage)
    return findings


def _proxy(stage: Stage, weather: Weather) -> Proxy:
    proxy = Proxy(stage.endpoint_url)
    proxy.draw(weather.fault_for)
    return proxy


async def _submit(stage: Stage, account: Account, jobs: int) -> set[str]:
    """Submit jobs of all kinds, bypassing the proxy; return their ids."""
    ids: set[str] = set()
    for at, kind in enumerate(KINDS):
        made = await stage.submit(kind, len(range(at, jobs, len(KINDS))), seconds=0.05)
        ids.update(made)
        if kind == ONCE:
            account.once.update(made)
    account.submitted |= ids
    return ids


def _most_of(ids: set[str], account: Account) -> bool:
    return len(ids - account.missing) >= _MOST * len(ids)


async def _have_run(
    enough: Callable[[], bool], findings: Findings, answers: Sequence[str], worker: WorkerProcess
) -> None:
    """Wait until enough jobs have ended, or their worker has."""
    try:
        await until(lambda: enough() or not worker.alive, within_s=_BOUND_S)
    except TimeoutError:
        findings.broken.append(f"jobs did not end on these answers: {', '.join(answers)}")
