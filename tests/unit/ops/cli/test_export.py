"""``headgate export``."""

from __future__ import annotations

import json
import re
import shlex
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from headgate import App
from headgate.jobs.schedules.routes import Routes
from headgate.ops.export import files, functions, policies
from tests.support.command_line import CommandLine
from tests.unit.ops.export.templates import template

APP = "cli_shop:app"
ACCOUNT, REGION = "111122223333", "eu-central-1"
PLACE = ("--account", ACCOUNT, "--region", REGION)
PAGE = Path(__file__).parents[4] / "docs" / "elsewhere.md"


@pytest.fixture(autouse=True)
def without_cdk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace what CDK synthesizes, which takes seconds; `tests/infra/exported` has the real."""
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.setattr(files, "synthesized_template", lambda *_: template())
    granted: dict[str, Any] = {f"shop-test-work-workers-{REGION}": {"Statement": []}}
    monkeypatch.setattr(policies, "synthesized_policies", lambda *_, **__: granted)
    monkeypatch.setattr(
        functions, "build_functions", lambda _app, folder: (folder / "x.py").write_text("")
    )


def stage(here: Path, **settings: Any) -> None:
    """Write a ``cdk.json`` with one stage, of which nobody needs to be told."""
    stages = {"test": {"keep_data": False, **settings}}
    (here / "cdk.json").write_text(json.dumps({"context": {"headgate:stages": stages}}))


def test_manifests_and_policies_are_written_and_named(here: Path, headgate: CommandLine) -> None:
    stage(here, account=ACCOUNT, region=REGION, secrets={"KEY": "ssm:/shop/key"})
    ended = headgate("export", "kubernetes", "--image", "shop:1", "--out", "k8s", app=APP)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines() == [
        "wrote k8s/shop-test.yaml",
        "wrote k8s/shop-test-workers-policy.json",
        "wrote k8s/shop-test-keda-policy.json",
        "shop-test-workers needs KEY, which ECS would read from ssm:/shop/key.",
    ]
    text = (here / "k8s" / "shop-test.yaml").read_text()
    assert "#   headgate -A cli_shop:app export kubernetes --image shop:1 --out k8s\n" in text
    kinds = [each["kind"] for each in yaml.safe_load_all(text)]
    assert kinds.count("Deployment") == kinds.count("ScaledObject") == 1


def test_printed_manifests_are_manifests_alone(here: Path, headgate: CommandLine) -> None:
    stage(here)
    command = ("export", "kubernetes", "--image", "shop:1", *PLACE, "--out", "-")
    ended = headgate(*command, app=APP)
    assert (ended.code, ended.err) == (0, "")
    assert [each["apiVersion"] for each in yaml.safe_load_all(ended.out)]
    assert not (here / "-").exists()


@pytest.mark.parametrize("kind", ["terraform", "cloudformation"])
def test_infrastructure_is_printed_as_json(here: Path, headgate: CommandLine, kind: str) -> None:
    stage(here)
    ended = headgate("export", kind, "--out", "-", app=APP)
    assert (ended.code, ended.err) == (0, "")
    assert json.loads(ended.out)


@pytest.mark.parametrize(
    "command", [("kubernetes", "--image", "shop:1"), ("compose",), ("systemd",)]
)
def test_workers_are_exported_with_what_the_stage_says_to_exist(
    here: Path, headgate: CommandLine, command: tuple[str, ...]
) -> None:
    stage(here, existing={"table": "their-table"})
    ended = headgate("export", *command, "--out", "-", *PLACE, app=APP)
    assert ended.code == 0
    assert "HEADGATE_EXISTING" in ended.out
    assert "their-table" in ended.out


@pytest.mark.parametrize("option", [(), ("--cdk-json", "stages/cdk.json")])
def test_the_bridge_is_exported_with_the_queues_that_the_stage_says_to_exist(
    here: Path, headgate: CommandLine, monkeypatch: pytest.MonkeyPatch, option: tuple[str, ...]
) -> None:
    def write_routes(app: App, folder: Path) -> None:
        (folder / "routes.json").write_text(Routes.of(app).to_text())

    monkeypatch.setattr(functions, "build_functions", write_routes)
    folder = here / "stages" if option else here
    folder.mkdir(exist_ok=True)
    stage(folder, existing={"queues": {"jobs": {"normal": {"queue": "orders"}}}})

    ended = headgate("export", "functions", *option, "--out", "infra", app=APP)
    assert (ended.code, ended.err) == (0, "")
    with zipfile.ZipFile(here / "infra" / "functions.zip") as found:
        routes = Routes.from_text(found.read("routes.json"))
    assert routes.groups == {"orders": "jobs"}


def test_what_is_left_out_is_said(here: Path, headgate: CommandLine) -> None:
    consumer = {"name": "mailer", "handler": "x.handler", "timeout": 20}
    stage(here, workers=[], consumers=[consumer])
    ended = headgate("export", "terraform", "--out", "infra", app=APP)
    assert ended.code == 0, ended.err
    assert ended.out.splitlines() == [
        "wrote infra/shop-test.tf.json",
        "Left out: workers, the console, alarms, the dashboard and the budget.",
        "Left out: functions that run jobs (mailer), which CDK alone deploys.",
    ]


def test_units_are_said_to_leave_out_sidecars_which_other_exports_have(
    here: Path, headgate: CommandLine
) -> None:
    sidecars = [{"name": "otel", "image": "otel:1"}, {"name": "vector", "image": "vector:1"}]
    stage(here, workers=[{"name": "mail", "sidecars": sidecars}])
    note = "Left out: sidecars of shop-test-mail (otel, vector), which are containers."
    units = headgate("export", "systemd", "--out", "units", *PLACE, app=APP)
    assert units.out.splitlines() == ["wrote units/shop-test-mail.service", note]
    assert f"# {note}\n" in (here / "units" / "shop-test-mail.service").read_text()
    composed = headgate("export", "compose", "--out", "-", *PLACE, app=APP).out
    assert "image: otel:1" in composed
    assert "Left out" not in composed


def test_a_file_of_somebody_elses_is_replaced_by_force_alone(
    here: Path, headgate: CommandLine
) -> None:
    stage(here)
    (here / "compose.yaml").write_text("services: {}\n")
    command = ("export", "compose", *PLACE, "--out", ".")
    refused = headgate(*command, app=APP)
    assert refused.code == 2
    assert "compose.yaml, which `headgate export` has not written" in refused.err
    assert (here / "compose.yaml").read_text() == "services: {}\n"
    assert headgate(*command, "--force", app=APP).code == 0
    assert headgate(*command, app=APP).code == 0, "it is the command's own now"


def test_without_a_place_on_aws_nothing_is_written(here: Path, headgate: CommandLine) -> None:
    stage(here, region=REGION)
    ended = headgate("export", "systemd", "--out", "units", app=APP)
    assert ended.code == 2
    assert "--account 111122223333 --region eu-central-1" in ended.err
    assert not (here / "units").exists()


def test_a_malformed_account_is_refused(here: Path, headgate: CommandLine) -> None:
    stage(here)
    options = ("--account", "1234", "--region", REGION)
    ended = headgate("export", "compose", *options, "--out", "-", app=APP)
    assert ended.code == 2
    assert "12 digits" in ended.err


def test_a_faulty_app_is_not_exported(here: Path, headgate: CommandLine) -> None:
    stage(here, workers=[{"priorities": ["low"]}])
    for kind in ("compose", "terraform"):
        place = PLACE if kind == "compose" else ()
        ended = headgate("export", kind, *place, "--out", "-", app=APP)
        assert ended.code == 2
        assert "none of the queues jobs has the priority low" in ended.err


def test_a_zip_is_written_and_not_printed(here: Path, headgate: CommandLine) -> None:
    stage(here)
    assert headgate("export", "functions", "--out", "infra", app=APP).code == 0
    assert (here / "infra" / "functions.zip").read_bytes()[:2] == b"PK"
    assert headgate("export", "functions", "--out", "-", app=APP).code == 2


def test_every_export_of_the_page_runs_as_it_is_written(here: Path, headgate: CommandLine) -> None:
    stage(here, account=ACCOUNT, region=REGION)
    typed = r"^\$ headgate -A shop\.app:app (export .*)$"
    lines = re.findall(typed, PAGE.read_text(), re.MULTILINE)
    for line in lines:
        ended = headgate(*shlex.split(line, comments=True), app=APP)
        assert (ended.code, ended.err) == (0, ""), line
    kinds = {line.split()[1] for line in lines}
    assert kinds == {
        *("kubernetes", "compose", "systemd", "terraform", "cloudformation", "functions"),
    }
