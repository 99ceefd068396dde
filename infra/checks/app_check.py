"""Warnings of ``headgate check`` at synthesis."""

from __future__ import annotations

from collections.abc import Iterable

from aws_cdk import Annotations
from constructs import IConstruct

from headgate.jobs.errors import Fault


def warn(construct: IConstruct, faults: Iterable[Fault]) -> None:
    """Show faults as warnings of CDK's command line.

    ``cdk synth --strict`` turns them into errors. To acknowledge one, pass its id,
    ``headgate:RULE:WHERE``, to ``Annotations.of(...).acknowledge_warning``.
    """
    for fault in faults:
        identity = f"headgate:{fault.rule}:{fault.where}"
        Annotations.of(construct).add_warning_v2(identity, str(fault))
