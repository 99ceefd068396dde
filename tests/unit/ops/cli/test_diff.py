"""``headgate diff``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from headgate import App
from headgate.jobs.core.ports.scheduler import ScheduleSpec
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.testing import MemoryScheduler, MemorySqs, VirtualClock
from headgate.ops.views.deploying.removals import EXIT_REFUSED
from tests.support.backends import over
from tests.support.command_line import CommandLine, Ended

APP = "cli_shop:app"
MAIL, GROUP, TABLE = "shop-test-mail-high", "shop-test", "shop-test-records"

DEPLOYED: dict[str, Any] = {
    "Resources": {
        "Mail": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": MAIL}},
        "Group": {
            "Type": "AWS::Scheduler::ScheduleGroup",
            "Properties": {"Name": GROUP},
            "DeletionPolicy": "RetainExceptOnCreate",
        },
        "Table": {
            "Type": "AWS::DynamoDB::GlobalTable",
            "Properties": {"TableName": TABLE},
            "DeletionPolicy": "RetainExceptOnCreate",
        },
    }
}


class Stacks:
    """The stacks of an account, in place of CloudFormation's."""

    deployed: dict[str, Any]
    asked: list[tuple[str, str | None]]

    def __init__(self, *, region: str | None) -> None:
        self._region = region

    def template(self, stack: str) -> Any:
        self.asked.append((stack, self._region))
        return self.deployed.get(stack)

    def pseudo_parameters(self) -> dict[str, str]:
        return {"AWS::AccountId": "111122223333", "AWS::Region": self._region or "eu-central-1"}

    def close(self) -> None:
        pass


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def scheduler(clock: VirtualClock) -> MemoryScheduler:
    return MemoryScheduler(clock)


@pytest.fixture
def sqs(
    monkeypatch: pytest.MonkeyPatch, here: Path, clock: VirtualClock, scheduler: MemoryScheduler
) -> MemorySqs:
    """SQS with the queue that goes; the template without anything is in cdk.out."""
    sqs = MemorySqs(clock)
    mail = App("shop", stage="test")
    mail.queue("mail").define("send-mail", dict, priority="high")
    sqs.provision(mail.topology)
    backend = over(sqs.sync, scheduler=scheduler.sync, clock=clock)
    monkeypatch.setattr(
        "headgate.jobs.aws.backend.AwsBackend", lambda _topology, **_place: nullcontext(backend)
    )
    monkeypatch.setattr("headgate.jobs.aws.cloudformation.CloudFormationStacks", Stacks)
    monkeypatch.setattr(Stacks, "deployed", {GROUP: DEPLOYED}, raising=False)
    monkeypatch.setattr(Stacks, "asked", [], raising=False)
    (here / "cdk.out").mkdir()
    synthesized(here, {})
    return sqs


def synthesized(here: Path, resources: dict[str, Any], stack: str = GROUP) -> None:
    path = here / "cdk.out" / f"{stack}.template.json"
    path.write_text(json.dumps({"Resources": resources}))


Diff = Callable[..., Ended]


@pytest.fixture
def diff(sqs: MemorySqs, headgate: CommandLine) -> Diff:  # noqa: ARG001 - it is in place by then
    return lambda *options: headgate("diff", *options, app=APP)


def fill(sqs: MemorySqs, scheduler: MemoryScheduler) -> None:
    async def run() -> None:
        await sqs.send(MAIL, [OutgoingMessage(body="{}"), OutgoingMessage(body="{}", delay_s=60)])
        for name in ("delay.1", "dynamic.reports", "declared"):
            schedule = ScheduleSpec(
                group=GROUP,
                name=name,
                expression="at(2100-01-01T00:00:00)",
                function="shop-test-bridge",
                role="shop-test-scheduler",
                input="{}",
            )
            await scheduler.create(schedule, token=name)

    asyncio.run(run())


def test_removals_without_jobs_are_shown_and_pass(diff: Diff) -> None:
    ended, none = diff(), "0 delayed jobs and schedules made at run time"
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines() == [
        f"The queue {MAIL} is deleted, with 0 messages.",
        f"The schedule group {GROUP} stays, without the stack, with {none}.",
        f"The table {TABLE} stays, without the stack.",
    ]


def test_jobs_that_would_be_lost_or_stranded_are_refused_with_what_to_do(
    diff: Diff, sqs: MemorySqs, scheduler: MemoryScheduler
) -> None:
    fill(sqs, scheduler)
    ended = diff()
    assert ended.code == EXIT_REFUSED
    assert f"The queue {MAIL} is deleted, with 2 messages." in ended.out
    assert "`headgate queues drain`" in ended.out
    assert f"{GROUP} stays, without the stack, with 2 delayed jobs" in ended.out
    assert ended.err.endswith(f"If that is meant: --accept {MAIL} --accept {GROUP}\n")


def test_each_removal_is_accepted_by_its_name(
    diff: Diff, sqs: MemorySqs, scheduler: MemoryScheduler
) -> None:
    fill(sqs, scheduler)
    assert diff("--accept", MAIL).code == EXIT_REFUSED
    ended = diff("--accept", MAIL, "--accept", GROUP, "--json")
    assert ended.code == 0
    assert json.loads(ended.out)[0] == {
        "stack": GROUP,
        "region": None,
        "kind": "queue",
        "name": MAIL,
        "kept": False,
        "jobs": 2,
        "accepted": True,
        "harmless": False,
    }


def test_what_cannot_be_counted_is_refused_where_it_is_deleted(
    diff: Diff, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = {"Type": "AWS::DynamoDB::GlobalTable", "Properties": {"TableName": TABLE}}
    monkeypatch.setattr(Stacks, "deployed", {GROUP: {"Resources": {"Table": table}}})
    ended = diff()
    assert ended.code == EXIT_REFUSED
    assert "Copy what is in it first." in ended.out


def test_a_deployment_that_removes_nothing_says_so(diff: Diff, here: Path) -> None:
    synthesized(here, DEPLOYED["Resources"])
    assert (diff().code, diff().out) == (0, "nothing that holds jobs is removed\n")


def test_a_stage_that_has_got_its_account_and_region_loses_no_bucket(
    diff: Diff, here: Path
) -> None:
    place = [{"Ref": "AWS::AccountId"}, {"Ref": "AWS::Region"}]
    joined = {"Fn::Join": ["-", ["shop-test-payloads", *place]]}
    bucket = {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": joined}}
    Stacks.deployed = {GROUP: {"Resources": {"Bucket": bucket}}}
    name = "shop-test-payloads-111122223333-eu-central-1"
    synthesized(here, {"Bucket": bucket | {"Properties": {"BucketName": name}}})
    assert (diff().code, diff().out) == (0, "nothing that holds jobs is removed\n")
    synthesized(here, {})
    assert f"The bucket {name} is deleted." in diff().out


def test_a_stack_that_is_not_deployed_has_nothing_to_lose_and_it_is_said(diff: Diff) -> None:
    ended = diff("--stack", "other", "--template", f"cdk.out/{GROUP}.template.json")
    assert ended.code == 0
    assert ended.out.startswith("the stack other is not deployed in the region of AWS's settings")


# --- a stage's region, and its standby ------------------------------------------------------------


def in_region(here: Path, **fields: Any) -> None:
    """Declare the app's stage in a region, with these fields."""
    stages = {"test": {"region": "eu-central-1", **fields}}
    (here / "cdk.json").write_text(json.dumps({"context": {"headgate:stages": stages}}))


@pytest.fixture
def standby(
    here: Path, sqs: MemorySqs, scheduler: MemoryScheduler, monkeypatch: pytest.MonkeyPatch
) -> str:
    """Deploy the app to two regions, with jobs; nothing of the second one's stack is to stay."""
    in_region(here, standby_in={"region": "eu-west-1"})
    fill(sqs, scheduler)
    name = f"{GROUP}-standby"
    synthesized(here, {}, name)
    monkeypatch.setattr(Stacks, "deployed", {GROUP: DEPLOYED, name: DEPLOYED})
    return name


def test_a_stage_s_stack_is_looked_for_in_its_own_region(diff: Diff, here: Path) -> None:
    in_region(here)
    assert diff().code == 0
    assert Stacks.asked == [(GROUP, "eu-central-1")]


def test_the_jobs_that_a_standby_holds_are_counted_there(
    diff: Diff, here: Path, standby: str
) -> None:
    synthesized(here, DEPLOYED["Resources"])
    ended = diff()
    assert Stacks.asked == [(GROUP, "eu-central-1"), (standby, "eu-west-1")]
    assert ended.code == EXIT_REFUSED
    assert ended.out.splitlines()[:4] == [
        f"{GROUP} in eu-central-1:",
        "nothing that holds jobs is removed",
        f"{standby} in eu-west-1:",
        f"The queue {MAIL} is deleted, with 2 messages.",
    ]


@pytest.mark.usefixtures("standby")
def test_a_name_is_accepted_in_both_regions_at_once(diff: Diff) -> None:
    assert diff().err.endswith(f"If that is meant: --accept {MAIL} --accept {GROUP}\n")
    assert diff("--accept", MAIL, "--accept", GROUP).code == 0


def test_without_a_synthesized_template_the_command_says_how_to_make_one(diff: Diff) -> None:
    ended = diff("--stack", "other")
    assert ended.code == 2
    assert "cdk.out/other.template.json could not be read" in ended.err
    assert "npx aws-cdk synth" in ended.err


def test_a_queue_of_a_priority_that_no_type_names_is_told_with_what_keeps_it(
    diff: Diff, here: Path
) -> None:
    with (here / "cli_shop.py").open("a") as source:
        source.write("app.queue('mail').define('send-mail', dict)\n")
        source.write("app.queue('paper', priorities=['low']).define('print', dict)\n")
    paper = {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": "shop-test-paper-high-dlq"}}
    there = {"Resources": DEPLOYED["Resources"] | {"Paper": paper}}
    Stacks.deployed = {GROUP: there}
    lines = diff().out.splitlines()
    of_mail, of_paper = (
        lines[lines.index(f"The queue {name} is deleted, with 0 messages.") + 1]
        for name in (MAIL, "shop-test-paper-high-dlq")
    )
    assert of_mail == (
        "  To keep it, write App(..., priorities=\"all\"), or other_priorities=['high'] on a type."
    )
    assert of_paper == "  To keep it, add 'high' to the priorities= of the queue 'paper'."
