"""A deployment is read from layers of JSON, as ``cdk.json`` has them."""

from __future__ import annotations

from datetime import timedelta

from headgate import Priority
from headgate.jobs.deployment.cdk_context import parse_deployment


def test_a_later_layers_fields_replace_an_earliers() -> None:
    common = {"alerts_to": ["oncall@example.com"], "budget_usd": 10}
    prod = {"budget_usd": 500, "workers": [{"name": "low", "priorities": ["low"], "min_tasks": 0}]}

    deployment = parse_deployment(common, prod)

    assert deployment.alerts_to == ("oncall@example.com",)
    assert deployment.budget_usd == 500
    [group] = deployment.workers
    assert (group.name, group.priorities, group.min_tasks) == ("low", (Priority.LOW,), 0)


def test_durations_are_written_in_seconds() -> None:
    [group] = parse_deployment({"workers": [{"stop_timeout": 60}]}).workers
    assert group.stop_timeout == timedelta(seconds=60)
