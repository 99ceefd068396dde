"""The schedule of a function of Headgate's own, with a role of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from headgate.infra.data.encryption import key_use
from headgate.infra.data.permissions import statement
from headgate.infra.roles.own_role import own_role


def invoke_every(
    scope: Construct,
    function: lambda_.IFunction,
    *,
    every: timedelta,
    description: str,
    plan: Mapping[str, Any],
    policy: str,
    retries: int,
    failed: sqs.IQueue | None = None,
) -> None:
    """Invoke a function every so often, with a plan as its input.

    The schedule is in a group of its own, so that permissions to change or list the jobs' schedules
    don't reach it. An invocation that is refused until the next one is due is dropped.

    Args:
        scope: the construct of the function.
        function: the function.
        every: the interval, whole minutes.
        description: the schedule's description.
        plan: the input, as JSON values.
        policy: the name of the role's policy.
        retries: retries of an invocation that is refused.
        failed: the queue for dropped invocations; None: nobody needs them.
    """
    group = scheduler.ScheduleGroup(scope, "Group", removal_policy=RemovalPolicy.DESTROY)
    from_group = {
        "aws:SourceAccount": Stack.of(scope).account,
        "aws:SourceArn": group.schedule_group_arn,
    }
    firing = [statement(["lambda:InvokeFunction"], function.function_arn)]
    if failed is not None:
        firing.append(statement(["sqs:SendMessage"], failed.queue_arn))
        firing += key_use(failed.encryption_master_key, "sqs")
    role = own_role(scope, "Fires", "scheduler.amazonaws.com", policy, firing, from_group)
    interval = Duration.minutes(every.total_seconds() / 60)
    scheduler.Schedule(
        scope,
        "Schedule",
        schedule_group=group,
        description=description,
        schedule=scheduler.ScheduleExpression.rate(interval),
        target=targets.LambdaInvoke(
            function,
            # CDK's own grant would cover every version of the function.
            role=role.without_policy_updates(),
            input=scheduler.ScheduleTargetInput.from_text(json.dumps(plan)),
            dead_letter_queue=failed,
            retry_attempts=retries,
            max_event_age=interval,
        ),
    )
