"""cdk-nag over a CDK app: AWS's rules for solutions, checked whenever it is synthesized."""

from __future__ import annotations

import aws_cdk as cdk


def add_nag(assembly: cdk.App) -> None:
    """Have the rules of AwsSolutions checked at synthesis, which fails with what they find.

    What is meant to be so is acknowledged where it is made (`infra.data.nag_suppressions`).
    """
    # Imported here: who builds a CDK app of their own around a `JobSystem` may do without.
    from cdk_nag import AwsSolutionsChecks

    cdk.Validations.of(assembly).add_plugins(AwsSolutionsChecks(assembly, verbose=True))
