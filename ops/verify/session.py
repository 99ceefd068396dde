"""A planned run of `headgate verify`, carried out: where it takes place, and its end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

from rich.console import Console

from headgate.ops.demo.environment import local_aws
from headgate.ops.demo.interruption import EXIT_FAILED, EXIT_OK, interruptible
from headgate.ops.verify.aws_site import aws_site, remove_stage
from headgate.ops.verify.local_site import local_site, remove_local
from headgate.ops.verify.options import VerifyOptions
from headgate.ops.verify.planning import VerifyPlan
from headgate.ops.verify.report import VerifyReport
from headgate.ops.verify.run import VerifyRun
from headgate.ops.verify.steps.catalogue import STEPS
from headgate.ops.verify.steps.site import VerifySite
from headgate.ops.verify.steps.step import StepResult

Tell = Callable[[StepResult], None]


def verify(plan: VerifyPlan, tell: Tell, console: Console) -> int:
    """Try everything and clean up; returns the exit code. The report's file grows meanwhile.

    Returns:
        0 if no step failed, 1 if one did, 130 after a signal, which is followed by the clean-up.
    """
    said = "interrupted: what was made has been removed, unless the report says otherwise"
    return interruptible(_carried_out(plan, tell), console, said=said)


def clean_up(plan: VerifyPlan, tell: Tell, console: Console) -> int:
    """Remove the stage of an earlier run; returns the exit code."""
    return interruptible(_removed(plan, tell), console, said="interrupted: run it again")


async def _carried_out(plan: VerifyPlan, tell: Tell) -> int:
    async with _place(plan.options) as endpoint_url:
        run = _run(plan, endpoint_url, tell)
        try:
            await run.try_all()
        finally:
            if not plan.options.keep:
                await run.clean_up()
    return EXIT_OK if run.report.passed else EXIT_FAILED


async def _removed(plan: VerifyPlan, tell: Tell) -> int:
    async with _place(plan.options) as endpoint_url:
        run = _run(plan, endpoint_url, tell)
        await run.clean_up()
    return EXIT_OK if run.report.steps[-1].state == "passed" else EXIT_FAILED


@asynccontextmanager
async def _place(options: VerifyOptions) -> AsyncIterator[str | None]:
    """Yield the endpoint of the local AWS; None for AWS itself."""
    if not options.local:
        yield options.endpoint_url
        return
    async with local_aws(fires_schedules=False) as endpoint_url:
        yield endpoint_url


def _run(plan: VerifyPlan, endpoint_url: str | None, tell: Tell) -> VerifyRun:
    def note(report: VerifyReport, result: StepResult) -> None:
        report.write(plan.options.report)
        tell(result)

    making: Callable[[], AbstractAsyncContextManager[VerifySite]]
    remove: Callable[[], Awaitable[Sequence[str]]]
    if endpoint_url is None:
        making = partial(aws_site, plan.app, plan.project)
        remove = partial(remove_stage, plan.project)
    else:
        making = partial(local_site, plan.app, endpoint_url)
        remove = partial(remove_local, plan.app, endpoint_url)
    return VerifyRun(
        report=plan.report,
        steps=STEPS,
        making=making,
        remove=remove,
        within=plan.options.within,
        tell=note,
    )
