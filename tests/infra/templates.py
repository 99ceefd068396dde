"""Readers of CloudFormation templates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk.assertions import Template

from headgate import App
from headgate.infra.stack import HeadgateStack
from headgate.jobs.deployment.deployment import Deployment
from tests.infra.conftest import ELSEWHERE, NO_BUNDLING

Properties = Mapping[str, Any]


def synthesized(app: App, deployment: Deployment = ELSEWHERE) -> Mapping[str, Any]:
    """Return the template of an app's stack, without workers unless the deployment has some."""
    assembly = cdk.App(context=NO_BUNDLING)
    return template_of(HeadgateStack(assembly, "Stack", app=app, deployment=deployment))


def template_of(stack: cdk.Stack) -> Mapping[str, Any]:
    """Return the template of a stack."""
    return dict(Template.from_stack(stack).to_json())


def resources(template: Mapping[str, Any], kind: str, within: str = "") -> dict[str, Properties]:
    """Return the properties of each resource of a type, by logical id.

    ``within`` is the part of the system that they belong to, such as ``JobsBridge``.
    """
    return {
        logical_id: resource["Properties"]
        for logical_id, resource in template["Resources"].items()
        if resource["Type"] == kind and logical_id.startswith(within)
    }


def queues(template: Mapping[str, Any]) -> dict[str, Properties]:
    """Return the properties of each queue, by physical name."""
    return {each["QueueName"]: each for each in resources(template, "AWS::SQS::Queue").values()}


def name_of(template: Mapping[str, Any], arn: Any) -> str:
    """Return the physical name of the queue or table of an ARN, else the logical id.

    ARNs are references (``Fn::GetAtt``) or texts joined from parts, with the name at the end.
    """
    match arn:
        case {"Fn::GetAtt": [logical_id, "Arn"]}:
            properties = template["Resources"][logical_id]["Properties"]
            return str(properties.get("QueueName") or properties.get("TableName") or logical_id)
        case {"Fn::Join": ["", [*_, last]]}:
            return str(last).removeprefix(":")
    raise AssertionError(f"not an ARN: {arn}")


def statements(template: Mapping[str, Any], within: str = "") -> dict[str, list[Properties]]:
    """Return the statements of each role's own policies, by the principal that may assume the role.

    The part of the system must have one role per service or principal.
    """
    return {
        role["AssumeRolePolicyDocument"]["Statement"][0]["Principal"]["Service"]: [
            statement
            for policy in role["Policies"]
            for statement in policy["PolicyDocument"]["Statement"]
        ]
        for role in resources(template, "AWS::IAM::Role", within).values()
    }


def listed(value: Any) -> Sequence[Any]:
    """Return a list: IAM writes a list of one as its item."""
    return value if isinstance(value, list) else [value]
