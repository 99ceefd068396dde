"""A run of `headgate verify`: the steps one after the other, bounded in time, and the clean-up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import timedelta

from headgate.jobs.errors import HeadgateError
from headgate.ops.verify.report import VerifyReport
from headgate.ops.verify.steps.site import VerifySite
from headgate.ops.verify.steps.step import StepResult, StepState, VerifyStep

DEPLOY = "deploy"
CLEAN_UP = "clean-up"

_CLEAN_UP_S = 1_800.0
"""Seconds that the clean-up may take: deleting a stack takes some minutes."""

_EXPECTED = {DEPLOY: "the stage is deployed", CLEAN_UP: "nothing is left"}


@dataclass(slots=True, kw_only=True)
class VerifyRun:
    """One run; its report grows with each step."""

    report: VerifyReport
    """The report to begin with; what has passed in it is not tried again."""
    steps: Iterable[VerifyStep]
    making: Callable[[], AbstractAsyncContextManager[VerifySite]]
    """Makes the site, and closes it."""
    remove: Callable[[], Awaitable[Sequence[str]]]
    """Removes all that `making` has made; returns the names of what is left."""
    within: timedelta
    """The bound of all steps together."""
    tell: Callable[[VerifyReport, StepResult], None]
    """Told of each result, and of the report that has it."""
    monotonic: Callable[[], float] = time.monotonic
    _began: float = field(init=False)
    _before_s: float = field(init=False)

    def __post_init__(self) -> None:
        self._began = self.monotonic()
        self._before_s = self.report.took_s

    async def try_all(self) -> None:
        """Make the site and try every step; a site that can't be made is a step that failed."""
        began = self.monotonic()
        try:
            async with self.making() as site:
                self._note(DEPLOY, "passed", "it is", began)
                await self._try_on(site)
        except HeadgateError as error:
            self._note(DEPLOY, "failed", str(error), began)

    async def clean_up(self) -> None:
        """Remove all that was made, as a step of its own."""
        began = self.monotonic()
        try:
            async with asyncio.timeout(_CLEAN_UP_S):
                left = await self.remove()
        except (HeadgateError, TimeoutError) as error:
            self._note(CLEAN_UP, "failed", str(error) or f"not within {_CLEAN_UP_S:g} s", began)
        else:
            said = f"left: {', '.join(left)}" if left else "nothing is left"
            self._note(CLEAN_UP, "failed" if left else "passed", said, began)

    async def _try_on(self, site: VerifySite) -> None:
        until = self.monotonic() + self.within.total_seconds()
        for step in self.steps:
            if not self.report.has_passed(step.name):
                self._add(await self._tried(step, site, until - self.monotonic()))

    async def _tried(self, step: VerifyStep, site: VerifySite, left_s: float) -> StepResult:
        if reason := _why_not(step, site, left_s):
            return StepResult(
                name=step.name, expected=step.expected, state="not tried", seen=reason
            )
        began, before = self.monotonic(), site.requests()
        bound_s = min(step.within.total_seconds(), left_s)
        state: StepState = "failed"
        try:
            async with asyncio.timeout(bound_s):
                said, state = await step.run(site), "passed"
        except TimeoutError:
            said = f"it had not ended after {bound_s:.0f} s"
        except HeadgateError as error:
            said = str(error)
        except Exception as error:  # noqa: BLE001 - a step's boundary: the others are still tried
            said = f"unforeseen: {error!r}"
        return StepResult(
            name=step.name,
            expected=step.expected,
            state=state,
            seen=said,
            took_s=round(self.monotonic() - began, 1),
            requests=site.requests() - before,
        )

    def _note(self, name: str, state: StepState, said: str, began: float) -> None:
        took_s = round(self.monotonic() - began, 1)
        self._add(
            StepResult(name=name, expected=_EXPECTED[name], state=state, seen=said, took_s=took_s)
        )

    def _add(self, result: StepResult) -> None:
        took_s = round(self._before_s + self.monotonic() - self._began, 1)
        self.report = self.report.with_step(result, took_s)
        self.tell(self.report, self.report.steps[-1])


def _why_not(step: VerifyStep, site: VerifySite, left_s: float) -> str:
    """Return the reason for which a step can't be tried; empty if it can."""
    if step.needs is not None and step.needs in site.lacks:
        return site.lacks[step.needs]
    least_s = step.at_least.total_seconds()
    if left_s <= least_s:
        return (
            f"it takes at least {max(least_s, 1) / 60:.0f} minutes, and {max(left_s, 0) / 60:.0f} "
            "are left: give it more with --minutes"
        )
    return ""
