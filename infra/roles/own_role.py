"""The roles of Headgate's own functions and schedules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import aws_iam as iam
from constructs import Construct

from headgate.infra.roles.lengths import fits_inline, parts_of


def own_role(
    scope: Construct,
    construct_id: str,
    service: str,
    policy: str,
    statements: Sequence[iam.PolicyStatement],
    conditions: Mapping[str, str] | None = None,
) -> iam.Role:
    """Return a role of a service's, which never exists without its permissions.

    They are one inline policy of that name or, where it would be too long, managed policies that
    the role is created with.
    """
    whole = iam.PolicyDocument(statements=list(statements))
    fits = fits_inline(whole)
    role = iam.Role(
        scope,
        construct_id,
        assumed_by=iam.ServicePrincipal(
            service, conditions={"StringEquals": dict(conditions)} if conditions else None
        ),
        inline_policies={policy: whole} if fits else None,
    )
    for number, document in enumerate(() if fits else parts_of(whole), start=1):
        # Below the role, whose acknowledgements for cdk-nag cover them; it refers to them.
        role.add_managed_policy(
            iam.ManagedPolicy(
                role,
                f"Policy{number}",
                description=f"Part {number} of the policy {policy}",
                document=document,
            )
        )
    return role
