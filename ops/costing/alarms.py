"""Numbers of metrics that an app's alarms watch, and of its pages: CloudWatch charges for each."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.infra.fargate.scaling_formulas import alarm_metrics
from headgate.infra.monitoring.alarm_rules import rules_for  # neither this nor the next needs CDK
from headgate.infra.monitoring.rule import Rule, pages
from headgate.jobs.definitions.app import App
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.triggers import has_bridge, has_schedules


def watched_metrics(app: App, deployment: Deployment) -> int:
    """Return the number of metrics watched by all alarms of an app, scaling alarms included."""
    scaling = sum(
        alarm_metrics(group, group.selection.of(app.topology)) for group in deployment.workers
    )
    return sum(len(rule.metrics) for rule in _rules(app, deployment)) + scaling


def composite_alarms(app: App, deployment: Deployment) -> int:
    """Return the number of composite alarms."""
    return len(pages(_rules(app, deployment)))


def _rules(app: App, deployment: Deployment) -> Sequence[Rule]:
    return rules_for(
        app, deployment, bridge=has_bridge(app), schedules=has_schedules(app), sweep="sweep"
    )
