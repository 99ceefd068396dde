"""The template for CloudFormation needs no CDK to be deployed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.errors import ConfigurationError
from headgate.ops.export.cdk import synthesized_template
from headgate.ops.export.cloudformation import cloudformation_template, cloudformation_text
from headgate.ops.export.resources import Resource, resources_of
from tests.unit.ops.export.shop import ORIGIN, shop
from tests.unit.ops.export.templates import template


def rendered(**options: Any) -> Any:
    resources = resources_of(template(**options))
    return json.loads(cloudformation_text(resources, shop().topology, ORIGIN))


def test_resources_are_those_of_cdk_but_for_the_functions_code() -> None:
    made, synthesized = rendered()["Resources"], template()["Resources"]
    assert made["Queue"]["Properties"] == synthesized["Queue"]["Properties"]
    assert made["Queue"]["DeletionPolicy"] == "RetainExceptOnCreate"
    assert made["Queue"]["UpdateReplacePolicy"] == "RetainExceptOnCreate"
    code = {"S3Bucket": {"Ref": "FunctionsBucket"}, "S3Key": {"Ref": "FunctionsKey"}}
    assert made["Function"]["Properties"] == {
        **synthesized["Function"]["Properties"],
        "Code": code,
    }
    assert made["Function"]["DependsOn"] == ["Role"]


def test_the_zips_place_is_asked_for() -> None:
    made = rendered()
    assert {name: each["Type"] for name, each in made["Parameters"].items()} == {
        "FunctionsBucket": "String",
        "FunctionsKey": "String",
    }


def test_the_description_tells_the_origin() -> None:
    made = rendered()
    assert made["Description"].startswith("shop-prod, written by headgate 1.2.3: headgate export")
    assert len(made["Description"]) <= 1024


def test_outputs_have_names_that_cloudformation_accepts() -> None:
    made = rendered()["Outputs"]
    assert made["JobsHighUrl"]["Value"] == {"Ref": "Queue"}
    assert all(name.isalnum() for name in made)


def test_beyond_two_hundred_outputs_those_of_dead_letters_are_left_out() -> None:
    app = shop()
    for at in range(60):
        app.queue(f"q{at}", priorities=["high"])
    resources = {
        spec.name: Resource(
            logical_id=f"L{at}",
            path=("Queues", spec.name),
            kind="AWS::SQS::Queue",
            properties={"QueueName": spec.name},
            policies={},
        )
        for at, spec in enumerate(app.topology.queues)
    }
    dead = {
        spec.dlq_name: Resource(
            logical_id=f"D{at}",
            path=("Queues", spec.dlq_name),
            kind="AWS::SQS::Queue",
            properties={"QueueName": spec.dlq_name},
            policies={},
        )
        for at, spec in enumerate(app.topology.queues)
    }
    made = cloudformation_template({**resources, **dead}, app.topology, ORIGIN)
    assert 120 <= len(made["Outputs"]) <= 200
    assert not [name for name in made["Outputs"] if "DeadLetters" in name]


def test_without_node_it_is_said_that_it_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"Node 20 or newer.*no node on the PATH"):
        synthesized_template(shop(), Deployment())
