"""Bounded, self-checking runs of the examples: an app at work on a local AWS, and what it did.

    async def story(trial: Trial) -> None:
        job = await trial.client.submit(greet, Greeting(to="Ada"))
        trial.check("the job completed", await job.wait(timeout=20), "completed")

    raise SystemExit(run_trial(app, story))

Everything is stopped and removed at the end.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from datetime import timedelta
from typing import Any

from rich.console import Console
from rich.markup import escape

from headgate.jobs.aws.provision import provision
from headgate.jobs.aws.scheduler import EventBridgeScheduler
from headgate.jobs.client.async_client import AsyncClient
from headgate.jobs.core.events import Event, Events, JobCompleted
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.definitions.policies import load_handlers
from headgate.jobs.errors import HeadgateError
from headgate.ops.demo.checks import Check
from headgate.ops.demo.display import print_check
from headgate.ops.demo.environment import REGION, local_aws, only_local_aws
from headgate.ops.demo.interruption import EXIT_FAILED, EXIT_OK, interruptible
from headgate.ops.demo.options import default_console
from headgate.ops.demo.workers import DemoWorkers
from headgate.ops.dev.schedules import LocalSchedules

WITHIN = timedelta(minutes=5)
"""The default bound of a whole run, which takes half a minute on an idle machine."""


class Trial:
    """An app whose worker runs on a local AWS, and the checks made of it."""

    def __init__(self, client: AsyncClient, console: Console) -> None:
        self.client = client
        self.events: list[Event] = []
        """The events of the worker, in order."""
        self.failed = 0
        self._console = console
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()

    def record(self, event: Event) -> None:
        """Take in an event, in any thread."""
        self.events.append(event)
        self._loop.call_soon_threadsafe(self._news.set)

    async def completed(self, job: JobType[Any, Any], count: int = 1) -> None:
        """Wait until that many jobs of a type have completed, whoever submitted them."""
        while _completed(self.events, job) < count:
            self._news.clear()
            await self._news.wait()

    def check(self, what: str, found: object, expected: object = True) -> None:
        """Print whether that is as expected; the run fails if it isn't.

        Args:
            what: the statement that is checked.
            found: the value to compare.
            expected: the value that makes the statement true.
        """
        faults = () if found == expected else (f"expected {expected!r}, found {found!r}",)
        self.failed += bool(faults)
        print_check(self._console, Check(name=what, faults=faults))


def _completed(events: Iterable[Event], job: JobType[Any, Any]) -> int:
    return sum(isinstance(each, JobCompleted) and each.job_type == job.name for each in events)


Story = Callable[[Trial], Awaitable[None]]
"""The story of a run: it submits, waits and checks."""


def run_trial(
    app: App, story: Story, *, within: timedelta = WITHIN, console: Console | None = None
) -> int:
    """Run a story on a local AWS of its own; returns the exit code.

    Args:
        app: the app; its queues, table, bucket and schedules are created, and a worker runs. Its
            schedules are stored, and fire only by ``client.schedules.run_now``.
        story: submits jobs, and checks what became of them.
        within: the bound of the whole run.
        console: the console for the checks; None takes standard output.

    Returns:
        0 if all checks passed; 1 if one failed, a prerequisite is missing or the time was up; 130
        if interrupted.
    """
    shown = console or default_console()
    return interruptible(_bounded(app, story, within, shown), shown)


async def _bounded(app: App, story: Story, within: timedelta, console: Console) -> int:
    started = time.monotonic()
    try:
        async with asyncio.timeout(within.total_seconds()):
            failed = await _played(app, story, console)
    except HeadgateError as error:
        result, code = f"[bold red]{escape(str(error))}", EXIT_FAILED
    except TimeoutError:
        result, code = f"[bold red]not done within {within.total_seconds():g} s", EXIT_FAILED
    else:
        result = f"[bold red]{failed} checks failed" if failed else "[bold]all is well"
        code = EXIT_FAILED if failed else EXIT_OK
    console.print(f"{app.name}: {result}[/] ({time.monotonic() - started:.1f} s)", highlight=False)
    return code


async def _played(app: App, story: Story, console: Console) -> int:
    load_handlers(app)
    async with local_aws() as endpoint_url:
        with only_local_aws(endpoint_url):
            await provision(app.topology, endpoint_url=endpoint_url, region=REGION)
            await asyncio.to_thread(_store_schedules, app)
            return await _worked(app, story, endpoint_url, console)


async def _worked(app: App, story: Story, endpoint_url: str, console: Console) -> int:
    async with AsyncClient(app) as client:
        trial = Trial(client, console)
        async with DemoWorkers(
            app,
            1,
            endpoint_url=endpoint_url,
            region=REGION,
            events=Events(trial.record),
        ) as workers:
            await workers.work_until(story(trial))
            reports = await workers.stop()
        trial.check(
            "the worker left nothing behind", [str(each) for each in reports if not each.clean], []
        )
        return trial.failed


def _store_schedules(app: App) -> None:
    with EventBridgeScheduler() as scheduler:
        LocalSchedules(app, scheduler).store()
