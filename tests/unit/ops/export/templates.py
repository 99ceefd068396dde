"""A small template, as CDK synthesizes an app's."""

from __future__ import annotations

from typing import Any


def template(*, kept: bool = True) -> dict[str, Any]:
    """Return a template with a queue, a function and its role, a bucket, and what is left out."""
    policy = "RetainExceptOnCreate" if kept else "Delete"
    return {
        "Resources": {
            "Dead": _queue("jobs-high-dlq", "shop-prod-jobs-high-dlq", policy),
            "Queue": _queue(
                "jobs-high",
                "shop-prod-jobs-high",
                policy,
                VisibilityTimeout=60,
                RedrivePolicy={
                    "deadLetterTargetArn": {"Fn::GetAtt": ["Dead", "Arn"]},
                    "maxReceiveCount": 1000,
                },
            ),
            "Bucket": {
                "Type": "AWS::S3::Bucket",
                "Properties": {
                    "BucketName": {"Fn::Join": ["", ["shop-", {"Ref": "AWS::AccountId"}]]},
                    "Tags": [
                        {"Key": "aws-cdk:auto-delete-objects", "Value": "true"},
                        {"Key": "headgate:app", "Value": "shop"},
                    ],
                },
                "DeletionPolicy": policy,
                **_path("Jobs/Objects/Bucket/Resource"),
            },
            "BucketPolicy": {
                "Type": "AWS::S3::BucketPolicy",
                "Properties": {
                    "Bucket": {"Ref": "Bucket"},
                    "PolicyDocument": {
                        "Version": "2012-10-17",
                        "Statement": [
                            {"Effect": "Deny", "Action": "s3:*", "Principal": "*"},
                            {
                                "Effect": "Allow",
                                "Action": "s3:DeleteObject*",
                                "Principal": {"AWS": {"Fn::GetAtt": ["Helper", "Arn"]}},
                            },
                        ],
                    },
                },
                **_path("Jobs/Objects/Bucket/Policy/Resource"),
            },
            "Emptied": {
                "Type": "Custom::S3AutoDeleteObjects",
                "Properties": {"BucketName": {"Ref": "Bucket"}},
                **_path("Jobs/Objects/Bucket/AutoDeleteObjectsCustomResource/Default"),
            },
            "Helper": {
                "Type": "AWS::IAM::Role",
                "Properties": {"AssumeRolePolicyDocument": {}},
                **_path("Custom::S3AutoDeleteObjectsCustomResourceProvider/Role"),
            },
            "Alarm": {
                "Type": "AWS::CloudWatch::Dashboard",
                "Properties": {},
                **_path("Jobs/Watching/Dashboard/Dashboard/Resource"),
            },
            "Role": {
                "Type": "AWS::IAM::Role",
                "Properties": {
                    "AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": []},
                    "Policies": [
                        {
                            "PolicyName": "bridge",
                            "PolicyDocument": {
                                "Version": "2012-10-17",
                                "Statement": [
                                    {
                                        "Effect": "Allow",
                                        "Action": "sqs:SendMessage",
                                        "Resource": {"Fn::GetAtt": ["Queue", "Arn"]},
                                    }
                                ],
                            },
                        }
                    ],
                },
                **_path("Jobs/Bridge/Role/Resource"),
            },
            "Function": {
                "Type": "AWS::Lambda::Function",
                "Properties": {
                    "FunctionName": "shop-prod-bridge",
                    "Handler": "headgate.lambdas.bridge.handler",
                    "Code": {"S3Bucket": "cdk-hnb659fds-assets", "S3Key": "0123.zip"},
                    "Role": {"Fn::GetAtt": ["Role", "Arn"]},
                },
                "DependsOn": ["Role", "Alarm"],
                **_path("Jobs/Bridge/Function/Resource"),
            },
            "Submit": {
                "Type": "AWS::IAM::ManagedPolicy",
                "Properties": {
                    "ManagedPolicyName": {"Fn::Join": ["", ["shop-", {"Ref": "AWS::Region"}]]},
                    "Description": "What submit takes",
                    "Path": "/",
                    "PolicyDocument": {
                        "Version": "2012-10-17",
                        "Statement": [
                            {
                                "Effect": "Allow",
                                "Action": "sqs:SendMessage",
                                "Resource": {"Fn::GetAtt": ["Queue", "Arn"]},
                            }
                        ],
                    },
                },
                **_path("Policy-submit/Resource"),
            },
        }
    }


def _queue(label: str, name: str, policy: str, **properties: Any) -> dict[str, Any]:
    return {
        "Type": "AWS::SQS::Queue",
        "Properties": {"QueueName": name, **properties},
        "DeletionPolicy": policy,
        "UpdateReplacePolicy": policy,
        **_path(f"Jobs/Queues/{label}/Resource"),
    }


def _path(path: str) -> dict[str, Any]:
    return {"Metadata": {"aws:cdk:path": f"Exported/{path}"}}
