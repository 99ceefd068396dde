"""The resources that `headgate cost` counts are those of the template."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import aws_cdk as cdk
import pytest

from headgate import App, Priority
from headgate.infra.stack import HeadgateStack
from headgate.jobs.deployment.checks.size_rules import resource_count
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from headgate.jobs.deployment.resource_names import FUNCTION_MEMORY_MB
from headgate.ops.costing import demand
from headgate.ops.costing.alarms import composite_alarms, watched_metrics
from headgate.ops.prices import INVOCATIONS, MONTH_S
from tests.infra.conftest import ELSEWHERE, NO_BUNDLING, Params
from tests.infra.templates import resources, template_of


def plain(**options: Any) -> App:
    """Return an app that has nothing but its queues."""
    app = App("shop", stage="test", **options)
    app.define("send-email", Params)
    return app


def broad() -> App:
    """Return an app with more queues than one alarm can watch."""
    app = App("shop", stage="test")
    for number in range(5):
        group = app.queue(f"group-{number}", priorities=list(Priority)[: number % 3 + 1])
        group.define(f"type-{number}", Params, priority=Priority.CRITICAL)
    return app


IMAGE = "workers/Dockerfile"
TWO = (WorkerGroup(), WorkerGroup(name="spare", min_tasks=0))


@pytest.mark.parametrize(
    ("app", "deployment"),
    [
        (plain(), Deployment(dockerfile=IMAGE)),
        (plain(long_delays=False), ELSEWHERE),
        (broad(), Deployment(dockerfile=IMAGE, workers=TWO)),
        (broad(), Deployment(dockerfile=IMAGE, network="public", endpoint_zones=2)),
        (plain(), Deployment(workers=(), endpoint_zones=2)),
    ],
    ids=["default", "elsewhere", "broad", "public", "no-workers"],
)
def test_alarms_endpoints_keys_and_dashboards_are_counted_as_they_are(
    app: App, deployment: Deployment
) -> None:
    assembly = cdk.App(context=NO_BUNDLING)
    template = template_of(
        HeadgateStack(assembly, "Stack", app=app, deployment=deployment, app_path="shop.app:app")
    )

    assert _watched(template) == watched_metrics(app, deployment)
    composites = resources(template, "AWS::CloudWatch::CompositeAlarm")
    assert len(composites) == composite_alarms(app, deployment)
    counts = sum(
        c.units for c in demand.charges(app.topology, deployment) if c.price is INVOCATIONS
    )
    every_minute = [
        each
        for each in resources(template, "AWS::Scheduler::Schedule").values()
        if each["ScheduleExpression"] == "rate(1 minute)"
    ]
    assert counts == len(every_minute) * MONTH_S / 60
    endpoints = resources(template, "AWS::EC2::VPCEndpoint").values()
    interfaces = [each for each in endpoints if each["VpcEndpointType"] == "Interface"]
    assert sum(len(each["SubnetIds"]) for each in interfaces) == deployment.endpoint_zones * len(
        deployment.interface_endpoints(long_delays=app.long_delays, seals=False)
    )
    assert not resources(template, "AWS::EC2::NatGateway")
    assert len(resources(template, "AWS::KMS::Key")) == 1
    assert len(resources(template, "AWS::CloudWatch::Dashboard")) == 1
    functions = resources(template, "AWS::Lambda::Function").values()
    assert {each["MemorySize"] for each in functions} == {FUNCTION_MEMORY_MB}
    assert resource_count(app, deployment) == pytest.approx(len(template["Resources"]), abs=10)


def _watched(template: Mapping[str, Any]) -> int:
    """Count the metrics of all alarms; target tracking has two for each of its policies."""
    alarms = resources(template, "AWS::CloudWatch::Alarm").values()
    policies = resources(template, "AWS::ApplicationAutoScaling::ScalingPolicy").values()
    tracked = [
        policy["TargetTrackingScalingPolicyConfiguration"]["CustomizedMetricSpecification"]
        for policy in policies
        if policy["PolicyType"] == "TargetTrackingScaling"
    ]
    return sum(map(_metrics, alarms)) + 2 * sum(map(_metrics, tracked))


def _metrics(alarm: Mapping[str, Any]) -> int:
    return sum("MetricStat" in each for each in alarm["Metrics"]) if "Metrics" in alarm else 1


def test_an_estimate_needs_neither_cdk_nor_an_sdk() -> None:
    unneeded = {"aws_cdk", "aws_lambda_powertools", "boto3"}
    code = (
        "import sys, headgate.ops.cli.cost, headgate.ops.costing.estimate; "
        f"assert not {unneeded} & sys.modules.keys()"
    )
    answered = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert answered.returncode == 0, answered.stderr
