"""References and functions of a template as Terraform's expressions."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from headgate.jobs.errors import ConfigurationError
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.ops.export.resources import Resource, Resources

DATA = {
    "AWS::AccountId": "${data.aws_caller_identity.current.account_id}",
    "AWS::Partition": "${data.aws_partition.current.partition}",
    "AWS::Region": "${data.aws_region.current.id}",
    "AWS::URLSuffix": "${data.aws_partition.current.dns_suffix}",
}
"""Pseudo parameters, by the data sources that know them."""

TYPES: Mapping[str, str] = {
    "AWS::DynamoDB::GlobalTable": "aws_dynamodb_table",
    "AWS::Events::Rule": "aws_cloudwatch_event_rule",
    "AWS::IAM::ManagedPolicy": "aws_iam_policy",
    "AWS::IAM::Role": "aws_iam_role",
    "AWS::KMS::Alias": "aws_kms_alias",
    "AWS::KMS::Key": "aws_kms_key",
    "AWS::Lambda::EventInvokeConfig": "aws_lambda_function_event_invoke_config",
    "AWS::Lambda::Function": "aws_lambda_function",
    "AWS::Lambda::Permission": "aws_lambda_permission",
    "AWS::Logs::LogGroup": "aws_cloudwatch_log_group",
    "AWS::S3::Bucket": "aws_s3_bucket",
    "AWS::S3::BucketPolicy": "aws_s3_bucket_policy",
    "AWS::SNS::Subscription": "aws_sns_topic_subscription",
    "AWS::SNS::Topic": "aws_sns_topic",
    "AWS::SNS::TopicPolicy": "aws_sns_topic_policy",
    "AWS::SQS::Queue": "aws_sqs_queue",
    "AWS::SQS::QueuePolicy": "aws_sqs_queue_policy",
    "AWS::Scheduler::Schedule": "aws_scheduler_schedule",
    "AWS::Scheduler::ScheduleGroup": "aws_scheduler_schedule_group",
    "AWS::SecretsManager::Secret": "aws_secretsmanager_secret",
}
"""Terraform's types, by CloudFormation's."""

_REF: Mapping[str, str] = {
    "AWS::DynamoDB::GlobalTable": "name",
    "AWS::Events::Rule": "name",
    "AWS::IAM::ManagedPolicy": "arn",
    "AWS::IAM::Role": "name",
    "AWS::KMS::Key": "key_id",
    "AWS::Lambda::Function": "function_name",
    "AWS::Logs::LogGroup": "name",
    "AWS::S3::Bucket": "bucket",
    "AWS::SNS::Topic": "arn",
    "AWS::SQS::Queue": "url",
    "AWS::Scheduler::ScheduleGroup": "name",
    "AWS::SecretsManager::Secret": "arn",
}
"""The attribute that ``Ref`` stands for."""

_ATTRIBUTES: Mapping[str, str] = {
    "Arn": "arn",
    "QueueName": "name",
    "TopicArn": "arn",
    "TopicName": "name",
}
"""The attributes that ``Fn::GetAtt`` stands for."""

_UNSAFE = re.compile(r"[^a-z0-9]+")


@light_dataclass(frozen=True, slots=True, kw_only=True)
class References:
    """Resolves values of a template to Terraform's: texts may hold expressions."""

    resources: Resources

    def value(self, value: Any) -> Any:
        """Return a value with its functions as expressions.

        Raises:
            ConfigurationError: a function or a type has no counterpart here.
        """
        match value:
            case {"Ref": str(name)} if len(value) == 1:
                return self._reference(name)
            case {"Fn::GetAtt": [str(name), str(attribute)]}:
                return self._attribute(self.resources[name], attribute)
            case {"Fn::Join": [str(between), [*joined]]}:
                return _literal(between).join(str(self.value(each)) for each in joined)
            case dict():
                if function := next((key for key in value if key.startswith("Fn::")), None):
                    raise ConfigurationError(f"{function} can't be exported to Terraform yet")
                return {_literal(key): self.value(each) for key, each in value.items()}
            case list():
                return [self.value(each) for each in value]
            case str():
                return _literal(value)
        return value

    def json(self, value: Any) -> str:
        """Return a value as JSON in a text, such as a policy; references stay expressions."""
        return json.dumps(self.value(value))

    def _reference(self, name: str) -> str:
        if name in DATA:
            return DATA[name]
        resource = self.resources[name]
        if resource.kind not in _REF:
            raise ConfigurationError(f"Ref of {resource.kind} can't be exported to Terraform yet")
        return _expression(resource, _REF[resource.kind])

    def _attribute(self, resource: Resource, attribute: str) -> str:
        if attribute not in _ATTRIBUTES:
            raise ConfigurationError(
                f"the attribute {attribute} of {resource.kind} can't be exported to Terraform yet"
            )
        found = _expression(resource, _ATTRIBUTES[attribute])
        # CloudFormation's ARN of a log group ends with all of its streams.
        # https://github.com/hashicorp/terraform-provider-aws/blob/main/website/docs/r/cloudwatch_log_group.html.markdown
        return f"{found}:*" if resource.kind == "AWS::Logs::LogGroup" else found


def local_name(resource: Resource) -> str:
    """Return a resource's name in Terraform, from the ids of its constructs."""
    return _UNSAFE.sub("_", "_".join(resource.path).lower()).strip("_")


def address(resource: Resource) -> str:
    """Return a resource's address, as in ``aws_sqs_queue.queues_jobs_high``.

    Raises:
        ConfigurationError: its type has no counterpart here.
    """
    if resource.kind not in TYPES:
        raise ConfigurationError(f"{resource.kind} can't be exported to Terraform yet")
    return f"{TYPES[resource.kind]}.{local_name(resource)}"


def _expression(resource: Resource, attribute: str) -> str:
    return f"${{{address(resource)}.{attribute}}}"


def _literal(text: str) -> str:
    """Return a text in which Terraform sees no template."""
    return text.replace("${", "$${").replace("%{", "%%{")
