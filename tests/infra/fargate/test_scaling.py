"""The number of tasks follows the backlog: the formulas' values, and the policies made of them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.scaling.scenarios import PARTS, SCENARIOS, Scenario
from headgate.infra.fargate.scaling_formulas import (
    LOAD,
    Formula,
    TaskCounts,
    alarm_metrics,
    load,
    overdue,
    wake,
    watched_load,
)
from headgate.infra.monitoring.metrics import running_tasks, tasks_busy, tasks_wanted
from headgate.jobs.core.topology import DEFAULT_LANES, Priority, QueueSpec
from headgate.jobs.deployment.alarms.thresholds import MOST_METRICS
from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from headgate.jobs.deployment.metric_names import TASKS_BUSY, TASKS_WANTED
from headgate.jobs.deployment.scaling import backlog
from headgate.jobs.deployment.scaling.backlog import (
    PERIOD_S,
    QueueLoad,
    acceptable_backlog,
    is_counted,
)
from tests.infra.fargate.workers import DEPLOYMENT, NIGHT, Deployed, deployed, shop
from tests.infra.templates import Properties, resources
from tests.support.autoscaling import Told, policies_of, scaled, value

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
COUNTS = TaskCounts(
    running=running_tasks("workers", "shop-test-workers"),
    wanted=tasks_wanted(SHOP.topology, "workers"),
    busy=tasks_busy(SHOP.topology, "workers"),
)


def waiting(depths: Mapping[QueueSpec, float], *, running: int) -> Told:
    """Return metrics of that many visible messages and tasks."""
    told: dict[tuple[str | None, str], float] = {(None, RUNNING): running}
    told.update({(queue.name, VISIBLE): depth for queue, depth in depths.items()})
    return told


def loaded(group: WorkerGroup, told: Told) -> float:
    """Return the load of a group with few queues."""
    return value(load(group, JOBS, COUNTS), told)


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
    acceptable = acceptable_backlog(group, queue)
    assert loaded(group, waiting({queue: 3 * acceptable}, running=3)) == pytest.approx(LOAD)
    assert loaded(group, waiting({queue: 3 * acceptable}, running=1)) == pytest.approx(3 * LOAD)


def test_urgent_jobs_weigh_more_than_as_many_that_may_wait() -> None:
    group = WorkerGroup()
    weights = [loaded(group, waiting({queue: 1000}, running=1)) for queue in JOBS]
    assert weights == sorted(weights, reverse=True)
    assert weights[1] == pytest.approx(15 * weights[3])


def test_a_group_keeps_its_last_task_while_jobs_wait_or_are_in_flight() -> None:
    for metric in (VISIBLE, FLYING):
        assert loaded(SLEEPY, {(LOW.name, metric): 1, (None, RUNNING): 1}) == LOAD
    assert loaded(SLEEPY, {(None, RUNNING): 1}) == 0


@pytest.mark.parametrize("group", [WorkerGroup(), SLEEPY], ids=["stays", "sleeps"])
@pytest.mark.parametrize(
    ("flying", "running", "kept"),
    [(200, 4, 4), (100, 4, 2), (5_000, 4, 4), (0, 4, 0)],
    ids=["busy", "half busy", "mostly waiting for retries", "idle"],
)
def test_tasks_that_are_busy_stay_and_jobs_in_flight_ask_for_no_more(
    group: WorkerGroup, flying: int, running: int, kept: int
) -> None:
    told: Told = {(LOW.name, FLYING): flying, (None, RUNNING): running}
    assert loaded(group, told) == pytest.approx(kept / running)


def test_only_its_last_task_is_kept_for_the_last_job() -> None:
    assert loaded(SLEEPY, {(LOW.name, FLYING): 1, (None, RUNNING): 4}) == pytest.approx(1 / 4)


def test_a_group_that_may_sleep_grows_as_any_other_does() -> None:
    acceptable = acceptable_backlog(SLEEPY, HIGH)
    assert loaded(SLEEPY, waiting({HIGH: 5 * acceptable}, running=1)) == pytest.approx(5 * LOAD)


# --- beyond an alarm's metrics -------------------------------------------------------------------


def many(count: int) -> list[QueueSpec]:
    return [replace(NORMAL, name=f"shop-{number}-normal") for number in range(count)]


@given(
    jobs=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**4)), min_size=1, max_size=9),
    running=st.integers(1, 50),
    least=st.integers(0, 1),
)
def test_what_is_published_for_many_queues_is_what_an_alarm_reads_of_few(
    jobs: list[tuple[int, int]], running: int, least: int
) -> None:
    group, queues = WorkerGroup(min_tasks=least), many(len(jobs))
    told: dict[tuple[str | None, str], float] = {(None, RUNNING): running}
    backlogs = []
    for queue, (visible, flying) in zip(queues, jobs, strict=True):
        told |= {(queue.name, VISIBLE): visible, (queue.name, FLYING): flying}
        per_task = acceptable_backlog(group, queue)
        backlogs.append(QueueLoad(waiting=visible, in_flight=flying, per_task=per_task))
    published: Told = {
        (None, RUNNING): running,
        (None, TASKS_WANTED): backlog.tasks_wanted(backlogs),
        (None, TASKS_BUSY): backlog.tasks_busy(backlogs, slots=group.slots, sleeps=least == 0),
    }
    read = value(watched_load(group, queues, COUNTS.running), told)
    assert value(load(group, many(10), COUNTS), published) == pytest.approx(read)


@pytest.mark.parametrize("count", [1, 4, 5, 9, 10, 23])
@pytest.mark.parametrize("least", [0, 1])
def test_formulas_cover_every_queue_within_an_alarms_limit_of_metrics(
    count: int, least: int
) -> None:
    group, queues = WorkerGroup(min_tasks=least), many(count)
    for formulas in ([load(group, queues, COUNTS)], overdue(queues), [wake(queues, COUNTS)]):
        series = [metric for formula in formulas for metric in formula.metrics.values()]
        assert all(len(formula.metrics) <= MOST_METRICS for formula in formulas)
        watched = [each.dimensions["QueueName"] for each in series if each.name == VISIBLE]
        published = TASKS_WANTED in {each.name for each in series}
        assert sorted(watched) == ([] if published else sorted(queue.name for queue in queues))
        assert not published or is_counted(queues)


@GROUPS
def test_an_expression_names_the_metrics_that_it_has(group: WorkerGroup) -> None:
    for queues in (JOBS, QUEUES):
        for formula in (load(group, queues, COUNTS), *overdue(queues), wake(queues, COUNTS)):
            expressions = [*formula.parts.values(), formula.expression]
            named = set(re.findall(r"\b[a-z]+\d*\b", " ".join(expressions)))
            assert named == {*formula.metrics, *formula.parts}


# --- a fleet in virtual time ---------------------------------------------------------------------

SCENARIO = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)


@SCENARIO
def test_a_fleet_keeps_the_size_that_the_load_needs(scenario: Scenario) -> None:
    """No sawtooth: it grows, shrinks to what the load fills, and stays so."""
    tasks = scenario.scaled()
    turns = [b - a for a, b in itertools.pairwise(tasks) if a != b]
    up = [turn > 0 for turn in turns]
    assert sum(before != after for before, after in itertools.pairwise(up)) <= 1
    assert tasks[-1] == scenario.group.min_tasks, "in the end it has shrunk"


@SCENARIO
def test_a_fleet_does_all_the_work_in_time(scenario: Scenario) -> None:
    fleet = scenario.fleet()
    scaled(fleet, scenario.minutes, *policies_of(scenario.group, fleet.queues))
    assert sum(fleet.depths) == pytest.approx(0, abs=1)


def test_one_hot_queue_among_many_gets_what_it_needs_and_not_five_times_that() -> None:
    [scenario] = [each for each in SCENARIOS if each.name == "many-queues"]
    steady = 8  # 400 jobs of a second, 50 to a task
    late = slice(60, 75)  # before the load ends, and after what had piled up is done
    assert set(scenario.ideal()[late]) == {steady}
    assert set(scenario.scaled()[late]) == {steady}
    assert set(scenario.in_parts(PARTS)[late]) == {PARTS * steady}, "as it was"


def test_a_first_task_is_there_within_seven_minutes() -> None:
    [scenario] = [each for each in SCENARIOS if each.name == "from-zero"]
    tasks = scenario.scaled()
    assert tasks.index(1) - 20 <= 7
    assert max(tasks[:20]) == 0


# --- overdue jobs, and the first task ------------------------------------------------------------


def late(queue: QueueSpec, *, age_s: float, depth: float) -> bool:
    [formula] = overdue(JOBS)
    told: Told = {(queue.name, OLDEST): age_s, (queue.name, VISIBLE): depth}
    return value(formula, told) >= LOAD


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
    told = waiting({LOW: depth}, running=running)
    assert (value(wake(JOBS, COUNTS), told) >= LOAD) is wakes_up
    published: Told = {(None, TASKS_WANTED): depth / 10**6, (None, RUNNING): running}
    assert (value(wake(QUEUES, COUNTS), published) >= LOAD) is wakes_up


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
    [policy] = policies(system, group, "TargetTrackingScaling")
    configuration = policy["TargetTrackingScalingPolicyConfiguration"]
    assert configuration["TargetValue"] == LOAD
    assert configuration["ScaleOutCooldown"] < configuration["ScaleInCooldown"]
    queries = configuration["CustomizedMetricSpecification"]["Metrics"]
    assert_queries(system, group, queries, load(group, queues, COUNTS))


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
    assert_alarms(system, NIGHT, first, [wake(queues, COUNTS)])


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
        assert alarm["Threshold"] == LOAD
        assert alarm["ComparisonOperator"] == "GreaterThanOrEqualToThreshold"
        assert alarm["TreatMissingData"] == "notBreaching"
        assert_queries(system, group, alarm["Metrics"], formula)


def assert_queries(
    system: Deployed, group: WorkerGroup, queries: Sequence[Properties], formula: Formula
) -> None:
    """Assert that they are the formula's metrics, with its expression as the only result."""
    stats = [query for query in queries if "MetricStat" in query]
    *parts, result = [query for query in queries if "Expression" in query]
    assert (result["Expression"], result["ReturnData"]) == (formula.expression, True)
    assert {query["Id"]: query["Expression"] for query in parts} == formula.parts
    assert [query["Id"] for query in stats] == list(formula.metrics)
    assert not any(query["ReturnData"] for query in (*stats, *parts))
    for query, metric in zip(stats, formula.metrics.values(), strict=True):
        stat = query["MetricStat"]
        assert (stat["Stat"], stat["Metric"]["MetricName"]) == (metric.statistic, metric.name)
        dimensions = {each["Name"]: each["Value"] for each in stat["Metric"]["Dimensions"]}
        assert stat["Metric"]["Namespace"] == metric.namespace
        if metric.name == RUNNING:
            assert system.resource(dimensions["ServiceName"]) == system.service(group)
        elif metric.name in (TASKS_WANTED, TASKS_BUSY):
            assert dimensions == {"service": "shop-test", "group": group.name}
        else:
            assert dimensions == metric.dimensions


def test_the_default_lanes_promise_no_less_the_less_urgent_they_are() -> None:
    promises = [DEFAULT_LANES[priority].start_within for priority in Priority]
    assert promises == sorted(promises), "the load counts on it"
