"""A cloud assembly as made by ``cdk synth``, with functions that run on this machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest

from headgate.infra.app import add_stack
from headgate.infra.functions import bundling, pip_install

_ROOT = Path(__file__).parents[2]


def synthesize_for_this_machine(directory: Path, deployment: Mapping[str, Any]) -> str:
    """Synthesize the app that ``cdk.json`` names into ``directory``; return its stack's name.

    MiniStack runs functions in processes of this machine, where binaries for Lambda's don't load.
    ``deployment`` overrides fields of ``cdk.json``.
    """
    context = json.loads((_ROOT / "cdk.json").read_text())["context"]
    context["headgate:deployment"] |= deployment
    assembly = cdk.App(outdir=str(directory), context=context)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bundling, "for_lambda", lambda _machine: pip_install.for_this_machine())
        stack = add_stack(assembly)
        assembly.synth()
    return stack.stack_name
