"""Findings of cdk-nag that are meant to be so, each with its reason beside the construct."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import IConstruct

_PACK = "AwsSolutions"


def acknowledge(construct: IConstruct, rule: str, reason: str) -> None:
    """Say of one finding of the pack AwsSolutions why it stands.

    It has no effect on the template, nor where cdk-nag doesn't run.

    Args:
        construct: what it was found in, and nothing above: an acknowledgement covers all below.
        rule: the rule's short name with its finding if it has any, such as
            ``"IAM5[Resource::*]"``.
            https://github.com/cdklabs/cdk-nag/blob/main/RULES.md
        reason: why it is meant to be so.
    """
    known = cdk.Acknowledgment(id=f"{_PACK}::{_PACK}-{rule}", reason=reason)
    cdk.Validations.of(construct).acknowledge(known)
