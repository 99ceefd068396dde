"""Pages and mutes: one composite alarm for each group, and windows in which nobody is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from constructs import Construct

from headgate.infra.monitoring.alarms import Alarms
from headgate.infra.monitoring.rule import MOST_NAMED, Rule, pages
from headgate.jobs.deployment.alarms.mutes import MuteWindow


class Paging(Construct):
    """One page for each group, however many of its alarms go off.

    Args:
        rules: all alarms.
        alarms: the alarms made of them, which open tickets.
        service: the prefix of all names.
        topic: the topic for pages.
        recoveries: whether it is also told when a page is over.
        mutes: the windows in which nobody is told.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        rules: Sequence[Rule],
        alarms: Alarms,
        service: str,
        topic: sns.ITopic,
        recoveries: bool,
        mutes: Sequence[MuteWindow],
    ) -> None:
        super().__init__(scope, construct_id)
        self._service = service
        self.by_name: Mapping[str, cloudwatch.CompositeAlarm] = {
            name: self._composite(name, group, members)
            for name, (group, members) in pages(rules).items()
        }
        """The composite alarms, by name without app and stage, as ``workers-page``."""
        # By their names, so that the template stays small; the alarms have to exist all the same.
        self.node.add_dependency(alarms)
        for alarm in self.by_name.values():
            alarm.add_alarm_action(actions.SnsAction(topic))
            if recoveries:
                alarm.add_ok_action(actions.SnsAction(topic))
        for number, window in enumerate(mutes, start=1):
            self._mute(number, window, rules)

    def _composite(
        self, name: str, group: str, members: Sequence[Rule]
    ) -> cloudwatch.CompositeAlarm:
        named = " OR ".join(f'ALARM("{rule.alarm_name(self._service)}")' for rule in members)
        return cloudwatch.CompositeAlarm(
            self,
            name,
            composite_alarm_name=f"{self._service}-{name}",
            alarm_description=(
                f"Jobs of {self._service} are not run as they should be: {group}. The reason below "
                "names the alarm that went off first, whose own description says what to do; the "
                "dashboard shows all that are on."
            ),
            alarm_rule=cloudwatch.AlarmRule.from_string(named),
        )

    def _mute(self, number: int, window: MuteWindow, rules: Sequence[Rule]) -> None:
        # Alarms that scale aren't among them: muted, they would not scale either.
        names = [f"{self._service}-{page}" for page in self.by_name]
        names = names if window.severity != "ticket" else []
        if window.severity != "page":
            names += [rule.alarm_name(self._service) for rule in rules]
        for first in range(0, len(names), MOST_NAMED):
            part = "" if first == 0 else f"-{first // MOST_NAMED + 1}"
            mute = cloudwatch.CfnAlarmMuteRule(
                self,
                f"Mute{number}{part}",
                name=f"{self._service}-mute-{number}{part}",
                mute_targets=cloudwatch.CfnAlarmMuteRule.MuteTargetsProperty(
                    alarm_names=names[first:][:MOST_NAMED]
                ),
                rule=cloudwatch.CfnAlarmMuteRule.RuleProperty(
                    schedule=cloudwatch.CfnAlarmMuteRule.ScheduleProperty(
                        expression=window.schedule,
                        duration=window.iso_duration,
                        timezone=window.timezone,
                    )
                ),
            )
            mute.node.add_dependency(*self.by_name.values())
