"""The function that counts for worker groups with many queues is there for these alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from headgate.infra.data.permissions import DEPTHS
from headgate.jobs.deployment.scaling.backlog import counted_groups
from headgate.jobs.deployment.scaling.demand_plan import demand_plan, read_demand_plan
from tests.infra.fargate.workers import DEPLOYMENT, SPARE, Deployed, deployed, shop
from tests.infra.templates import listed, name_of, resources, statements

DEMAND = "JobsDemand"


@pytest.fixture(scope="module")
def system() -> Deployed:
    return deployed(shop(), DEPLOYMENT)


def test_the_schedule_hands_over_the_groups_with_many_queues_every_minute(system: Deployed) -> None:
    topology = system.app.topology
    [schedule] = resources(system.template, "AWS::Scheduler::Schedule", DEMAND).values()
    assert schedule["ScheduleExpression"] == "rate(1 minute)"
    groups = counted_groups(topology, DEPLOYMENT.workers)
    assert SPARE not in groups
    assert read_demand_plan(json.loads(schedule["Target"]["Input"])) == demand_plan(
        topology, groups
    )


def test_it_may_count_these_groups_queues_and_do_nothing_else(system: Deployed) -> None:
    reached: dict[str, set[str]] = {}
    for statement in statements(system.template, DEMAND)["lambda.amazonaws.com"]:
        for resource in listed(statement["Resource"]):
            named = _named(system.template, resource)
            reached.setdefault(named, set()).update(listed(statement["Action"]))
    [log_group] = resources(system.template, "AWS::Logs::LogGroup", DEMAND)
    queues = {spec.name: set(DEPTHS) for spec in system.app.topology.queues}
    assert reached == {**queues, log_group: {"logs:CreateLogStream", "logs:PutLogEvents"}}


def test_where_each_group_has_few_queues_there_is_no_such_function(
    template: Mapping[str, Any],
) -> None:
    assert not resources(template, "AWS::Lambda::Function", DEMAND)


def _named(template: Mapping[str, Any], resource: Mapping[str, Any]) -> str:
    match resource:
        case {"Fn::GetAtt": [logical_id, "Arn"]} if "Logs" in logical_id:
            return str(logical_id)
    return name_of(template, resource)
