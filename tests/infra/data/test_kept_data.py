"""The data of a stage that matters outlives its stack, and nothing outlives a failed creation."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest

from headgate import App, Encryption, Signing, cron
from headgate.infra.stack import HeadgateStack
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.removals import removals
from tests.infra.conftest import NO_BUNDLING, Params
from tests.infra.templates import queues, template_of

BUCKET, GROUP = "AWS::S3::Bucket", "AWS::Scheduler::ScheduleGroup"
KEY, ALIAS = "AWS::KMS::Key", "AWS::KMS::Alias"
QUEUE, SECRET = "AWS::SQS::Queue", "AWS::SecretsManager::Secret"
TABLE, EMPTIES = "AWS::DynamoDB::GlobalTable", "Custom::S3AutoDeleteObjects"
HOLDERS = (ALIAS, BUCKET, GROUP, KEY, QUEUE, SECRET, TABLE)

NOT_DATA = ("JobsAlertsKey", "JobsSweepGroup")
"""A key that nothing is stored under, and a group with the sweep's own schedule alone."""


def stack_of(stage: str | None, **fields: Any) -> cdk.Stack:
    app = App("shop", stage=stage, encryption=Encryption(), signing=Signing())
    app.define("report", Params, schedule=cron("0 8 * * ? *"))
    deployment = Deployment(workers=(), **fields)
    return HeadgateStack(
        cdk.App(context=NO_BUNDLING), "Stack", app=app, deployment=deployment, app_path="shop:app"
    )


@pytest.fixture(scope="module")
def kept() -> Mapping[str, Any]:
    return template_of(stack_of("prod"))


@pytest.fixture(scope="module")
def thrown_away() -> Mapping[str, Any]:
    return template_of(stack_of("dev"))


def holders(template: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {
        name: each
        for name, each in template["Resources"].items()
        if each["Type"] in HOLDERS and not name.startswith(NOT_DATA)
    }


def test_what_holds_data_is_retained_unless_its_creation_is_rolled_back(
    kept: Mapping[str, Any],
) -> None:
    found = holders(kept)
    assert {each["Type"] for each in found.values()} == set(HOLDERS)
    assert len(queues(kept)) == sum(each["Type"] == QUEUE for each in found.values())
    for name, each in found.items():
        policies = each["DeletionPolicy"], each["UpdateReplacePolicy"]
        assert policies == ("RetainExceptOnCreate", "Retain"), name


def test_a_stage_to_throw_away_takes_all_of_it_along_what_the_bucket_holds_included(
    thrown_away: Mapping[str, Any],
) -> None:
    found = holders(thrown_away)
    assert {each["DeletionPolicy"] for each in found.values()} == {"Delete"}
    [bucket] = [name for name, each in found.items() if each["Type"] == BUCKET]
    [emptied] = [
        each["Properties"]["BucketName"]
        for each in thrown_away["Resources"].values()
        if each["Type"] == EMPTIES
    ]
    assert emptied == {"Ref": bucket}


def test_nothing_empties_the_bucket_of_a_stage_that_keeps_its_data(
    kept: Mapping[str, Any],
) -> None:
    assert EMPTIES not in {each["Type"] for each in kept["Resources"].values()}


def test_both_have_the_same_data_under_the_same_names(
    kept: Mapping[str, Any], thrown_away: Mapping[str, Any]
) -> None:
    assert holders(kept).keys() == holders(thrown_away).keys()


def test_protection_is_of_the_stack_and_of_the_table(kept: Mapping[str, Any]) -> None:
    stack = stack_of("prod", protected=True)
    assert stack.termination_protection is True
    assert stack_of("prod").termination_protection is False
    for template, protected in ((template_of(stack), True), (kept, False)):
        [table] = [each for each in holders(template).values() if each["Type"] == TABLE]
        [replica] = table["Properties"]["Replicas"]
        assert replica.get("DeletionProtectionEnabled", False) is protected


def test_the_removal_of_any_of_it_is_noticed(
    kept: Mapping[str, Any], thrown_away: Mapping[str, Any]
) -> None:
    for template, stays in ((kept, True), (thrown_away, False)):
        gone = removals(template, {"Resources": {}})
        found = [each for each in gone if each.name.startswith("shop")]  # not the sweep's group
        assert {each.kind for each in found} == {
            *("bucket", "queue", "schedule group", "secret", "table")
        }
        assert {each.kept for each in found} == {stays}
        assert removals(template, template) == []


def test_the_stack_policy_of_the_docs_holds_all_that_holds_data_and_nothing_else(
    kept: Mapping[str, Any],
) -> None:
    page = (Path(__file__).parents[3] / "docs" / "deploy.md").read_text(encoding="utf-8")
    [written] = re.findall(r"<!-- stack-policy -->\n```json\n(.+?)```", page, re.DOTALL)
    allowed, denied = json.loads(written)["Statement"]
    assert (allowed["Effect"], allowed["Action"]) == ("Allow", "Update:*")
    assert (denied["Effect"], denied["Action"]) == ("Deny", ["Update:Delete", "Update:Replace"])
    assert allowed["Resource"] == denied["Resource"] == "*"
    types = denied["Condition"]["StringEquals"]["ResourceType"]
    assert types == sorted({each["Type"] for each in holders(kept).values()})


def test_the_import_file_of_the_docs_has_all_that_a_deployment_does_not_import_by_itself(
    kept: Mapping[str, Any],
) -> None:
    page = (Path(__file__).parents[3] / "docs" / "deploy.md").read_text(encoding="utf-8")
    [written] = re.findall(r"<!-- existing.json -->\n```json\n(.+?)```", page, re.DOTALL)
    named: dict[str, dict[str, str]] = json.loads(written)
    found = {name: kept["Resources"][name] for name in named}
    # https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/, "Return values"
    assert {(found[name]["Type"], key) for name in named for key in named[name]} == {
        (ALIAS, "AliasName"),
        (KEY, "KeyId"),
        (QUEUE, "QueueUrl"),
        (SECRET, "Id"),
    }
    held = {each["Type"] for each in holders(kept).values()}
    assert held - {each["Type"] for each in found.values()} == {BUCKET, GROUP, TABLE}
    for name, identified in named.items():
        own = found[name]["Properties"]
        [physical] = {"AliasName", "Name", "QueueName"} & own.keys() or [None]
        assert physical is None or own[physical] in next(iter(identified.values()))
