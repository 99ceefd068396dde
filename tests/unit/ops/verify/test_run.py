"""A run of `headgate verify`: its order, its bounds, its report and its clean-up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headgate.jobs.errors import ConfigurationError, HeadgateError, SettingsInvalid
from headgate.ops.verify.options import VerifyOptions, new_stage
from headgate.ops.verify.report import VerifyReport, read_report
from headgate.ops.verify.run import VerifyRun
from headgate.ops.verify.steps.step import SiteNeed, StepResult, VerifyStep, seen

pytestmark = pytest.mark.looptime

MINUTE = timedelta(minutes=1)


def blank() -> VerifyReport:
    return VerifyReport(
        stage="verify-a",
        where="AWS",
        region="eu-central-1",
        began_at=datetime(2026, 1, 1, tzinfo=UTC),
        usd_estimated=0.1,
    )


class Stand:
    """A run on a site that has nothing but a count of requests."""

    def __init__(
        self,
        *steps: VerifyStep,
        report: VerifyReport | None = None,
        fault: HeadgateError | None = None,
        left: Sequence[str] = (),
        within: timedelta = 10 * MINUTE,
        lacks: Mapping[str, str] | None = None,
    ) -> None:
        self.told: list[StepResult] = []
        self.removed = 0
        self.count = 0
        self._fault = fault
        self._left = left
        self.site: Any = SimpleNamespace(lacks=lacks or {}, requests=lambda: self.count)
        self.run = VerifyRun(
            report=report or blank(),
            steps=steps,
            making=self._making,
            remove=self._remove,
            within=within,
            tell=lambda _report, result: self.told.append(result),
            monotonic=lambda: asyncio.get_running_loop().time(),
        )

    @property
    def states(self) -> dict[str, str]:
        return {each.name: each.state for each in self.told}

    @asynccontextmanager
    async def _making(self) -> AsyncIterator[Any]:
        if self._fault is not None:
            raise self._fault
        yield self.site

    async def _remove(self) -> Sequence[str]:
        self.removed += 1
        return self._left


def step(
    name: str, run: Callable[[Any], Awaitable[str]] | None = None, **fields: Any
) -> VerifyStep:
    async def passes(_site: Any) -> str:
        return "as it should be"

    return VerifyStep(name=name, expected=f"{name} works", run=run or passes, **fields)


async def test_every_step_is_tried_and_told_with_its_time_and_requests() -> None:
    async def works(_site: Any) -> str:
        await asyncio.sleep(3)
        it.count += 4
        return "fine"

    it = Stand(step("one", works), step("two"))
    await it.run.try_all()
    await it.run.clean_up()
    assert it.states == dict.fromkeys(("deploy", "one", "two", "clean-up"), "passed")
    one = it.told[1]
    assert (one.seen, one.took_s, one.requests) == ("fine", 3.0, 4)
    assert it.run.report.passed
    assert it.run.report.steps == tuple(it.told)


async def test_a_step_that_fails_keeps_none_of_the_others_from_being_tried() -> None:
    async def differs(_site: Any) -> str:
        return seen("grey", as_expected=False)

    async def breaks(_site: Any) -> str:
        raise ValueError("odd")

    it = Stand(step("sky", differs), step("odd", breaks), step("last"))
    await it.run.try_all()
    assert it.states == {"deploy": "passed", "sky": "failed", "odd": "failed", "last": "passed"}
    assert [each.seen for each in it.told[1:3]] == ["grey", "unforeseen: ValueError('odd')"]
    assert not it.run.report.passed


async def test_a_step_that_does_not_end_is_given_up_after_its_time() -> None:
    async def hangs(_site: Any) -> str:
        await asyncio.Event().wait()
        return "never"

    it = Stand(step("stuck", hangs, within=2 * MINUTE), step("next"))
    await it.run.try_all()
    assert it.told[1].took_s == 120
    assert it.told[1].seen == "it had not ended after 120 s"
    assert it.states["next"] == "passed"


async def test_once_the_time_is_up_no_step_is_begun() -> None:
    async def slow(_site: Any) -> str:
        await asyncio.sleep(200)
        return "slow"

    it = Stand(
        step("long", at_least=5 * MINUTE),
        step("slow", slow, within=5 * MINUTE),
        step("late"),
        within=3 * MINUTE,
    )
    await it.run.try_all()
    assert it.states == {
        "deploy": "passed",
        "long": "not tried",
        "slow": "failed",
        "late": "not tried",
    }
    assert "it takes at least 5 minutes, and 3 are left" in it.told[1].seen
    assert it.told[2].took_s == 180


async def test_what_the_site_does_not_have_is_not_tried_for_that_reason() -> None:
    it = Stand(
        step("alarms", needs=SiteNeed.ALARMS), lacks={SiteNeed.ALARMS: "there are none here"}
    )
    await it.run.try_all()
    assert (it.told[1].state, it.told[1].seen) == ("not tried", "there are none here")
    assert it.run.report.passed


async def test_a_stage_that_cannot_be_made_is_a_failure_and_is_cleaned_up() -> None:
    it = Stand(step("one"), fault=HeadgateError("cdk deploy failed"))
    await it.run.try_all()
    await it.run.clean_up()
    assert it.states == {"deploy": "failed", "clean-up": "passed"}
    assert it.removed == 1


async def test_what_is_left_behind_is_a_failure_that_names_it() -> None:
    it = Stand(left=("headgate-verify-a-jobs-high",))
    await it.run.clean_up()
    [told] = it.told
    assert (told.state, told.seen) == ("failed", "left: headgate-verify-a-jobs-high")


async def test_another_run_tries_only_what_has_not_passed() -> None:
    async def differs(_site: Any) -> str:
        return seen("grey", as_expected=False)

    first = Stand(step("one"), step("sky", differs))
    await first.run.try_all()
    again = Stand(step("one"), step("sky"), report=first.run.report)
    await again.run.try_all()
    assert [each.name for each in again.told] == ["deploy", "sky"]
    assert again.run.report.passed


async def test_an_account_never_comes_into_the_report(tmp_path: Path) -> None:
    async def tells(_site: Any) -> str:
        raise HeadgateError("AccessDenied: arn:aws:iam::111122223333:role/x")

    it = Stand(step("roles", tells))
    await it.run.try_all()
    path = tmp_path / "some" / "report.json"
    it.run.report.write(path)
    assert "111122223333" not in path.read_text()
    assert read_report(path) == it.run.report


def test_without_an_earlier_run_there_is_no_report(tmp_path: Path) -> None:
    assert read_report(tmp_path / "report.json") is None


def test_a_file_that_is_no_report_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text("{}")
    with pytest.raises(ConfigurationError, match=r"report\.json is no report of headgate verify"):
        read_report(path)


@pytest.mark.parametrize("stage", ["prod", "verify", "verify-", "verify-Prod", "a-verify-b"])
def test_a_stage_of_somebody_else_is_never_touched(stage: str) -> None:
    with pytest.raises(SettingsInvalid, match="touches no other"):
        VerifyOptions(stage=stage)


def test_each_run_has_a_stage_of_its_own() -> None:
    assert VerifyOptions(stage=new_stage()).stage != VerifyOptions(stage=new_stage()).stage


def test_a_local_aws_is_either_started_or_named() -> None:
    with pytest.raises(SettingsInvalid, match="choose"):
        VerifyOptions(local=True, endpoint_url="http://127.0.0.1:4566")
