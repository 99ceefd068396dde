"""Access to an app's group of schedules, and to the role that its schedules assume."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import aws_iam as iam

from headgate.infra.data import permissions
from headgate.infra.data.nag_suppressions import acknowledge_wildcard
from headgate.jobs.schedules.delayed_job import PREFIX as DELAYED
from headgate.jobs.schedules.registry import PREFIX as MADE_LATER


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleAccess:
    """The ARNs that permissions on an app's schedules name, and the grants of them."""

    group_arn: str
    """The prefix of its schedules' ARNs: ``arn:aws:scheduler:REGION:ACCOUNT:schedule/GROUP``."""
    role_arn: str
    declared: tuple[str, ...]
    """The names of the schedules that job types declare."""

    def grant_delays(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let ``grantee`` put jobs into one-time schedules, and delete these."""
        return permissions.grant_schedules(
            grantee, permissions.DELAY, [self._named(f"{DELAYED}*")], self.role_arn
        )

    def grant_undelay(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let ``grantee`` delete the one-time schedules of jobs, which cancels them."""
        delayed = self._named(f"{DELAYED}*")
        acknowledge_wildcard(grantee, delayed, "Schedules are named after future jobs")
        return iam.Grant.add_to_principal(
            grantee=grantee,
            actions=["scheduler:GetSchedule", "scheduler:DeleteSchedule"],
            resource_arns=[delayed],
        )

    def grant_look(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let ``grantee`` see which jobs wait in one-time schedules, by their ids."""
        delayed = self._named(f"{DELAYED}*")
        acknowledge_wildcard(grantee, delayed, "Schedules are named after future jobs")
        return iam.Grant.add_to_principal(
            grantee=grantee, actions=["scheduler:GetSchedule"], resource_arns=[delayed]
        )

    def grant_changes(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let ``grantee`` list, pause and resume schedules, and create and delete its own.

        Those of delayed jobs are out of its reach.
        """
        own = self._named(f"{MADE_LATER}*")
        kept = [*map(self._named, self.declared), own]
        change = permissions.grant_schedules(grantee, permissions.CHANGE, kept, self.role_arn)
        make = permissions.grant_schedules(grantee, permissions.DELAY, [own], self.role_arn)
        return change.combine(make).combine(permissions.grant_listing(grantee))

    def _named(self, name: str) -> str:
        """Return the ARN of the group's schedules of that name or pattern."""
        return f"{self.group_arn}/{name}"
