"""cdk-nag finds nothing in the deployed stack, and its acknowledgements hide nothing else."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import aws_cdk as cdk
import pytest
from aws_cdk import aws_sqs as sqs

from headgate.infra.checks.nag import add_nag
from headgate.infra.data.nag_suppressions import acknowledge
from tests.infra.complete import Complete, nag_findings, nag_report
from tests.infra.conftest import NO_BUNDLING


@pytest.fixture
def assembly(tmp_path: Path) -> cdk.App:
    assembly = cdk.App(context=NO_BUNDLING, outdir=str(tmp_path))
    add_nag(assembly)
    return assembly


def findings(assembly: cdk.App) -> set[tuple[str, str]]:
    return nag_findings(nag_report(assembly))


def test_a_stack_with_everything_on_has_no_findings(complete: Complete) -> None:
    assert nag_findings(complete.nag) == set()


def test_what_is_acknowledged_is_so_where_it_was_found_and_with_a_reason(
    complete: Complete,
) -> None:
    known = complete.nag["suppressedViolations"]
    assert known
    for finding in known:
        [where] = finding["violatingConstructs"]
        found_in = PurePosixPath(where["constructPath"])
        nearest = [found_in, found_in.parent]
        if found_in.parent.name == "DefaultPolicy":  # made by CDK for grants to a role
            nearest.append(found_in.parent.parent)
        assert PurePosixPath(finding["acknowledgedAt"]) in nearest
        assert len(finding["reason"].split()) > 5


def test_a_construct_that_breaks_a_rule_fails_the_synthesis(assembly: cdk.App) -> None:
    stack = cdk.Stack(assembly, "Stack")
    sqs.Queue(stack, "Own")
    with pytest.raises(RuntimeError, match="ValidationFailed"):
        assembly.synth()
    assert findings(assembly) == {
        ("AwsSolutions-SQS3", "Stack/Own/Resource"),
        ("AwsSolutions-SQS4", "Stack/Own/Resource"),
    }


def test_an_acknowledgement_is_of_one_rule_and_one_construct(assembly: cdk.App) -> None:
    stack = cdk.Stack(assembly, "Stack")
    acknowledge(sqs.Queue(stack, "Own"), "SQS3", "It is a dead-letter queue")
    sqs.Queue(stack, "Other", enforce_ssl=True)
    assert findings(assembly) == {
        ("AwsSolutions-SQS4", "Stack/Own/Resource"),
        ("AwsSolutions-SQS3", "Stack/Other/Resource"),
    }
