"""The number of tasks follows the backlog: the formulas' values, and the policies made of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.infra.fargate.scaling_formulas import (
    LOAD,
    PERIOD_S,
    Formula,
    acceptable_backlog,
    alarm_metrics,
    loads,
    overdue,
    wakes,
)
from headgate.infra.monitoring.maths import MOST_METRICS
from headgate.infra.monitoring.metrics import running_tasks
from headgate.jobs.core.topology import DEFAULT_LANES, Priority, QueueSpec
from headgate.jobs.deployment.groups import WorkerGroup
from tests.infra.fargate.workers import DEPLOYMENT, NIGHT, Deployed, deployed, shop
from tests.infra.templates import Properties, resources

GROUPS = pytest.mark.parametrize("group", DEPLOYMENT.workers, ids=lambda group: group.name)
VISIBLE = "ApproximateNumberOfMessagesVisible"
FLYING = "ApproximateNumberOfMessagesNotVisible"
OLDEST = "ApproximateAgeOfOldestMessage"
RUNNING = "CPUUtilization"

SHOP = shop()
QUEUES = SHOP.topology.queues
JOBS = SHOP.topology.select(["jobs"])
CRITICAL, HIGH, NORMAL, LOW = JOBS
SLEEPY = WorkerGroup(min_tasks=0)
TASKS = running_tasks("workers", "shop-test-workers")


Told = Mapping[tuple[str | None, str], float]
"""CloudWatch's values, by metric and by queue, or None for the service."""


def value(formula: Formula, told: Told) -> float:
    """Evaluate an expression as CloudWatch does, FILL and IF included; missing metrics are 0."""
    variables: dict[str, Any] = {
        variable: told.get((metric.dimensions.get("QueueName"), metric.name), 0)
        for variable, metric in formula.metrics.items()
    }
    functions: dict[str, Callable[..., Any]] = {
        "FILL": lambda found, _default: found,
        "IF": lambda condition, then, otherwise: then if condition else otherwise,
    }
    # The expression is our own, with arithmetic that Python has too.
    return float(eval(formula.expression, {"__builtins__": {}}, variables | functions))  # noqa: S307


def waiting(depths: Mapping[QueueSpec, float], *, running: int) -> Told:
    """Return metrics of that many visible messages and tasks."""
    told: dict[tuple[str | None, str], float] = {(None, RUNNING): running}
    told.update({(queue.name, VISIBLE): depth for queue, depth in depths.items()})
    return told


def load(group: WorkerGroup, told: Told) -> float:
    """Return the load of a group with one part."""
    [formula] = loads(group, JOBS, TASKS)
    return value(formula, told)


# --- the load ------------------------------------------------------------------------------------


@pytest.mark.parametrize("queue", JOBS, ids=lambda queue: queue.priority)
def test_the_acceptable_backlog_is_what_a_task_starts_in_time(
    queue: QueueSpec,
) -> None:
    group = WorkerGroup(concurrency=20, processes=2, typical=timedelta(seconds=5))
    promise_s = max(queue.lane.start_within.total_seconds(), PERIOD_S)
    assert acceptable_backlog(group, queue) == group.slots * promise_s / 5


def test_a_task_counts_at_least_its_slots_however_long_jobs_run() -> None:
    group = WorkerGroup(typical=timedelta(hours=1))
    assert acceptable_backlog(group, HIGH) == group.slots


@pytest.mark.parametrize("queue", JOBS, ids=lambda queue: queue.priority)
def test_the_kept_load_is_the_backlog_that_the_tasks_start_in_time(
    queue: QueueSpec,
) -> None:
    group = WorkerGroup()
    backlog = acceptable_backlog(group, queue)
    assert load(group, waiting({queue: 3 * backlog}, running=3)) == pytest.approx(LOAD)
    assert load(group, waiting({queue: 3 * backlog}, running=1)) == pytest.approx(3 * LOAD)


def test_urgent_jobs_weigh_more_than_as_many_that_may_wait() -> None:
    group = WorkerGroup()
    weights = [load(group, waiting({queue: 1000}, running=1)) for queue in JOBS]
    assert weights == sorted(weights, reverse=True)
    assert weights[1] == pytest.approx(15 * weights[3])


def test_a_group_keeps_its_last_task_while_jobs_wait_or_are_in_flight() -> None:
    for metric in (VISIBLE, FLYING):
        assert load(SLEEPY, {(LOW.name, metric): 1, (None, RUNNING): 1}) == LOAD
    assert load(SLEEPY, {(None, RUNNING): 1}) == 0


def test_only_its_last_task_is_kept_for_what_is_in_flight() -> None:
    assert load(SLEEPY, {(LOW.name, FLYING): 500, (None, RUNNING): 4}) == 0


def test_a_group_that_may_sleep_grows_as_any_other_does() -> None:
    backlog = acceptable_backlog(SLEEPY, HIGH)
    assert load(SLEEPY, waiting({HIGH: 5 * backlog}, running=1)) == pytest.approx(5 * LOAD)


# --- beyond one policy's metrics -----------------------------------------------------------------


def many(count: int) -> list[QueueSpec]:
    return [replace(NORMAL, name=f"shop-{number}-normal") for number in range(count)]


@given(
    depths=st.lists(st.integers(0, 10**6), min_size=1, max_size=40),
    running=st.integers(1, 50),
    least=st.integers(0, 1),
)
def test_in_parts_a_group_asks_for_no_fewer_tasks_than_in_one(
    depths: list[int], running: int, least: int
) -> None:
    group, queues = WorkerGroup(min_tasks=least), many(len(depths))
    told = waiting(dict(zip(queues, depths, strict=True)), running=running)
    whole = sum(depths) / acceptable_backlog(group, NORMAL) / running
    asked = max(value(formula, told) / formula.target for formula in loads(group, queues, TASKS))
    assert asked >= whole - 1e-6


@pytest.mark.parametrize("count", [1, 4, 5, 9, 10, 23])
@pytest.mark.parametrize("least", [0, 1])
def test_formulas_cover_every_queue_within_an_alarms_limit_of_metrics(
    count: int, least: int
) -> None:
    group, queues = WorkerGroup(min_tasks=least), many(count)
    for formulas in (loads(group, queues, TASKS), overdue(queues), wakes(queues, TASKS)):
        assert all(len(formula.metrics) <= MOST_METRICS for formula in formulas)
        watched = [
            metric.dimensions["QueueName"]
            for formula in formulas
            for metric in formula.metrics.values()
            if metric.name == VISIBLE
        ]
        assert sorted(map(str, watched)) == sorted(queue.name for queue in queues)


@GROUPS
def test_an_expression_names_the_metrics_that_it_has(group: WorkerGroup) -> None:
    for formula in (*loads(group, QUEUES, TASKS), *overdue(QUEUES), *wakes(QUEUES, TASKS)):
        named = set(re.findall(r"\b[a-z]+\d*\b", formula.expression))
        assert named == set(formula.metrics)


# --- overdue jobs, and the first task ------------------------------------------------------------


def late(queue: QueueSpec, *, age_s: float, depth: float) -> bool:
    [formula] = overdue(JOBS)
    told: Told = {(queue.name, OLDEST): age_s, (queue.name, VISIBLE): depth}
    return value(formula, told) >= formula.target


@pytest.mark.parametrize("queue", JOBS, ids=lambda queue: queue.priority)
def test_a_queue_is_overdue_once_jobs_wait_longer_than_it_promises(queue: QueueSpec) -> None:
    promise_s = max(queue.lane.start_within.total_seconds(), PERIOD_S)
    assert late(queue, age_s=promise_s + 1, depth=1)
    assert not late(queue, age_s=promise_s, depth=1)


def test_a_job_that_runs_for_long_makes_nothing_overdue() -> None:
    assert not late(HIGH, age_s=36_000, depth=0)


def test_a_job_of_one_queue_is_not_overdue_because_another_s_is_old() -> None:
    [formula] = overdue(JOBS)
    assert value(formula, {(HIGH.name, VISIBLE): 5, (LOW.name, OLDEST): 36_000}) == 0


@pytest.mark.parametrize(
    ("depth", "running", "wakes_up"), [(1, 0, True), (0, 0, False), (1000, 1, False)]
)
def test_the_first_task_comes_when_something_waits_and_there_is_none(
    depth: int, running: int, wakes_up: bool
) -> None:
    [formula] = wakes(JOBS, TASKS)
    told = waiting({LOW: depth}, running=running)
    assert (value(formula, told) >= formula.target) is wakes_up


# --- the resources -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def system() -> Deployed:
    return deployed(shop(), DEPLOYMENT)


def policies(system: Deployed, group: WorkerGroup, kind: str) -> list[Properties]:
    return [
        policy
        for policy in system.of_group(group, "AWS::ApplicationAutoScaling::ScalingPolicy")
        if policy["PolicyType"] == kind
    ]


@GROUPS
def test_a_service_has_as_many_tasks_as_declared(system: Deployed, group: WorkerGroup) -> None:
    [target] = system.of_group(group, "AWS::ApplicationAutoScaling::ScalableTarget")
    assert (target["MinCapacity"], target["MaxCapacity"]) == (group.min_tasks, group.max_tasks)
    assert target["ScalableDimension"] == "ecs:service:DesiredCount"
    *_, name = target["ResourceId"]["Fn::Join"][1]
    assert system.resource(name) == system.service(group)


@GROUPS
def test_its_load_is_tracked_by_the_formula(system: Deployed, group: WorkerGroup) -> None:
    queues = group.selection.of(system.app.topology)
    tracking = policies(system, group, "TargetTrackingScaling")
    for policy, formula in zip(tracking, loads(group, queues, TASKS), strict=True):
        configuration = policy["TargetTrackingScalingPolicyConfiguration"]
        assert configuration["TargetValue"] == formula.target
        assert configuration["ScaleOutCooldown"] < configuration["ScaleInCooldown"]
        assert_queries(
            system, group, configuration["CustomizedMetricSpecification"]["Metrics"], formula
        )


@GROUPS
def test_it_grows_while_something_is_overdue(system: Deployed, group: WorkerGroup) -> None:
    queues = group.selection.of(system.app.topology)
    [growth] = [
        policy
        for policy in policies(system, group, "StepScaling")
        if policy["StepScalingPolicyConfiguration"]["AdjustmentType"] == "PercentChangeInCapacity"
    ]
    configuration = growth["StepScalingPolicyConfiguration"]
    assert configuration["MinAdjustmentMagnitude"] == 1
    assert configuration["StepAdjustments"][0]["ScalingAdjustment"] > 0
    assert_alarms(system, group, growth, overdue(queues))


def test_a_group_that_may_sleep_has_a_first_task_made_for_it(system: Deployed) -> None:
    queues = NIGHT.selection.of(system.app.topology)
    [first] = [
        policy
        for policy in policies(system, NIGHT, "StepScaling")
        if policy["StepScalingPolicyConfiguration"]["AdjustmentType"] == "ChangeInCapacity"
    ]
    [step] = first["StepScalingPolicyConfiguration"]["StepAdjustments"]
    assert (step["MetricIntervalLowerBound"], step["ScalingAdjustment"]) == (0, 1)
    assert_alarms(system, NIGHT, first, wakes(queues, TASKS))


@GROUPS
def test_no_step_takes_a_task_away_nor_is_taken_for_one_minute_alone(
    system: Deployed, group: WorkerGroup
) -> None:
    steps = policies(system, group, "StepScaling")
    kinds = {each["StepScalingPolicyConfiguration"]["AdjustmentType"] for each in steps}
    assert kinds <= {"PercentChangeInCapacity", "ChangeInCapacity"}
    for alarm in system.of_group(group, "AWS::CloudWatch::Alarm"):
        assert alarm["EvaluationPeriods"] >= 3
        assert "DatapointsToAlarm" not in alarm


@GROUPS
def test_a_service_that_is_made_with_one_task_is_brought_up_to_its_least(
    system: Deployed, group: WorkerGroup
) -> None:
    assert "DesiredCount" not in system.service(group), "each deploy would go back to it"
    [target] = system.of_group(group, "AWS::ApplicationAutoScaling::ScalableTarget")
    actions = target.get("ScheduledActions", [])
    assert [each["ScalableTargetAction"] for each in actions] == (
        [{"MinCapacity": group.min_tasks}] if group.min_tasks > 1 else []
    )


@GROUPS
def test_the_metrics_that_are_paid_for_are_those_of_its_alarms(
    system: Deployed, group: WorkerGroup
) -> None:
    alarms = system.of_group(group, "AWS::CloudWatch::Alarm")
    tracking = policies(system, group, "TargetTrackingScaling")
    specifications = [
        policy["TargetTrackingScalingPolicyConfiguration"]["CustomizedMetricSpecification"]
        for policy in tracking
    ]
    lists = [alarm["Metrics"] for alarm in alarms]
    lists += [each["Metrics"] for each in specifications] * 2
    counted = sum("MetricStat" in query for queries in lists for query in queries)
    assert alarm_metrics(group, group.selection.of(system.app.topology)) == counted


def assert_alarms(
    system: Deployed, group: WorkerGroup, policy: Properties, formulas: Sequence[Formula]
) -> None:
    """Assert that the alarms of that policy are the formulas'."""
    template_policies = resources(system.template, "AWS::ApplicationAutoScaling::ScalingPolicy")
    [logical_id] = [name for name, each in template_policies.items() if each is policy]
    alarms = [
        alarm
        for alarm in system.of_group(group, "AWS::CloudWatch::Alarm")
        if alarm["AlarmActions"] == [{"Ref": logical_id}]
    ]
    for alarm, formula in zip(alarms, formulas, strict=True):
        assert alarm["Threshold"] == formula.target
        assert alarm["ComparisonOperator"] == "GreaterThanOrEqualToThreshold"
        assert alarm["TreatMissingData"] == "notBreaching"
        assert_queries(system, group, alarm["Metrics"], formula)


def assert_queries(
    system: Deployed, group: WorkerGroup, queries: Sequence[Properties], formula: Formula
) -> None:
    """Assert that they are the formula's metrics, with its expression as the only result."""
    *stats, result = queries
    assert (result["Expression"], result["ReturnData"]) == (formula.expression, True)
    assert [query["Id"] for query in stats] == list(formula.metrics)
    for query, metric in zip(stats, formula.metrics.values(), strict=True):
        assert query["ReturnData"] is False
        stat = query["MetricStat"]
        assert (stat["Stat"], stat["Metric"]["MetricName"]) == (metric.statistic, metric.name)
        dimensions = {each["Name"]: each["Value"] for each in stat["Metric"]["Dimensions"]}
        assert stat["Metric"]["Namespace"] == metric.namespace
        if metric.namespace == "AWS/SQS":
            assert dimensions == metric.dimensions
        else:
            assert system.resource(dimensions["ServiceName"]) == system.service(group)


def test_the_default_lanes_promise_no_less_the_less_urgent_they_are() -> None:
    promises = [DEFAULT_LANES[priority].start_within for priority in Priority]
    assert promises == sorted(promises), "the load counts on it"
