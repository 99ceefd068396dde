"""docs/regions.md, carried out: the commands of its runbook, on two regions in memory."""

from __future__ import annotations

import os
import shlex
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headgate import App, Client, Schedule, load_app
from headgate.jobs.errors import ServiceUnavailable
from headgate.testing import Harness
from tests.support.backends import Given, over
from tests.support.command_line import CommandLine
from tests.support.regions_page import commands

ACTIVE, STANDBY = "eu-central-1", "eu-west-1"
MODULE = "regions_shop"

APP = """
from datetime import timedelta
from headgate import App, JobContext, Schedule

app = App("shop", stage="prod", records="full")
ran = []  # the region and id of each run
here = ""

@app.job("charge", once=True)
async def charge(ctx: JobContext) -> None:
    ran.append((here, ctx.id))

@app.job("report", schedule=Schedule.rate(timedelta(hours=1)))
async def report() -> None:
    ran.append((here, "report"))

@app.job("chime")
async def chime() -> None:
    ran.append((here, "chime"))
"""


class Regions:
    """One app in two regions, and the commands of the page."""

    def __init__(self, module: Any, headgate: CommandLine, folder: Path) -> None:
        self.app: App = module.app
        self.active, self.standby = Harness(self.app), Harness(self.app)
        for spec in self.standby.scheduler.schedules:  # as a deployed standby has them
            self.standby.scheduler.replace(replace(spec, enabled=False))
        self._module = module
        self._headgate = headgate
        self._spool = folder / "jobs.spool"

    @property
    def ran(self) -> Counter[str]:
        """Number of runs, by region and what ran, as in ``eu-west-1 report``."""
        return Counter(" ".join(each) for each in self._module.ran)

    def client(self, app: App, **options: Any) -> Client:
        """Return a client of the region that the environment names, as the commands do."""
        return Client(app, backend=self._backend(os.environ["AWS_REGION"]), **options)

    def submitter(self, region: str) -> Client:
        """Return a client with a spool."""
        return Client(self.app, backend=self._backend(region), spool=self._spool)

    def restart_submitter(self) -> None:
        """Turn the submitter to the standby; it sends what its spool holds."""
        with self.submitter(STANDBY):
            pass

    def carry_out(self, heading: str) -> None:
        """Run the commands of a section of the page."""
        for line in commands(heading):
            if line.startswith("export "):
                name, _, value = line.removeprefix("export ").partition("=")
                os.environ[name] = value
                continue
            ended = self._headgate(*shlex.split(line)[1:], app=f"{MODULE}:app")
            assert (ended.code, ended.err) == (0, ""), line

    def lose(self, *, answers_of: int = 0) -> None:
        """Have the active region fail; it carries out as many sends, whose answers are lost."""
        for applied, times in ((True, answers_of), (False, 1_000_000)):
            if times:
                gone = ServiceUnavailable("the region is gone")
                self.active.sqs.faults.raise_on("send", gone, times=times, applied=applied)

    def work(self, harness: Harness, passes: timedelta = timedelta(0)) -> None:
        """Let time pass in a region, and its workers run what there is."""
        self._module.here = ACTIVE if harness is self.active else STANDBY
        harness.clock.advance(passes)
        harness.drain()

    def _backend(self, region: str) -> Given:
        harness = self.active if region == ACTIVE else self.standby
        return over(
            harness.sqs.sync,
            table=harness.table.sync,
            scheduler=harness.scheduler.sync,
            store=harness.store.sync,
            clock=harness.clock,
            sleep=harness.clock.advance,
        )


@pytest.fixture
def regions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Regions]:
    (tmp_path / f"{MODULE}.py").write_text(textwrap.dedent(APP))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setenv("AWS_REGION", ACTIVE)  # restored, whatever the page's commands export
    load_app(f"{MODULE}:app")
    made = Regions(sys.modules[MODULE], CommandLine(monkeypatch, capsys), tmp_path)
    monkeypatch.setattr("headgate.jobs.client.client.Client", made.client)
    yield made
    sys.modules.pop(MODULE, None)


def test_the_runbook_has_fewer_than_ten_commands() -> None:
    assert len(commands("Fail over") + commands("Fail back")) < 10


def test_no_job_is_lost_none_runs_twice_and_schedules_fire_in_one_region(regions: Regions) -> None:
    app, active, standby = regions.app, regions.active, regions.standby
    with regions.client(app) as client:
        hourly = Schedule.rate(timedelta(hours=1))
        client.schedules.create("hourly", app.find_type("chime"), schedule=hourly)
    regions.carry_out("Keep an export")
    charge = app.find_type("charge")
    with regions.submitter(ACTIVE) as client:
        waiting = [client.submit(charge).id for _ in range(3)]

    regions.lose()
    submitter = regions.submitter(ACTIVE)
    spooled = [submitter.submit(charge).id for _ in range(2)]
    submitter.close()
    regions.carry_out("Fail over")
    regions.restart_submitter()
    regions.work(standby, timedelta(hours=1))

    ran = regions.ran
    assert [ran[f"{STANDBY} {each}"] for each in spooled] == [1, 1]
    assert ran[f"{STANDBY} report"] >= 1
    assert ran[f"{STANDBY} chime"] >= 1
    assert not any(each.startswith(ACTIVE) for each in ran)

    active.sqs.faults.clear()
    regions.carry_out("Fail back")
    regions.work(active)
    runs = regions.ran
    assert [runs[f"{ACTIVE} {each}"] for each in waiting] == [1, 1, 1]
    assert sum(runs[f"{region} {each}"] for region in (ACTIVE, STANDBY) for each in spooled) == 2

    regions.work(active, timedelta(hours=2))
    regions.work(standby, timedelta(hours=2))
    after = regions.ran - runs
    assert {f"{ACTIVE} report", f"{ACTIVE} chime"} <= after.keys()
    assert not any(each.startswith(STANDBY) for each in after)


def test_a_job_whose_answer_was_lost_with_the_region_runs_in_both(regions: Regions) -> None:
    """The page says that this can't be prevented."""
    regions.lose(answers_of=1)
    submitter = regions.submitter(ACTIVE)
    doubtful = submitter.submit(regions.app.find_type("charge")).id
    submitter.close()
    regions.restart_submitter()
    regions.active.sqs.faults.clear()
    regions.work(regions.standby)
    regions.work(regions.active)
    assert {each: count for each, count in regions.ran.items() if doubtful in each} == {
        f"{ACTIVE} {doubtful}": 1,
        f"{STANDBY} {doubtful}": 1,
    }
