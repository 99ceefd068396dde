"""One synthesis of the stack with everything on, for all tests that read it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aws_cdk as cdk

from headgate.infra.checks.nag import add_nag
from headgate.infra.stack import HeadgateStack
from tests.infra.conftest import NO_BUNDLING
from tests.infra.everything import ON_AWS, everything


@dataclass(frozen=True, slots=True, kw_only=True)
class Complete:
    """The stack `tests.infra.everything` describes, its template, and cdk-nag's report on it."""

    stack: HeadgateStack
    template: Mapping[str, Any]
    nag: Mapping[str, Any]


def synthesize(folder: Path) -> Complete:
    """Synthesize the stack into a folder."""
    assembly = cdk.App(context=NO_BUNDLING, outdir=str(folder))
    add_nag(assembly)
    stack = HeadgateStack(assembly, "Everything", app=everything(), **ON_AWS)
    nag = nag_report(assembly)
    return Complete(stack=stack, template=read_template(folder, stack), nag=nag)


def nag_report(assembly: cdk.App) -> Mapping[str, Any]:
    """Return cdk-nag's report on a synthesis, whether or not it failed the synthesis."""
    with contextlib.suppress(RuntimeError):  # jsii's form of CDK's ValidationFailed
        assembly.synth()
    written = json.loads((Path(assembly.outdir) / "validation-report.json").read_text())
    [nag] = [each for each in written["pluginReports"] if each["pluginName"] == "AwsSolutions"]
    return dict(nag)


def nag_findings(report: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Return the violated rules, each with the construct that violates it."""
    return {
        (violation["ruleName"], where["constructPath"])
        for violation in report["violations"]
        for where in violation["violatingConstructs"]
    }


def read_template(folder: Path, stack: cdk.Stack) -> Mapping[str, Any]:
    """Return the template of a stack that has been synthesized into a folder."""
    found: dict[str, Any] = json.loads((folder / stack.template_file).read_text())
    return found
