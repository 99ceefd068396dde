"""Acknowledged findings of cdk-nag, each with its reason at the construct."""

from __future__ import annotations

from typing import Any, cast

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct, IConstruct

_PACK = "AwsSolutions"


def acknowledge(construct: IConstruct, rule: str, reason: str) -> None:
    """Acknowledge one finding of the pack AwsSolutions, with the reason.

    It has no effect on the template, and none where cdk-nag doesn't run.

    Args:
        construct: the very construct with the finding: an acknowledgement covers all below it.
        rule: the rule's short name, with its finding if it has any, such as
            ``"IAM5[Resource::*]"``.
            https://github.com/cdklabs/cdk-nag/blob/main/RULES.md
        reason: the reason why it is intended.
    """
    known = cdk.Acknowledgment(id=f"{_PACK}::{_PACK}-{rule}", reason=reason)
    cdk.Validations.of(construct).acknowledge(known)


def acknowledge_wildcard(grantee: iam.IGrantable, resource: str, reason: str) -> None:
    """Acknowledge that ``grantee`` was granted access to a pattern of resources.

    Args:
        grantee: a role, or a construct that has one of this CDK app; principals that are no
            constructs aren't checked.
        resource: the pattern, as granted.
        reason: the reason why no narrower one would do.
    """
    principal = grantee.grant_principal
    # A role that exists is known by its interface alone, as a grantee.
    holder = principal if isinstance(principal, Construct) else cast("IConstruct", grantee)
    if hasattr(holder, "node"):
        text = _flat(cdk.Stack.of(holder).resolve(resource))
        acknowledge(holder, f"IAM5[Resource::{text}]", reason)


def _flat(resolved: Any) -> str:
    """Return an ARN as cdk-nag's findings show it: ``<Bucket.Arn>/payloads/*``."""
    match resolved:
        case {"Fn::Join": [delimiter, parts]}:
            return str(delimiter).join(_flat(part) for part in parts)
        case {"Fn::GetAtt": [name, attribute]}:
            return f"<{name}.{attribute}>"
        case {"Ref": name}:
            return f"<{name}>"
    return str(resolved)
