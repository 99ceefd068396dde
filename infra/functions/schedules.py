"""The schedules of an app's job types: EventBridge Scheduler fires, the bridge submits."""

from __future__ import annotations

from typing import Any

from aws_cdk import Duration, RemovalPolicy, Stack, TimeZone
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from headgate.infra.data.encryption import key_use
from headgate.infra.data.permissions import statement
from headgate.infra.data.schedule_access import ScheduleAccess
from headgate.jobs.core.naming import role_in
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.definitions.schedules.declared import DeclaredSchedule
from headgate.jobs.definitions.schedules.schedule import Schedule
from headgate.jobs.deployment.triggers import scheduled_types
from headgate.jobs.schedules.declared_starts import deployed
from headgate.jobs.schedules.firing import declared_input, schedule_name

_RETRIES = 185  # with a day, EventBridge Scheduler's maximum
_KEEP_TRYING = Duration.hours(24)


class DeclaredSchedules(Construct):
    """The app's own group of schedules, with all that its job types declare.

    Args:
        app: the app with the job types.
        bridge: the function that the schedules invoke.
        failed: a standard queue for invocations that Lambda did not accept.
        standby: whether they are created disabled;
            `jobs.deployment.deployment.Deployment.standby`.
        removal_policy: applies to the group, and with it to delayed jobs and to schedules that were
            made at run time, when it is removed from its stack, or the stack is deleted.
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
        removal_policy: RemovalPolicy,
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
            removal_policy=removal_policy,
        )
        self._role = self._scheduler_role()
        for job in scheduled_types(app):
            for declared in job.schedules:
                self._add(job, declared)

    @property
    def access(self) -> ScheduleAccess:
        """The group and the role, for permissions."""
        return ScheduleAccess(
            group_arn=Stack.of(self).format_arn(
                service="scheduler",
                resource="schedule",
                resource_name=self._app.topology.schedule_group,
            ),
            role_arn=self._role.role_arn,
            declared=tuple(
                schedule_name(declared)
                for job in scheduled_types(self._app)
                for declared in job.schedules
            ),
        )

    def _add(self, job: JobType[Any, Any], declared: DeclaredSchedule) -> None:
        times, _ = deployed(declared.when)  # its start is in the input
        scheduler.Schedule(
            self,
            declared.name,
            schedule_name=schedule_name(declared),
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
                    declared_input(self._app, job, declared)
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


def _time_window(schedule: Schedule) -> scheduler.TimeWindow:
    if schedule.flexible_window is None:
        return scheduler.TimeWindow.off()
    minutes = schedule.flexible_window.total_seconds() / 60
    return scheduler.TimeWindow.flexible(Duration.minutes(minutes))
