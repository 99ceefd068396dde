"""A cloud assembly as ``cdk synth`` makes it, with functions that run on this machine."""

from __future__ import annotations

import json
from pathlib import Path

import aws_cdk as cdk
import pytest

from infra import bundling
from infra.app import add_stack

_ROOT = Path(__file__).parents[2]


def synthesize_for_this_machine(directory: Path) -> str:
    """Synthesize the app that ``cdk.json`` names into ``directory``; returns its stack's name.

    MiniStack runs functions in processes of this machine, where binaries for Lambda's don't load.
    """
    context = json.loads((_ROOT / "cdk.json").read_text())["context"]
    assembly = cdk.App(outdir=str(directory), context=context)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bundling, "for_lambda", bundling.for_this_machine)
        stack = add_stack(assembly)
        assembly.synth()
    return stack.stack_name
