"""cfn-lint, which knows CloudFormation's own schemas of all resources, finds no error."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import aws_cdk as cdk
import pytest

from headgate import Encryption, Signing
from headgate.infra.checks.nag import add_nag
from headgate.infra.stack import HeadgateStack
from headgate.jobs.deployment.deployment import Deployment
from tests.infra.complete import Complete, nag_findings, nag_report
from tests.infra.conftest import NO_BUNDLING
from tests.infra.everything import DEPLOYMENT, ON_AWS, everything
from tests.infra.fargate.consoles import CDK_JSON, Granting
from tests.infra.templates import template_of

REGIONS = ("us-east-1", "eu-central-1")

OF_CDK = "W3005"
"""A dependency that is declared and implied as well: CDK's habit, and harmless."""


def linted(*templates: Path) -> tuple[int, str]:
    """Return cfn-lint's exit code and its output."""
    command = [Path(sys.executable).with_name("cfn-lint"), *templates]
    options = ["--regions", *REGIONS, "--ignore-checks", OF_CDK]
    done = subprocess.run([*command, *options], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory, complete: Complete) -> Path:
    """Write the template of a stack with everything on."""
    path = tmp_path_factory.mktemp("lint") / "everything.template.json"
    path.write_text(json.dumps(complete.template))
    return path


def test_nothing_is_found_in_a_stack_with_everything_on(written: Path, tmp_path: Path) -> None:
    stack = cdk.Stack()
    Granting(stack, CDK_JSON)  # the console, which no network of the stack's own has
    console = tmp_path / "console.template.json"
    console.write_text(json.dumps(template_of(stack)))
    assert linted(written, console) == (0, "")


@pytest.mark.parametrize(
    "deployment",
    [replace(DEPLOYMENT, nested=("jobs", "mail")), DEPLOYMENT.as_standby()],
    ids=["nested", "standby"],
)
def test_nothing_is_found_in_a_stack_that_signs_and_seals(
    tmp_path: Path, deployment: Deployment
) -> None:
    assembly = cdk.App(context=NO_BUNDLING, outdir=str(tmp_path))
    app = everything(encryption=Encryption(), signing=Signing(), records="full")
    HeadgateStack(assembly, "Sealed", app=app, **{**ON_AWS, "deployment": deployment})
    add_nag(assembly)
    assert nag_findings(nag_report(assembly)) == set()
    templates = sorted(tmp_path.glob("*.template.json"))
    assert len(templates) == 1 + len(deployment.nested)
    assert linted(*templates) == (0, "")


def test_a_number_beyond_a_limit_of_aws_is_found(written: Path, tmp_path: Path) -> None:
    template = json.loads(written.read_text())
    [queue, *_] = [
        resource["Properties"]
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::SQS::Queue"
    ]
    queue["MessageRetentionPeriod"] = 15 * 24 * 3600
    broken = tmp_path / "broken.template.json"
    broken.write_text(json.dumps(template))

    code, said = linted(broken)

    assert code != 0
    assert "MessageRetentionPeriod" in said or "1209600" in said
