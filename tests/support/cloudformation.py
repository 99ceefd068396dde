"""A template with its intrinsic functions resolved, as CloudFormation would in one account.

https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/intrinsic-function-reference.html
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

ACCOUNT = "000000000000"  # the account of local servers, too
REGION = "us-east-1"

_PSEUDO = {
    "AWS::AccountId": ACCOUNT,
    "AWS::Partition": "aws",
    "AWS::Region": REGION,
    "AWS::StackName": "stack",
    "AWS::URLSuffix": "amazonaws.com",
}

_NAMES = {
    "AWS::CloudWatch::Alarm": ("AlarmName", "arn:aws:cloudwatch:{region}:{account}:alarm:{name}"),
    "AWS::DynamoDB::GlobalTable": (
        "TableName",
        "arn:aws:dynamodb:{region}:{account}:table/{name}",
    ),
    "AWS::ECS::Cluster": ("ClusterName", "arn:aws:ecs:{region}:{account}:cluster/{name}"),
    "AWS::Events::Rule": ("Name", "arn:aws:events:{region}:{account}:rule/{name}"),
    "AWS::IAM::Role": ("RoleName", "arn:aws:iam::{account}:role/{name}"),
    "AWS::KMS::Key": ("KeyId", "arn:aws:kms:{region}:{account}:key/{name}"),
    "AWS::Lambda::Function": ("FunctionName", "arn:aws:lambda:{region}:{account}:function:{name}"),
    "AWS::Logs::LogGroup": ("LogGroupName", "arn:aws:logs:{region}:{account}:log-group:{name}:*"),
    "AWS::S3::Bucket": ("BucketName", "arn:aws:s3:::{name}"),
    "AWS::SNS::Topic": ("TopicName", "arn:aws:sns:{region}:{account}:{name}"),
    "AWS::SQS::Queue": ("QueueName", "arn:aws:sqs:{region}:{account}:{name}"),
    "AWS::Scheduler::ScheduleGroup": (
        "Name",
        "arn:aws:scheduler:{region}:{account}:schedule-group/{name}",
    ),
}
"""For each type, the property that names a resource, and the pattern of its ARN."""

_REF_IS_ARN = {"AWS::SNS::Topic"}
_VARIABLE = re.compile(r"\$\{([^}!]+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """The resources of a template, by logical id, each with ``Type`` and ``Properties``."""

    resources: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def of_type(self, *kinds: str) -> dict[str, Mapping[str, Any]]:
        """Return the properties of all resources of these types, by logical id."""
        return {
            logical_id: resource.get("Properties", {})
            for logical_id, resource in self.resources.items()
            if resource["Type"] in kinds
        }


def resolve(template: Mapping[str, Any]) -> Resolved:
    """Resolve a template's intrinsic functions.

    Raises:
        ValueError: it uses a function that isn't known here, or refers to something missing.
    """
    worker = _Resolver(template["Resources"])
    return Resolved(resources={key: worker.value(each) for key, each in worker.resources.items()})


def arn_of(kind: str, name: str) -> str:
    """Return the ARN of a resource of that type and name."""
    return _NAMES[kind][1].format(region=REGION, account=ACCOUNT, name=name)


class _Resolver:
    def __init__(self, resources: Mapping[str, Any]) -> None:
        self.resources = resources
        self._functions: Mapping[str, Callable[[Any], Any]] = {
            "Fn::GetAZs": lambda _region: [f"{REGION}{letter}" for letter in "abc"],
            "Fn::GetAtt": self._attribute,
            "Fn::Join": lambda parts: parts[0].join(map(str, self.value(parts[1]))),
            "Fn::Select": lambda pair: self.value(pair[1])[int(pair[0])],
            "Fn::Split": lambda pair: str(self.value(pair[1])).split(pair[0]),
            "Fn::Sub": self._substituted,
            "Ref": self._reference,
        }

    def value(self, given: Any) -> Any:
        if isinstance(given, list):
            return [self.value(each) for each in given]
        if not isinstance(given, dict):
            return given
        [name, *others] = given or [""]
        if others or not (name == "Ref" or name.startswith("Fn::")):
            return {key: self.value(each) for key, each in given.items()}
        if name not in self._functions:
            raise ValueError(f"{name} is not known here")
        return self._functions[name](given[name])

    def _reference(self, name: str) -> str:
        if name in _PSEUDO:
            return _PSEUDO[name]
        kind, physical = self._named(name)
        if kind == "AWS::SQS::Queue":
            return f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{physical}"
        return self._arn(name) if kind in _REF_IS_ARN else physical

    def _attribute(self, given: Any) -> str:
        name, attribute = given if isinstance(given, list) else given.split(".", 1)
        kind, physical = self._named(name)
        if attribute in ("Arn", "TopicArn") and kind in _NAMES:
            return self._arn(name)
        return physical if attribute.endswith("Name") else f"{physical}.{attribute}"

    def _arn(self, logical_id: str) -> str:
        kind, physical = self._named(logical_id)
        return arn_of(kind, physical)

    def _named(self, logical_id: str) -> tuple[str, str]:
        if logical_id not in self.resources:
            raise ValueError(f"the template has no resource {logical_id!r}")
        resource = self.resources[logical_id]
        naming, _ = _NAMES.get(resource["Type"], ("", ""))
        name = self.value(resource.get("Properties", {}).get(naming, logical_id))
        return resource["Type"], str(name)

    def _substituted(self, given: Any) -> str:
        text, own = given if isinstance(given, list) else (given, {})
        return _VARIABLE.sub(lambda found: self._variable(found[1], own), text)

    def _variable(self, name: str, own: Mapping[str, Any]) -> str:
        if name in own:
            return str(self.value(own[name]))
        return self._attribute(name) if "." in name else self._reference(name)
