"""docs/regions.md, carried out on two local AWS: fail over, run there, fail back.

Each region is a MiniStack of its own, with what the stage's stack and its standby's have there,
behind a proxy that drops every request while the region is lost. Workers, and the page's commands,
are real processes; the page's ``export AWS_REGION`` chooses the endpoint with the region, as AWS's
names do.
"""

from __future__ import annotations

import shlex
import signal
import sys
import textwrap
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import aws_cdk as cdk
import pytest

from headgate import App, AsyncClient, cron, load_app
from headgate.infra.stack import HeadgateStack
from headgate.jobs.deployment.deployment import Deployment
from tests.infra.conftest import NO_BUNDLING
from tests.infra.templates import template_of
from tests.support.deployed import Stack, bootstrap, cloud_at
from tests.support.environment import with_test_credentials
from tests.support.journal import Journal
from tests.support.proxy import Drop, Proxy
from tests.support.regions_page import commands
from tests.support.servers import running_server
from tests.support.workers import WorkerProcess, command, environment

ACTIVE, STANDBY = "eu-central-1", "eu-west-1"
MODULE = "shop_of_two_regions"

# Its messages and claims come free soon after a worker is gone with its region.
APP = """
import asyncio, os
from datetime import timedelta
from pathlib import Path
from headgate import App, JobContext, Lane, Priority, Queue, cron

brief = Lane(visibility=timedelta(seconds=5), start_within=timedelta(minutes=1), share=0.0)
jobs = Queue("jobs", priorities=["normal"], lanes={Priority.NORMAL: brief})
app = App("regions", default_queue=jobs)

def say(event, ctx):
    with open("journal", "a") as journal:
        journal.write(f"{event}-in-{os.environ['AWS_REGION']} {ctx.id} {os.getpid()}\\n")

@app.job("charge", once=True)
async def charge(ctx: JobContext) -> None:
    say("done", ctx)

@app.job("settle", once=True)
async def settle(ctx: JobContext) -> None:
    say("begun", ctx)
    while not Path("gate").exists():
        await asyncio.sleep(0.02)
    say("done", ctx)

@app.job("report", schedule=cron("0 8 1 1 ? *"))
async def report() -> None: ...
"""

HELD = (
    "AWS::DynamoDB::GlobalTable",
    "AWS::S3::Bucket",
    "AWS::SQS::Queue",
    "AWS::Scheduler::ScheduleGroup",
)
SCHEDULE = "AWS::Scheduler::Schedule"
RUN_TIME = "dynamic.yearly"
_ARN = "arn:aws:{service}:us-east-1:000000000000:{name}"


class Region:
    """One region's local AWS, behind a proxy that can cut it off."""

    def __init__(self, name: str, endpoint_url: str, proxy: Proxy) -> None:
        self.name = name
        self.endpoint_url = endpoint_url
        self._proxy = proxy

    def environment(self, stage: str, folder: Path) -> dict[str, str]:
        """Return a command's environment there."""
        env = environment(self._proxy.endpoint_url, stage, folder)
        return env | {"AWS_REGION": self.name, "HEADGATE_APP": f"{MODULE}:app"}

    def lose(self, *, answers_of: int = 0) -> None:
        """Have the region answer nothing; it carries out as many sends beforehand."""
        if answers_of:
            self._proxy.inject(Drop(forward=True), actions=["SendMessageBatch"], times=answers_of)
        self._proxy.inject(Drop(forward=False))

    def restore(self) -> None:
        """Have it answer again, with all that it held."""
        self._proxy.heal()


class Regions:
    """A stage of the app, deployed in one region, with a standby in another."""

    def __init__(
        self, active: Region, standby: Region, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.stage = f"t{uuid4().hex[:8]}"
        monkeypatch.setenv("HEADGATE_STAGE", self.stage)
        self.app: App = load_app(f"{MODULE}:app")
        self.active, self.standby = active, standby
        self._folder = folder
        self._journal = Journal(folder / "journal")
        self._monkeypatch = monkeypatch
        self._here = active

    def deploy(self) -> None:
        """Deploy the part of both stacks that holds jobs and schedules."""
        deployment = Deployment(workers=())
        for region, of_it in (
            (self.active, deployment),
            (self.standby, deployment.as_standby()),
        ):
            with cloud_at(region.endpoint_url, region.name) as cloud:
                bootstrap(cloud)
                template = held(self.app, of_it, region.name)
                Stack(cloud, f"{self.app.name}-{self.stage}").create(template)

    @asynccontextmanager
    async def worker(self, region: Region) -> AsyncIterator[WorkerProcess]:
        """Yield a worker in a region; at the end it is stopped in order, unless it was killed."""
        env = region.environment(self.stage, self._folder)
        async with WorkerProcess(env=env, app=f"{MODULE}:app", directory=self._folder) as worker:
            yield worker
            if worker.alive:
                worker.send(signal.SIGTERM)
                assert await worker.ended() == 0

    @asynccontextmanager
    async def submitter(self, region: Region) -> AsyncIterator[AsyncClient]:
        """Yield a client with a spool, turned to a region."""
        for name, value in region.environment(self.stage, self._folder).items():
            self._monkeypatch.setenv(name, value)
        async with AsyncClient(self.app, spool=self._folder / "jobs.spool") as client:
            yield client

    async def submit(self, client: AsyncClient, job: str, times: int = 1) -> list[str]:
        """Submit jobs of a type, and return their ids."""
        declared = self.app.find_type(job)
        return [(await client.submit(declared)).id for _ in range(times)]

    async def carry_out(self, heading: str) -> None:
        """Run the commands of a section of the page."""
        regions = {each.name: each for each in (self.active, self.standby)}
        for line in commands(heading):
            if line.startswith("export AWS_REGION="):
                self._here = regions[line.partition("=")[2]]
                continue
            env = self._here.environment(self.stage, self._folder)
            ended = await command(*shlex.split(line)[1:], env=env, directory=self._folder)
            assert ended.code == 0, (line, ended)

    async def until(self, event: str, region: Region, ids: Iterable[str]) -> None:
        """Wait until each of these jobs has had such an event in a region."""
        wanted = set(ids)
        await self._journal.until(lambda: wanted <= self.counted(event, region).keys())

    def counted(self, event: str, *regions: Region) -> Counter[str]:
        """Return the number of such events in the regions, by job id."""
        told: Counter[str] = Counter()
        for region in regions:
            told += self._journal.count(f"{event}-in-{region.name}")
        return told

    def open_gate(self) -> None:
        """Let jobs of the type ``settle`` end."""
        (self._folder / "gate").touch()

    def schedules(self, region: Region) -> dict[str, bool]:
        """Return the names of a region's schedules, and which are enabled there."""
        with cloud_at(region.endpoint_url, region.name) as cloud:
            group = {"GroupName": self.app.topology.schedule_group}
            found = cloud.client("scheduler").list_schedules(**group)["Schedules"]
            return {each["Name"]: each["State"] == "ENABLED" for each in found}

    def left(self, region: Region) -> dict[str, int]:
        """Return the number of messages in each of a region's queues that has some."""
        with cloud_at(region.endpoint_url, region.name) as cloud:
            return dict(_depths(cloud.client("sqs"), f"{self.app.name}-{self.stage}"))


def _depths(sqs: Any, prefix: str) -> Iterable[tuple[str, int]]:
    for url in sqs.list_queues(QueueNamePrefix=prefix)["QueueUrls"]:
        read = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        states = ("", "NotVisible", "Delayed")
        if depth := sum(int(read[f"ApproximateNumberOfMessages{each}"]) for each in states):
            yield url.rpartition("/")[2], depth


def held(app: App, deployment: Deployment, region: str) -> dict[str, Any]:
    """Return the part of a stack's template with jobs and schedules, which fire into the void."""
    place = cdk.Environment(account="000000000000", region=region)
    stack = HeadgateStack(
        cdk.App(context=NO_BUNDLING), "Stack", app=app, deployment=deployment, env=place
    )
    resources = template_of(stack)["Resources"].items()
    kept = {name: each for name, each in resources if each["Type"] in HELD}
    for name, each in resources:
        if each["Type"] == SCHEDULE:
            target = {
                "Arn": _ARN.format(service="lambda", name="function:none"),
                "RoleArn": _ARN.format(service="iam", name="role/none"),
                "Input": each["Properties"]["Target"]["Input"],
            }
            kept[name] = {**each, "Properties": {**each["Properties"], "Target": target}}
    return {"Resources": kept}


@pytest.fixture
async def regions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[Regions]:
    with_test_credentials(monkeypatch, tmp_path)
    (tmp_path / f"{MODULE}.py").write_text(textwrap.dedent(APP))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    async with AsyncExitStack() as owned:
        both: list[Region] = []
        for name in (ACTIVE, STANDBY):
            server = owned.enter_context(running_server("ministack"))
            both.append(Region(name, server, await owned.enter_async_context(Proxy(server))))
        active, standby = both
        yield Regions(active, standby, tmp_path, monkeypatch)
    sys.modules.pop(MODULE, None)


@pytest.mark.timeout(600)  # some forty commands, as processes
async def test_a_lost_region_keeps_its_jobs_and_its_standby_runs_the_others(
    regions: Regions,
) -> None:
    regions.deploy()
    active, standby = regions.active, regions.standby
    async with regions.worker(active) as worker, regions.submitter(active) as client:
        await client.schedules.create(
            "yearly", regions.app.find_type("report"), schedule=cron("0 9 1 1 ? *")
        )
        await regions.carry_out("Keep an export")
        ended = await regions.submit(client, "charge", 3)
        running = await regions.submit(client, "settle")
        await regions.until("done", active, ended)
        await regions.until("begun", active, running)
        await worker.kill()
        waiting = await regions.submit(client, "charge", 3)
        active.lose(answers_of=1)
        doubtful = await regions.submit(client, "charge")
        spooled = await regions.submit(client, "charge", 2)
    assert regions.schedules(standby) == {"report": False}

    await regions.carry_out("Fail over")
    async with regions.worker(standby):
        async with regions.submitter(standby) as client:
            meanwhile = await regions.submit(client, "charge", 2)
        await regions.until("done", standby, [*doubtful, *spooled, *meanwhile])
        assert regions.schedules(standby) == {"report": True, RUN_TIME: True}

        active.restore()
        await regions.carry_out("Fail back")
        regions.open_gate()
        async with regions.worker(active):
            await regions.until("done", active, [*waiting, *running, *doubtful])
            async with regions.submitter(active) as client:
                back = await regions.submit(client, "charge", 2)
            await regions.until("done", active, back)

    once = [*ended, *running, *waiting, *spooled, *meanwhile, *back]
    both = Counter(dict.fromkeys(once, 1)) + Counter(dict.fromkeys(doubtful, 2))
    assert regions.counted("done", active, standby) == both, "the page says that of the doubtful"
    assert regions.schedules(active) == {"report": True, RUN_TIME: True}
    assert regions.schedules(standby) == {"report": False, RUN_TIME: False}
    assert regions.left(active) == regions.left(standby) == {}
