"""The types of resources whose properties have an argument each.

https://github.com/hashicorp/terraform-provider-aws/tree/main/website/docs/r
https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-template-resource-type-ref.html
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.ops.export.terraform.arguments import (
    Argument,
    NestedBlock,
    Rendered,
    arguments,
    document,
    plain,
    tags,
)
from headgate.ops.export.terraform.references import References

RETRY_POLICY: Mapping[str, Argument] = {
    "MaximumEventAgeInSeconds": plain("maximum_event_age_in_seconds"),
    "MaximumRetryAttempts": plain("maximum_retry_attempts"),
}

DEAD_LETTER_CONFIG: Mapping[str, Argument] = {"Arn": plain("arn")}

_ON_FAILURE = NestedBlock(name="on_failure", arguments={"Destination": plain("destination")})

_SCHEDULE_TARGET: Mapping[str, Argument] = {
    "Arn": plain("arn"),
    "RoleArn": plain("role_arn"),
    "Input": plain("input"),
    "DeadLetterConfig": NestedBlock(name="dead_letter_config", arguments=DEAD_LETTER_CONFIG),
    "RetryPolicy": NestedBlock(name="retry_policy", arguments=RETRY_POLICY),
}


def _logging(value: Any, references: References) -> Rendered:
    """Render a function's log group; its format has to be named here, and is Lambda's default."""
    own = arguments({"LogGroup": plain("log_group")}, value, references)
    return {"logging_config": {"log_format": "Text", **own}}


KINDS: Mapping[str, Mapping[str, Argument]] = {
    "AWS::IAM::ManagedPolicy": {
        "ManagedPolicyName": plain("name"),
        "Description": plain("description"),
        "Path": plain("path"),
        "PolicyDocument": document("policy"),
    },
    "AWS::KMS::Alias": {
        "AliasName": plain("name"),
        "TargetKeyId": plain("target_key_id"),
    },
    "AWS::KMS::Key": {
        "Description": plain("description"),
        "EnableKeyRotation": plain("enable_key_rotation"),
        "KeyPolicy": document("policy"),
        "Tags": tags,
    },
    "AWS::Lambda::EventInvokeConfig": {
        "FunctionName": plain("function_name"),
        "Qualifier": plain("qualifier"),
        "MaximumEventAgeInSeconds": plain("maximum_event_age_in_seconds"),
        "MaximumRetryAttempts": plain("maximum_retry_attempts"),
        "DestinationConfig": NestedBlock(
            name="destination_config", arguments={"OnFailure": _ON_FAILURE}
        ),
    },
    "AWS::Lambda::Function": {
        "FunctionName": plain("function_name"),
        "Description": plain("description"),
        "Runtime": plain("runtime"),
        "Architectures": plain("architectures"),
        "Handler": plain("handler"),
        "MemorySize": plain("memory_size"),
        "Timeout": plain("timeout"),
        "ReservedConcurrentExecutions": plain("reserved_concurrent_executions"),
        "Role": plain("role"),
        "Environment": NestedBlock(name="environment", arguments={"Variables": plain("variables")}),
        "LoggingConfig": _logging,
        "Tags": tags,
    },
    "AWS::Lambda::Permission": {
        "Action": plain("action"),
        "FunctionName": plain("function_name"),
        "Principal": plain("principal"),
        "SourceAccount": plain("source_account"),
        "SourceArn": plain("source_arn"),
    },
    "AWS::Logs::LogGroup": {
        "RetentionInDays": plain("retention_in_days"),
        "KmsKeyId": plain("kms_key_id"),
        "Tags": tags,
    },
    "AWS::SNS::Subscription": {
        "TopicArn": plain("topic_arn"),
        "Protocol": plain("protocol"),
        "Endpoint": plain("endpoint"),
    },
    "AWS::SNS::Topic": {
        "DisplayName": plain("display_name"),
        "KmsMasterKeyId": plain("kms_master_key_id"),
        "Tags": tags,
    },
    "AWS::SQS::Queue": {
        "QueueName": plain("name"),
        "FifoQueue": plain("fifo_queue"),
        "DeduplicationScope": plain("deduplication_scope"),
        "FifoThroughputLimit": plain("fifo_throughput_limit"),
        "MessageRetentionPeriod": plain("message_retention_seconds"),
        "VisibilityTimeout": plain("visibility_timeout_seconds"),
        "ReceiveMessageWaitTimeSeconds": plain("receive_wait_time_seconds"),
        "SqsManagedSseEnabled": plain("sqs_managed_sse_enabled"),
        "KmsMasterKeyId": plain("kms_master_key_id"),
        "RedrivePolicy": document("redrive_policy"),
        "RedriveAllowPolicy": document("redrive_allow_policy"),
        "Tags": tags,
    },
    "AWS::Scheduler::Schedule": {
        "Name": plain("name"),
        "GroupName": plain("group_name"),
        "Description": plain("description"),
        "State": plain("state"),
        "ScheduleExpression": plain("schedule_expression"),
        "ScheduleExpressionTimezone": plain("schedule_expression_timezone"),
        "EndDate": plain("end_date"),
        "FlexibleTimeWindow": NestedBlock(
            name="flexible_time_window",
            arguments={
                "Mode": plain("mode"),
                "MaximumWindowInMinutes": plain("maximum_window_in_minutes"),
            },
        ),
        "Target": NestedBlock(name="target", arguments=_SCHEDULE_TARGET),
    },
    "AWS::Scheduler::ScheduleGroup": {"Name": plain("name"), "Tags": tags},
}
"""By CloudFormation's type: the argument of each of its properties that CDK's template has.
`ops.export.terraform.composed` has the types that become several resources."""
