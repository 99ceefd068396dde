"""Policies are complete, short enough for IAM, and name real resources."""

from __future__ import annotations

import json

import pytest

from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.errors import ConfigurationError
from headgate.ops.export import policies
from headgate.ops.export.policies import (
    keda_document,
    partition_of,
    policy_files,
    resolved,
)
from tests.support.policies import allowed, statement
from tests.unit.ops.export.shop import ACCOUNT, GROUPS, LETTERS, REGION, moved_in, target

SQS = f"arn:aws:sqs:{REGION}:{ACCOUNT}"


@pytest.mark.parametrize(
    ("region", "partition"),
    [("eu-central-1", "aws"), ("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov")],
)
def test_arns_begin_with_the_partition_of_the_region(region: str, partition: str) -> None:
    assert partition_of(region) == partition
    joined = {"Fn::Join": ["", ["arn:", {"Ref": "AWS::Partition"}, ":s3:::shop"]]}
    assert resolved([joined], partition_of(region)) == [f"arn:{partition}:s3:::shop"]


def test_a_reference_that_only_a_stack_knows_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="known in a stack alone"):
        resolved({"Resource": {"Fn::GetAtt": ["Queue", "Arn"]}}, "aws")


def test_keda_may_count_the_jobs_of_all_groups_and_nothing_else() -> None:
    [only] = keda_document(target())["Statement"]
    assert only["Action"] == "sqs:GetQueueAttributes"
    topology = target().app.topology
    served = [queue for group in GROUPS for queue in group.selection.of(topology)]
    assert only["Resource"] == sorted(f"{SQS}:{queue.name}" for queue in served)


def test_each_role_has_its_files_with_numbers_from_the_second_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    granted = {
        f"shop-prod-work-urgent-{REGION}": {"Statement": [statement(3)]},
        f"shop-prod-work-rest-{REGION}": {"Statement": [statement(100)]},
    }
    monkeypatch.setattr(policies, "synthesized_policies", lambda *_, **__: granted)
    made = {each.name: json.loads(each.text) for each in policy_files(target())}
    assert list(made) == [
        "shop-prod-urgent-policy.json",
        "shop-prod-rest-policy.json",
        "shop-prod-rest-policy-2.json",
        "shop-prod-keda-policy.json",
    ]
    assert {each["Version"] for each in made.values()} == {"2012-10-17"}


def test_keda_counts_a_queue_of_another_account_by_its_own_arn() -> None:
    moved = target(app=moved_in(), deployment=Deployment())
    assert {arn for _, arn in allowed(keda_document(moved))} == {f"{SQS}:orders", LETTERS}
