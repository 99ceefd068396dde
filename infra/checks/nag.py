"""cdk-nag for a CDK app: AWS's rules for solutions, checked at every synthesis."""

from __future__ import annotations

import aws_cdk as cdk


def add_nag(assembly: cdk.App) -> None:
    """Check the rules of AwsSolutions at synthesis, which fails on any finding.

    Intended findings are acknowledged at their constructs (`infra.data.nag_suppressions`).
    """
    # Imported here: a CDK app of a user's own around a `JobSystem` may do without it.
    from cdk_nag import AwsSolutionsChecks

    cdk.Validations.of(assembly).add_plugins(AwsSolutionsChecks(assembly, verbose=True))
