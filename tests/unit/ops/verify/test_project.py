"""The project that `headgate verify` deploys: a user's, sound, and driven by CDK's command line."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headgate.jobs.definitions.app_path import load_app
from headgate.jobs.deployment.checks.check import check
from headgate.jobs.errors import ConfigurationError, HeadgateError
from headgate.jobs.values.own_version import own_version
from headgate.ops.cdk_context import deployment_from_cdk_json
from headgate.ops.verify.aws_site import forbidden
from headgate.ops.verify.estimate import most_usd
from headgate.ops.verify.project import VerifyProject
from headgate.ops.verify.steps.verify_app import make_app

STAGE = "verify-test"
NOW = datetime(2026, 11, 1, tzinfo=UTC)

NPX = """#!/bin/sh
echo "$HEADGATE_STAGE $*" >> calls
if [ -f broken ]; then echo "the account is not bootstrapped"; exit 1; fi
if [ -f new ]; then rm new; echo "Unable to assume the service linked role."; exit 1; fi
echo '{"headgate-verify-test": {"Cluster": "c", "WorkersWorkers": "w"}}' > outputs.json
"""


@pytest.fixture
def project(tmp_path: Path) -> VerifyProject:
    made = VerifyProject(folder=tmp_path / STAGE, stage=STAGE)
    made.write()
    return made


@pytest.fixture
def npx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A command in place of Node's, and its folder."""
    folder = tmp_path / "bin"
    folder.mkdir()
    command = folder / "npx"
    command.write_text(NPX)
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


@pytest.fixture
def importing(project: VerifyProject, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("HEADGATE_STAGE", STAGE)
    monkeypatch.setattr(sys, "path", [str(project.folder), *sys.path])
    yield
    for name in [each for each in sys.modules if each.split(".")[0] == "verify_app"]:
        del sys.modules[name]


@pytest.mark.usefixtures("importing")
def test_its_app_is_the_one_that_the_steps_drive_and_its_check_finds_no_error(
    project: VerifyProject,
) -> None:
    app, ours = load_app("verify_app:app"), make_app(STAGE)
    assert app.topology == ours.topology
    assert app.types.keys() == ours.types.keys()
    deployment = deployment_from_cdk_json(project.folder / "cdk.json", STAGE)
    assert deployment == project.deployment()
    faults = check(app, NOW, deployment)
    assert [fault for fault in faults if fault.severity == "error"] == []


def test_its_stage_throws_its_data_away_and_every_queue_has_someone_who_serves_it(
    project: VerifyProject,
) -> None:
    deployment, topology = project.deployment(), make_app(STAGE).topology
    assert not deployment.keeps_data(STAGE)
    assert not deployment.protected
    selections = [group.selection for group in deployment.workers]
    selections += [group.selection for group in deployment.consumers]
    served = {spec.name for selection in selections for spec in selection.of(topology)}
    assert served == {spec.name for spec in topology.queues}


def test_its_image_has_this_version_or_the_given_requirements(
    project: VerifyProject, tmp_path: Path
) -> None:
    assert (
        f"headgate[emf,ops]>={own_version()}" in (project.folder / "requirements.txt").read_text()
    )
    assert "COPY verify_app /app/verify_app" in (project.folder / "Dockerfile").read_text()
    own = tmp_path / "own.txt"
    own.write_text("./headgate.whl\n")
    VerifyProject(folder=project.folder, stage=STAGE, requirements=own).write()
    assert (project.folder / "requirements.txt").read_text() == own.read_text()
    with pytest.raises(ConfigurationError, match="--requirements"):
        VerifyProject(folder=project.folder, stage=STAGE, requirements=tmp_path / "none").write()


@pytest.mark.usefixtures("npx")
async def test_an_account_that_had_never_used_ecs_is_deployed_to_a_second_time(
    project: VerifyProject,
) -> None:
    (project.folder / "new").touch()
    assert await project.deploy() == {"Cluster": "c", "WorkersWorkers": "w"}
    assert len((project.folder / "calls").read_text().splitlines()) == 2


@pytest.mark.usefixtures("npx")
async def test_cdk_is_called_for_its_own_stack_alone(project: VerifyProject) -> None:
    outputs = await project.deploy()
    await project.destroy()
    calls = (project.folder / "calls").read_text().splitlines()
    assert outputs == {"Cluster": "c", "WorkersWorkers": "w"}
    assert [call.split(" ", 3)[3] for call in calls] == [
        "deploy --require-approval never --outputs-file outputs.json headgate-verify-test",
        "destroy --force headgate-verify-test",
    ]
    assert {call.split()[0] for call in calls} == {STAGE}


@pytest.mark.usefixtures("npx")
async def test_what_cdk_says_as_it_fails_is_in_the_error(project: VerifyProject) -> None:
    (project.folder / "broken").touch()
    with pytest.raises(HeadgateError, match=r"cdk deploy failed.*not bootstrapped"):
        await project.deploy()


async def test_an_interruption_ends_cdk(project: VerifyProject, npx: Path) -> None:
    (npx / "npx").write_text("#!/bin/sh\ntouch begun\nexec sleep 600\n")
    deploying = asyncio.create_task(project.deploy())
    while not (project.folder / "begun").exists():  # noqa: ASYNC110 - another process's doing
        await asyncio.sleep(0.01)
    deploying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await deploying


async def test_without_node_its_name_is_said(
    project: VerifyProject, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match="CDK needs Node"):
        await project.deploy()


def test_the_cdk_context_names_one_stage_and_no_account(project: VerifyProject) -> None:
    context = json.loads((project.folder / "cdk.json").read_text())["context"]
    assert context.keys() == {"headgate:app", "headgate:stages"}
    assert context["headgate:stages"].keys() == {STAGE}


def test_the_cost_grows_with_the_time_and_is_small(project: VerifyProject) -> None:
    app, deployment = make_app(STAGE), project.deployment()
    half, whole = [
        most_usd(app, deployment, timedelta(minutes=minutes), NOW) for minutes in (30, 60)
    ]
    assert 0 < half < whole < 1


def test_what_a_role_must_not_do_concerns_its_own_and_other_resources() -> None:
    asked = forbidden(make_app(STAGE).topology, "111122223333", "eu-central-1")
    assert ("sqs:ListQueues", "*") in asked
    assert len({action for action, _ in asked}) == len(asked)
