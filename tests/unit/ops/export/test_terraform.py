"""Terraform's configuration says what CloudFormation's template does, and nothing is dropped."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headgate.jobs.errors import ConfigurationError
from headgate.ops.export.resources import resources_of
from headgate.ops.export.terraform.document import terraform_configuration, terraform_text
from tests.unit.ops.export.shop import ORIGIN, shop
from tests.unit.ops.export.templates import template


def rendered(made: dict[str, Any] | None = None, **options: Any) -> Any:
    resources = resources_of(made or template(**options))
    return json.loads(terraform_text(resources, shop().topology, ORIGIN))


def changed(logical_id: str, **properties: Any) -> dict[str, Any]:
    """Return the template with other properties of a resource."""
    made = template()
    made["Resources"][logical_id]["Properties"].update(properties)
    return made


def test_a_queue_has_each_attribute_and_names_its_dead_letter_queue() -> None:
    queue = rendered()["resource"]["aws_sqs_queue"]["queues_jobs_high"]
    policy = json.loads(queue.pop("redrive_policy"))
    assert queue == {
        "name": "shop-prod-jobs-high",
        "visibility_timeout_seconds": 60,
        "lifecycle": {"prevent_destroy": True},
    }
    assert policy == {
        "deadLetterTargetArn": "${aws_sqs_queue.queues_jobs_high_dlq.arn}",
        "maxReceiveCount": 1000,
    }


def test_what_a_stage_throws_away_can_be_destroyed() -> None:
    made = rendered(kept=False)["resource"]
    assert "lifecycle" not in made["aws_sqs_queue"]["queues_jobs_high"]
    assert made["aws_s3_bucket"]["objects_bucket"]["force_destroy"] is True
    kept = rendered()["resource"]["aws_s3_bucket"]["objects_bucket"]
    assert "force_destroy" not in kept


def test_a_function_is_the_zip_and_waits_for_its_roles_permissions() -> None:
    made = rendered()["resource"]
    function = made["aws_lambda_function"]["bridge_function"]
    assert function["filename"] == "${var.functions_zip}"
    assert function["source_code_hash"] == "${filebase64sha256(var.functions_zip)}"
    assert function["role"] == "${aws_iam_role.bridge_role.arn}"
    assert function["depends_on"] == [
        "aws_iam_role.bridge_role",
        "aws_iam_role_policy.bridge_role_bridge",
    ]
    permission = made["aws_iam_role_policy"]["bridge_role_bridge"]
    assert permission["role"] == "${aws_iam_role.bridge_role.name}"
    assert "depends_on" not in permission
    [statement] = json.loads(permission["policy"])["Statement"]
    assert statement["Resource"] == "${aws_sqs_queue.queues_jobs_high.arn}"


def test_account_and_region_are_read_where_it_is_applied() -> None:
    made = rendered()
    assert made["resource"]["aws_s3_bucket"]["objects_bucket"]["bucket"] == (
        "shop-${data.aws_caller_identity.current.account_id}"
    )
    assert made["data"].keys() == {"aws_caller_identity", "aws_partition", "aws_region"}


def test_texts_are_no_templates_of_terraforms() -> None:
    made = rendered(changed("Function", Description="costs ${5} %{or} $6"))
    function = made["resource"]["aws_lambda_function"]["bridge_function"]
    assert function["description"] == "costs $${5} %%{or} $6"


def test_tags_are_a_map_and_those_of_cdk_are_left_out() -> None:
    assert rendered()["resource"]["aws_s3_bucket"]["objects_bucket"]["tags"] == {
        "headgate:app": "shop"
    }


def test_outputs_are_references() -> None:
    made = rendered()["output"]
    assert made["jobs_high_url"]["value"] == "${aws_sqs_queue.queues_jobs_high.url}"
    assert made["policy_submit_arn"]["value"] == "${aws_iam_policy.policy_submit.arn}"


def test_the_file_tells_its_origin_and_is_the_same_each_time() -> None:
    resources, topology = resources_of(template()), shop().topology
    made = terraform_configuration(resources, topology, ORIGIN)
    assert made["//"] == list(ORIGIN.lines)
    again = terraform_text(resources, topology, ORIGIN)
    assert terraform_text(resources, topology, ORIGIN) == again


@pytest.mark.parametrize(
    ("logical_id", "properties", "said"),
    [
        ("Queue", {"Colour": "red"}, r"Queue \(AWS::SQS::Queue\): the property Colour"),
        ("Bucket", {"Colour": "red"}, "the property Colour"),
        ("Function", {"Layers": []}, "the property Layers"),
        ("Queue", {"QueueName": {"Fn::Sub": "x"}}, "Fn::Sub can't be exported"),
        ("Queue", {"QueueName": {"Fn::GetAtt": ["Role", "RoleId"]}}, "the attribute RoleId"),
    ],
)
def test_what_is_not_known_is_refused_by_name(
    logical_id: str, properties: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        rendered(changed(logical_id, **properties))


def test_a_type_that_is_not_known_is_refused_by_name() -> None:
    made = template()
    made["Resources"]["Queue"]["Type"] = "AWS::Kinesis::Stream"
    with pytest.raises(ConfigurationError, match=r"AWS::Kinesis::Stream can't be exported"):
        rendered(made)
