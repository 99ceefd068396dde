"""The entry point: stages, outputs, and an identical template every time."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_cloudwatch as cw
from aws_cdk import aws_sqs as sqs
from jsii.errors import JavaScriptError

import headgate.infra.app
from headgate import App
from headgate.infra.app import add_stack, main
from headgate.infra.outputs import queue_outputs
from headgate.infra.stack import HeadgateStack
from headgate.infra.stages import Stage, asked_for, read_stage
from headgate.jobs.deployment import deployment
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from headgate.jobs.errors import ConfigurationError
from tests.infra.complete import Complete
from tests.infra.conftest import ELSEWHERE, NO_BUNDLING, Params
from tests.infra.everything import everything
from tests.infra.templates import template_of

ROOT = Path(__file__).parents[2]

STAGES: dict[str, Any] = {
    "dev": {},
    "prod": {
        "account": "111122223333",
        "region": "eu-central-1",
        "budget_usd": 900,
        "workers": [{"name": "workers", "min_tasks": 2, "max_tasks": 20}],
    },
}
COMMON: dict[str, Any] = {"alerts_to": ["oncall@example.com"], "budget_usd": 20}
CONTEXT = {"headgate:deployment": COMMON, "headgate:stages": STAGES}


# --- stages --------------------------------------------------------------------------------------


def test_a_stage_has_what_all_have_and_its_own_beside_or_instead() -> None:
    assert read_stage("dev", CONTEXT) == Stage(
        deployment=Deployment(alerts_to=("oncall@example.com",), budget_usd=20)
    )
    assert read_stage("prod", CONTEXT) == Stage(
        deployment=Deployment(
            alerts_to=("oncall@example.com",),
            budget_usd=900,
            workers=(WorkerGroup(min_tasks=2, max_tasks=20),),
        ),
        account="111122223333",
        region="eu-central-1",
    )


def test_without_declared_stages_any_name_is_one_and_so_is_none() -> None:
    for name in (None, "pr-17"):
        stage = read_stage(name, {"headgate:deployment": COMMON})
        assert stage.deployment.budget_usd == 20
    assert read_stage(None, {}) == Stage(deployment=Deployment())


def test_a_stage_that_is_not_declared_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(ConfigurationError, match=r"'prdo' is not in .*did you mean 'prod'\?"):
        read_stage("prdo", CONTEXT)


def test_where_stages_are_declared_one_has_to_be_named() -> None:
    with pytest.raises(ConfigurationError, match="the stages dev, prod: choose one"):
        read_stage(None, CONTEXT)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"account": 111122223333}, "12 digits, got 111122223333"),
        ({"account": "1111-2222-3333"}, "12 digits"),
        ({"region": "frankfurt"}, "such as eu-central-1, got 'frankfurt'"),
        ({"worker": []}, "the deployment's worker"),
        ({"budget_usd": -1}, "must not be negative"),
        (["prod"], "headgate:stages.prod in CDK's context must be an object"),
    ],
)
def test_a_wrong_field_of_a_stage_is_refused(fields: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        read_stage("prod", {"headgate:stages": {"prod": fields}})


@pytest.mark.parametrize("key", ["headgate:deployment", "headgate:stages"])
def test_a_context_that_is_no_object_is_refused(key: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{key} in CDK's context must be an object"):
        read_stage("prod", {key: "{}"})


def test_context_and_environment_may_not_ask_for_different_stages() -> None:
    assert asked_for("dev", None) == asked_for(None, "dev") == asked_for("dev", "dev") == "dev"
    assert asked_for(None, None) is None
    with pytest.raises(ConfigurationError, match="'dev', and HEADGATE_STAGE is 'prod'"):
        asked_for("dev", "prod")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with an app, ``of_project:app``, that commands run in."""
    source = "from headgate import App\napp = App('store')\napp.define('send', dict)\n"
    (tmp_path / "of_project.py").write_text(source)
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("HEADGATE_APP", raising=False)
    monkeypatch.setenv("HEADGATE_STAGE", "")  # so that what the entry point sets is undone
    monkeypatch.delitem(sys.modules, "of_project", raising=False)
    return tmp_path


def assembly(**context: Any) -> cdk.App:
    named = {f"headgate:{key}": value for key, value in context.items()}
    return cdk.App(context={**NO_BUNDLING, "headgate:app": "of_project:app", **named})


@pytest.mark.usefixtures("project")
def test_a_standby_has_its_own_region_s_existing_resources() -> None:
    there = {"region": "eu-west-1", "existing": {"table": "jobs-west"}}
    fields = {**STAGES["prod"], "workers": [], "existing": {"table": "jobs"}}
    made = assembly(stage="prod", stages={"prod": {**fields, "standby_in": there}})
    active = add_stack(made)
    standby = made.node.find_child("store-prod-standby")
    assert isinstance(standby, HeadgateStack)
    tables = [each.jobs.app.topology.table_name for each in (active, standby)]
    assert tables == ["jobs", "jobs-west"]
    assert json.loads(template_of(standby)["Outputs"]["Existing"]["Value"]) == there["existing"]


@pytest.mark.usefixtures("project")
def test_a_standby_is_a_second_stack_in_its_region_with_the_same_names() -> None:
    prod = {**STAGES["prod"], "standby_in": {"region": "eu-west-1"}}
    made = assembly(stage="prod", stages={"prod": prod})
    active = add_stack(made)

    standby = made.node.find_child("store-prod-standby")
    assert isinstance(standby, HeadgateStack)
    assert (standby.account, standby.region) == (active.account, "eu-west-1")
    assert standby.jobs.deployment.standby
    assert standby.jobs.app is active.jobs.app
    names = [each.jobs.dashboard.node.default_child for each in (active, standby)]
    assert [each.dashboard_name for each in names if isinstance(each, cw.CfnDashboard)] == [
        "store-prod",
        "store-prod-standby",
    ]


@pytest.mark.usefixtures("project")
def test_a_stage_of_the_context_is_deployed_where_and_as_it_says() -> None:
    stack = add_stack(assembly(stage="prod", stages=STAGES, deployment=COMMON))

    assert stack.stack_name == "store-prod"
    assert (stack.account, stack.region) == ("111122223333", "eu-central-1")
    assert stack.jobs.deployment.workers == (WorkerGroup(min_tasks=2, max_tasks=20),)
    assert stack.jobs.deployment.alerts_to == ("oncall@example.com",)


@pytest.mark.usefixtures("project")
def test_a_stage_without_an_account_follows_the_credentials() -> None:
    stack = add_stack(assembly(stage="dev", stages=STAGES))

    assert cdk.Token.is_unresolved(stack.account)
    assert cdk.Token.is_unresolved(stack.region)


@pytest.mark.usefixtures("project")
def test_the_entry_point_refuses_a_stage_that_is_not_declared() -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'prod'"):
        add_stack(assembly(stage="pord", stages=STAGES))


def test_what_cdk_nag_finds_fails_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("CDK_OUTDIR", str(tmp_path))
    monkeypatch.setattr(
        headgate.infra.app,
        "add_stack",
        lambda assembly, _nested: sqs.Queue(cdk.Stack(assembly, "Stack"), "Open"),
    )

    assert main() == 1
    assert capsys.readouterr().err == "headgate: cdk-nag refuses the stack\n"


# --- outputs -------------------------------------------------------------------------------------


def outputs(app: App, **on_aws: Any) -> Mapping[str, Any]:
    stack = HeadgateStack(cdk.App(context=NO_BUNDLING), "Stack", app=app, **on_aws)
    return checked(template_of(stack)["Outputs"])


def checked(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return outputs that no other stack depends on."""
    assert all("Export" not in each for each in found.values())
    assert not any(isinstance(each["Value"], str) for each in found.values())  # they are references
    return found


def of_queues(app: App) -> set[str]:
    """Return the keys of an app's queues."""
    return {
        f"{kind}{spec.group.title()}{spec.priority.title()}{what}"
        for spec in app.topology.queues
        for kind in ("Queue", "DeadLetters")
        for what in ("Url", "Arn")
    }


def test_the_outputs_have_keys_that_stay_and_export_nothing(complete: Complete) -> None:
    assert set(checked(complete.template["Outputs"])) == {
        "AlertsTopic",
        "BridgeFunction",
        "Bucket",
        "Cluster",
        "ConsumerMailer",
        "DashboardUrl",
        "FailedFiringsUrl",
        "QuarantineUrl",
        "Table",
        "TicketsTopic",
        "WorkersBatch",
        "WorkersWorkers",
        *of_queues(everything()),
    }


def test_what_a_stack_lacks_it_does_not_put_out() -> None:
    app = App("shop", long_delays=False)
    app.define("send-email", Params, timeout=timedelta(seconds=30))
    lacking = outputs(app, deployment=ELSEWHERE)
    assert set(lacking) == {
        "AlertsTopic",
        "Bucket",
        "DashboardUrl",
        "QuarantineUrl",
        "Table",
        "TicketsTopic",
        *of_queues(app),
    }


@pytest.mark.parametrize(("queues", "put_out"), [(40, 160), (41, 82), (80, 160), (81, 0)])
def test_queues_have_outputs_as_long_as_a_template_has_room(queues: int, put_out: int) -> None:
    app = App("shop")
    for number in range(queues):
        app.queue(f"queue-{number}", priorities=["normal"]).define(f"type-{number}", Params)
    one = SimpleNamespace(queue_url="url", queue_arn="arn")
    system: Any = SimpleNamespace(app=app, queue=lambda *_: one, dead_letter_queue=lambda *_: one)
    assert len(queue_outputs(system)) == put_out


# --- the same every time -------------------------------------------------------------------------


def synthesized_by_command(out: Path, hash_seed: int) -> dict[str, str]:
    """Return digests of what ``cdk synth`` writes for the example, in a process of its own."""
    command = ["node", "infra/cdk.js", "synth", "--quiet", "--output", str(out)]
    done = subprocess.run(
        [*command, "--app", f"{sys.executable} -m headgate.infra.app"],
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": str(hash_seed), "HEADGATE_STAGE": "prod"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in out.iterdir()
        if path.name.endswith((".template.json", ".assets.json"))
    }


def test_two_runs_of_the_command_write_the_same_template_and_assets(tmp_path: Path) -> None:
    first = synthesized_by_command(tmp_path / "first", 1)
    # A function whose code is there already, by its hash, is not built again.
    shutil.copytree(
        tmp_path / "first", tmp_path / "second", ignore=shutil.ignore_patterns("*.json")
    )
    second = synthesized_by_command(tmp_path / "second", 2)
    assert set(first) == {"ecommerce-prod.template.json", "ecommerce-prod.assets.json"}
    assert first == second


@pytest.mark.parametrize("program", ["@mermaid-js/tiny", "aws-cdk", "pyright"])
def test_what_comes_from_npm_is_pinned_to_one_version(program: str) -> None:
    manifest = json.loads((ROOT / "package.json").read_text())
    lock = json.loads((ROOT / "package-lock.json").read_text())
    wanted = manifest["devDependencies"][program]
    assert wanted == lock["packages"][f"node_modules/{program}"]["version"]
    assert wanted.replace(".", "").isdigit()


@pytest.mark.usefixtures("project")
def test_a_misspelt_key_of_the_context_is_refused_and_others_are_left_alone() -> None:
    with pytest.raises(ConfigurationError, match=r"'headgate:deployments'.*did you mean"):
        add_stack(assembly(stage="prod", deployments=COMMON))


def test_a_bundling_error_is_shown_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError(
            "Failed to bundle asset shop/Code/Stage, bundle output is located at x: "
            "@jsii/kernel.RuntimeError: the consumer 'mailer': pip said no"
        ) from JavaScriptError("at Kernel")  # type: ignore[no-untyped-call]  # jsii has no types

    monkeypatch.setattr(headgate.infra.app, "add_stack", refuse)
    assert main() == 1
    assert capsys.readouterr().err == ("headgate: the consumer 'mailer': pip said no\n")


def test_without_node_the_command_says_that_it_is_missing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "headgate.infra.app"],
        cwd=ROOT,
        env={**os.environ, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stderr == (
        "headgate: synthesis needs Node 20 or newer, and there is no node on the PATH\n"
    )


@pytest.mark.usefixtures("project")
def test_more_resources_than_a_stack_may_have_are_refused_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few = {"@aws-cdk/core:stackResourceLimit": 10}
    made = cdk.App(context={**NO_BUNDLING, "headgate:app": "of_project:app", **few})
    monkeypatch.setattr(cdk, "App", lambda: made)
    assert main() == 1
    said = capsys.readouterr().err
    assert "is greater than allowed maximum of 10" in said
    assert "declare fewer priorities" in said
    assert "let one worker group serve several of them" in said
    assert "Traceback" not in said


@pytest.mark.usefixtures("project")
def test_what_cdk_refuses_is_said_in_one_line_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(deployment, "_KEY", re.compile("arn:aws:kms:.*"))  # ours would refuse it
    said = "arn:aws:kms:nonsense"
    made = assembly(deployment={"workers": [], "encryption_key": said})
    monkeypatch.setattr(cdk, "App", lambda: made)
    assert main() == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("headgate: ")
    assert said in line
    assert "jsii" not in line
