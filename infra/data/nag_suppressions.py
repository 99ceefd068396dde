"""Findings of cdk-nag that are meant to be so, each with its reason beside the construct."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct, IConstruct

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


def acknowledge_wildcard(grantee: iam.IGrantable, resource: str, reason: str) -> None:
    """Say why ``grantee`` was granted something on a pattern of resources.

    Args:
        grantee: a role of this CDK app, or what has one; of others nothing is checked.
        resource: the pattern, as it was granted.
        reason: why no narrower one would do.
    """
    principal = grantee.grant_principal
    if isinstance(principal, Construct):
        text = _flat(cdk.Stack.of(principal).resolve(resource))
        acknowledge(principal, f"IAM5[Resource::{text}]", reason)


def _flat(resolved: Any) -> str:
    """An ARN as cdk-nag's findings have it: ``<Bucket.Arn>/payloads/*``."""
    match resolved:
        case {"Fn::Join": [delimiter, parts]}:
            return str(delimiter).join(_flat(part) for part in parts)
        case {"Fn::GetAtt": [name, attribute]}:
            return f"<{name}.{attribute}>"
        case {"Ref": name}:
            return f"<{name}>"
    return str(resolved)
