"""An alarm as a value: a condition on metrics, and a description for the person on call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headgate.infra.monitoring.metrics import Series
from headgate.jobs.deployment.alarms.thresholds import AlarmKind, Severity

MOST_NAMED = 100
"""Maximum of alarms in one composite alarm, and of those that one rule mutes.
https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutCompositeAlarm.html
https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutAlarmMuteRule.html"""

APP = "app"
"""The group of alarms that concern no worker group or consumer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One alarm; it goes off when ``points`` of ``periods`` values are beyond its threshold.

    Every metric of an expression is FILLed, since SQS and Headgate publish nothing while idle.
    CloudWatch's latest minute may not have arrived yet and is FILLed too: so an expression with
    periods of a minute needs three of the last five.
    https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/using-metric-math.html
    """

    name: str
    """The alarm's name, without app and stage."""
    kind: AlarmKind
    """The kind of alarm, which decides on its severity."""
    severity: Severity = "ticket"
    group: str = APP
    """The worker group or consumer whose outage it tells of, or another part of the app: the pages
    of one group are one page."""
    nested: str | None = None
    """The queue group in whose nested stack it is; None: it is in the stack itself."""
    means: str
    """The event and the affected resource."""
    causes: str
    """The most likely causes."""
    first: str
    """The first step to take."""
    metrics: Mapping[str, Series]
    """Metrics by the variables of the expression; `MOST_METRICS` at most."""
    expression: str | None = None
    """An expression over the metrics; None: the value of the only metric."""
    threshold: float
    at: bool = False
    """True if the alarm goes off at the threshold itself; else above it."""
    period_s: int
    periods: int = 1
    points: int = 1
    silence_alarms: bool = False
    """True if missing data set the alarm off; else they are not breaching."""

    def alarm_name(self, service: str) -> str:
        """Return its name on AWS. In a nested stack it has another one than in the stack itself, so
        that an alarm can move between them: the new one is created before the old one is deleted.
        """
        return alarm_name(service, self.name, nested=self.nested is not None)

    @property
    def description(self) -> str:
        """The text that the person on call reads."""
        return f"{self.means} Likely: {self.causes} First: {self.first}"


def alarm_name(service: str, name: str, *, nested: bool) -> str:
    """Return the name on AWS of an alarm that is called ``name`` within an app and its stage."""
    return f"{service}/{name}" if nested else f"{service}-{name}"


def pages(rules: Sequence[Rule]) -> dict[str, tuple[str, list[Rule]]]:
    """Return the alarms that page, by the name of their page, with the group that it is about.

    A group with more than `MOST_NAMED` has several pages.
    """
    groups: dict[str, list[Rule]] = {}
    for rule in rules:
        if rule.severity == "page":
            groups.setdefault(rule.group, []).append(rule)
    return {
        f"{group}-page" if first == 0 else f"{group}-page-{first // MOST_NAMED + 1}": (
            group,
            members[first : first + MOST_NAMED],
        )
        for group, members in groups.items()
        for first in range(0, len(members), MOST_NAMED)
    }
