"""An export has an app's data and functions, and nothing that CDK alone can make."""

from __future__ import annotations

import json
from typing import Any

from headgate.jobs.deployment.policy_parts import LONGEST_POLICY
from headgate.ops.export.resources import outputs_of, references, resources_of
from tests.unit.ops.export.shop import EXISTING, LETTERS, moved_in, shop
from tests.unit.ops.export.templates import template


def test_what_watches_and_what_helps_cdk_is_left_out() -> None:
    found = resources_of(template())
    assert list(found) == [
        *("Dead", "Queue", "Bucket", "BucketPolicy", "Role", "Function", "Submit"),
    ]


def test_nothing_refers_to_what_is_left_out() -> None:
    found = resources_of(template())
    for each in found.values():
        named = {*references(each.properties), *each.depends_on}
        assert {name for name in named if not name.startswith("AWS::")} <= found.keys()
    assert found["Function"].depends_on == ("Role",)
    [statement] = found["BucketPolicy"].properties["PolicyDocument"]["Statement"]
    assert statement["Effect"] == "Deny"
    assert found["Bucket"].properties["Tags"] == [{"Key": "headgate:app", "Value": "shop"}]


def test_paths_are_those_of_constructs_within_the_system() -> None:
    found = resources_of(template())
    assert found["Queue"].path == ("Queues", "jobs-high")
    assert found["Function"].path == ("Bridge", "Function")
    assert found["Submit"].path == ("Policy-submit",)


def test_a_resource_is_kept_where_its_stack_keeps_it() -> None:
    for kept in (True, False):
        assert resources_of(template(kept=kept))["Queue"].is_kept is kept
    assert not resources_of(template())["Role"].is_kept


def test_outputs_name_each_queue_the_bucket_and_the_policies() -> None:
    found = outputs_of(resources_of(template()), shop().topology)
    assert {name: each.value for name, each in found.items()} == {
        "jobs-high-url": {"Ref": "Queue"},
        "jobs-high-arn": {"Fn::GetAtt": ["Queue", "Arn"]},
        "jobs-high-dead-letters-url": {"Ref": "Dead"},
        "jobs-high-dead-letters-arn": {"Fn::GetAtt": ["Dead", "Arn"]},
        "bucket": {"Ref": "Bucket"},
        "policy-submit-arn": {"Ref": "Submit"},
    }


def test_a_policy_too_long_for_iam_becomes_several_by_the_length_of_real_arns() -> None:
    made = template()
    document = made["Resources"]["Submit"]["Properties"]["PolicyDocument"]
    document["Statement"][0]["Resource"] = [{"Fn::GetAtt": ["Queue", "Arn"]}] * 150

    found = resources_of(made)

    parts = [each for each in found.values() if each.kind == "AWS::IAM::ManagedPolicy"]
    assert [part.logical_id for part in parts] == ["Submit", "Submit2"]
    arn = "arn:aws:sqs:eu-central-1:111122223333:shop-prod-jobs-high"
    assert all(_length(part.properties["PolicyDocument"], arn) <= LONGEST_POLICY for part in parts)
    assert sum(len(_resources(part.properties)) for part in parts) == 150
    names = [part.properties["ManagedPolicyName"] for part in parts]
    assert len({json.dumps(name) for name in names}) == 2


def _length(document: Any, arn: str) -> int:
    text = json.dumps(document, separators=(",", ":"))
    return len(text.replace('{"Fn::GetAtt":["Queue","Arn"]}', f'"{arn}"'))


def _resources(properties: Any) -> list[Any]:
    return [
        resource
        for statement in properties["PolicyDocument"]["Statement"]
        for resource in statement["Resource"]
    ]


def test_outputs_name_what_exists_already_and_the_variable_for_all_of_it() -> None:
    found = {name: each.value for name, each in outputs_of({}, moved_in().topology).items()}
    account = {"Ref": "AWS::AccountId"}
    assert found.pop("existing") == EXISTING.to_text()
    place = ["arn:", {"Ref": "AWS::Partition"}, ":sqs:", {"Ref": "AWS::Region"}, ":", account]
    assert found.pop("orders-normal-arn") == {"Fn::Join": ["", [*place, ":", "orders"]]}
    assert found.pop("mail-normal-arn") == LETTERS
    assert json.dumps(found.pop("mail-normal-url")).endswith(
        '"/", "999999999999", "/", "letters"]]}'
    )
    assert set(found) == {
        *("orders-normal-url", "orders-normal-dead-letters-url", "orders-normal-dead-letters-arn"),
        *("table", "bucket"),
    }
    assert (found["table"], found["bucket"]) == ("their-table", "their-bucket")
