"""The schedules of an app's job types: EventBridge Scheduler fires, the bridge submits."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from aws_cdk import Duration, RemovalPolicy, Stack, TimeZone
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from headgate.infra.data import permissions
from headgate.infra.data.encryption import key_use
from headgate.infra.data.nag_suppressions import acknowledge_wildcard
from headgate.infra.data.permissions import statement
from headgate.jobs.core.topology import role_in
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.definitions.schedule import Schedule
from headgate.jobs.schedules.declared_starts import deployed
from headgate.jobs.schedules.delayed_job import PREFIX as DELAYED
from headgate.jobs.schedules.firing import schedule_input, schedule_name
from headgate.jobs.schedules.registry import PREFIX as MADE_LATER

_RETRIES = 185  # with a day, EventBridge Scheduler's maximum
_KEEP_TRYING = Duration.hours(24)


class DeclaredSchedules(Construct):
    """The app's own group of schedules, with one for each job type that declares one.

    Args:
        app: the app with the job types.
        bridge: the function that the schedules invoke.
        failed: a standard queue for invocations that Lambda did not accept.
        standby: whether they are created disabled;
            `jobs.deployment.deployment.Deployment.standby`.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        app: App,
        bridge: lambda_.IFunction,
        failed: sqs.IQueue,
        standby: bool,
    ) -> None:
        super().__init__(scope, construct_id)
        self._app = app
        self._bridge = bridge
        self._failed = failed
        self._standby = standby
        self._group = scheduler.ScheduleGroup(
            self,
            "Group",
            schedule_group_name=app.topology.schedule_group,
            removal_policy=RemovalPolicy.DESTROY,
        )
        self._role = self._scheduler_role()
        for job in scheduled_types(app):
            if job.schedule is not None:
                self._add(job, job.schedule)

    def grant_delays(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let ``grantee`` put jobs into one-time schedules, and delete these."""
        return permissions.grant_schedules(
            grantee, permissions.DELAY, [self._schedules(f"{DELAYED}*")], self._role
        )

    def grant_undelay(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let ``grantee`` delete the one-time schedules of jobs, which cancels them."""
        delayed = self._schedules(f"{DELAYED}*")
        acknowledge_wildcard(grantee, delayed, "Schedules are named after jobs that come later")
        return iam.Grant.add_to_principal(
            grantee=grantee,
            actions=["scheduler:GetSchedule", "scheduler:DeleteSchedule"],
            resource_arns=[delayed],
        )

    def grant_changes(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let ``grantee`` list, pause and resume all schedules, and create and delete its own."""
        all_, own = self._schedules("*"), self._schedules(f"{MADE_LATER}*")
        change = permissions.grant_schedules(grantee, permissions.CHANGE, [all_], self._role)
        make = permissions.grant_schedules(grantee, permissions.DELAY, [own], self._role)
        return change.combine(make).combine(permissions.grant_listing(grantee))

    def _schedules(self, name: str) -> str:
        """Return the ARN of the group's schedules with that name or pattern."""
        return Stack.of(self).format_arn(
            service="scheduler",
            resource="schedule",
            resource_name=f"{self._app.topology.schedule_group}/{name}",
        )

    def _add(self, job: JobType[Any, Any], schedule: Schedule) -> None:
        times, _ = deployed(schedule)  # its start is in the input
        scheduler.Schedule(
            self,
            job.name,
            schedule_name=schedule_name(job),
            schedule_group=self._group,
            enabled=not self._standby,
            description=f"Submits {job.name} jobs to {job.queue}/{job.priority}",
            schedule=scheduler.ScheduleExpression.expression(
                times.expression, TimeZone.of(times.timezone)
            ),
            end=times.end,
            time_window=_time_window(times),
            target=targets.LambdaInvoke(
                self._bridge,
                # CDK's own grant would cover every version of the function.
                role=self._role.without_policy_updates(),
                input=scheduler.ScheduleTargetInput.from_text(
                    json.dumps(schedule_input(self._app, job))
                ),
                dead_letter_queue=self._failed,
                retry_attempts=_RETRIES,
                max_event_age=_KEEP_TRYING,
            ),
        )

    def _scheduler_role(self) -> iam.Role:
        own_schedules = {
            "aws:SourceAccount": Stack.of(self).account,
            "aws:SourceArn": self._group.schedule_group_arn,
        }
        statements = [
            statement(["lambda:InvokeFunction"], self._bridge.function_arn),
            statement(["sqs:SendMessage"], self._failed.queue_arn),
            *key_use(self._failed.encryption_master_key, "sqs"),
        ]
        return iam.Role(
            self,
            "Role",
            # Named, so that clients that create schedules at run time know it.
            role_name=role_in(self._app.topology.scheduler_role, Stack.of(self).region),
            assumed_by=iam.ServicePrincipal(
                "scheduler.amazonaws.com", conditions={"StringEquals": own_schedules}
            ),
            inline_policies={"fire": iam.PolicyDocument(statements=statements)},
        )


def scheduled_types(app: App) -> Sequence[JobType[Any, Any]]:
    """Return the job types that declare a schedule."""
    return [job for job in app.types.values() if job.schedule is not None]


def _time_window(schedule: Schedule) -> scheduler.TimeWindow:
    if schedule.flexible_window is None:
        return scheduler.TimeWindow.off()
    minutes = schedule.flexible_window.total_seconds() / 60
    return scheduler.TimeWindow.flexible(Duration.minutes(minutes))
