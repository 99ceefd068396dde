"""The demo from start to end: a local AWS, the queues, the jobs, the workers, and the checks."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from examples.shop import store
from examples.shop.contracts import app
from headgate.jobs.aws.backend import AsyncAwsBackend, AwsBackend
from headgate.jobs.aws.provision import provision
from headgate.jobs.aws.sqs.transport import AsyncSqsTransport
from headgate.jobs.core.events import Events
from headgate.jobs.retry.classification import leaves
from headgate.ops.demo.accounting import Accounting, Requests
from headgate.ops.demo.audit import read_depths, read_letters
from headgate.ops.demo.books import read_effects
from headgate.ops.demo.checks import Aftermath, Check, run_checks
from headgate.ops.demo.display import REFRESH_S, Display, make_display, print_results
from headgate.ops.demo.environment import REGION, local_aws, only_local_aws
from headgate.ops.demo.interruption import EXIT_FAILED, EXIT_OK, interruptible
from headgate.ops.demo.options import DemoOptions
from headgate.ops.demo.plan import Plan, make_plan
from headgate.ops.demo.submitting import Submitter
from headgate.ops.demo.workers import DemoWorkers
from headgate.workers.shutdown import Report


def run(options: DemoOptions) -> int:
    """Run the demo; returns the exit code.

    Raises:
        HeadgateError: a prerequisite is missing or failed; everything has been cleaned up.
    """
    return interruptible(_demo(options), options.console)


async def _demo(options: DemoOptions) -> int:
    plan = make_plan(options.jobs, options.seed)
    course = _Course(options=options, plan=plan)
    with make_display(options.console, app, _expected(plan)) as display:
        checks = await _carried_out(course, display)
    print_results(options.console, course.accounting, course.requests, checks)
    return _conclude(course, checks)


@dataclass(slots=True, kw_only=True)
class _Course:
    """One run of the demo."""

    options: DemoOptions
    plan: Plan
    accounting: Accounting = field(default_factory=Accounting)
    requests: Requests = field(default_factory=Requests)
    started: float = field(default_factory=time.monotonic)

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self.started

    @property
    def left_s(self) -> float:
        return self.options.timeout.total_seconds() - self.elapsed_s


async def _carried_out(course: _Course, display: Display) -> list[Check]:
    display.stage("starting a local AWS", course.elapsed_s)
    async with AsyncExitStack() as stack:
        books = stack.enter_context(_shop_books())
        endpoint_url = await stack.enter_async_context(local_aws())
        stack.enter_context(only_local_aws(endpoint_url))
        await provision(app.topology, endpoint_url=endpoint_url, region=REGION)
        display.stage(f"running on {endpoint_url}", course.elapsed_s)
        submitter, reports = await _worked_off(course, endpoint_url, display)
        display.stage("checking", course.elapsed_s)
        findings = await _found(endpoint_url, books, reports)
        return run_checks(course.plan, submitter.planned, course.accounting, findings)


async def _worked_off(
    course: _Course, endpoint_url: str, display: Display
) -> tuple[Submitter, list[Report]]:
    """Submit everything, and let workers run until all has ended or the time is up."""
    place: dict[str, Any] = {"endpoint_url": endpoint_url, "region": REGION}
    count = course.requests
    with AwsBackend(app.topology, on_request=count, **place) as backend:
        async with (
            AsyncAwsBackend(app.topology, on_request=count, **place) as async_backend,
            DemoWorkers(
                app,
                course.options.workers,
                events=Events(course.accounting),
                on_request=count,
                **place,
            ) as fleet,
        ):
            submitter = Submitter(course.plan, async_backend, backend, course.accounting)
            try:
                async with asyncio.timeout(course.left_s):
                    await fleet.work_until(_all_ended(course, submitter, display))
            except TimeoutError:  # the checks report what is missing
                display.stage("the time is up", course.elapsed_s)
            return submitter, await fleet.stop()


async def _all_ended(course: _Course, submitter: Submitter, display: Display) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(submitter.submit_all())
            while not _is_over(course, submitter):
                display.show(course.accounting, course.elapsed_s)
                await asyncio.sleep(REFRESH_S)
    except ExceptionGroup as group_of_errors:
        raise next(leaves(group_of_errors)) from group_of_errors
    display.show(course.accounting, course.elapsed_s)


def _is_over(course: _Course, submitter: Submitter) -> bool:
    accounts = course.accounting.jobs
    return (
        submitter.finished
        and course.accounting.parked.total() >= len(course.plan.messages)
        and all(job_id in accounts and accounts[job_id].endings for job_id in submitter.planned)
    )


async def _found(endpoint_url: str, books: store.Store, reports: list[Report]) -> Aftermath:
    async with AsyncSqsTransport(endpoint_url=endpoint_url, region=REGION) as transport:
        return Aftermath(
            depths=await read_depths(transport, app.topology),
            letters=await read_letters(transport, app.topology),
            effects=read_effects(books),
            left=[str(report) for report in reports if not report.clean],
        )


@contextmanager
def _shop_books() -> Iterator[store.Store]:
    with (
        tempfile.TemporaryDirectory(prefix="headgate-demo-") as directory,
        store.using(Path(directory)) as books,
    ):
        yield books


def _expected(plan: Plan) -> Counter[str]:
    names = [*(job.type.name for job in plan.jobs), *(each.name for each in plan.schedules)]
    return Counter(dict(sorted(Counter(names).items())))


def _conclude(course: _Course, checks: list[Check]) -> int:
    failed = sum(not check.passed for check in checks)
    result = f"[bold red]{failed} of {len(checks)} checks failed" if failed else "[bold]all is well"
    course.options.console.print(
        f"{len(course.accounting.jobs):,} jobs in {course.elapsed_s:.1f} s: {result}",
        highlight=False,
    )
    return EXIT_FAILED if failed else EXIT_OK
