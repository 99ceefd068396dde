"""Each alarm goes off when it should, and is silent when it should be."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from headgate import App, Priority
from headgate.infra.monitoring.alarm_rules import roll_back_on, rules_for
from headgate.infra.monitoring.queue_rules import FAILURES, start_within_s
from headgate.infra.monitoring.rule import MOST_NAMED, Rule, pages
from headgate.infra.monitoring.system_rules import FAILURES as FUNCTION_FAILURES
from headgate.jobs.core.topology import DEFAULT_LANES, QueueSpec
from headgate.jobs.deployment.alarms.mutes import MuteWindow
from headgate.jobs.deployment.alarms.thresholds import (
    MAX_IN_FLIGHT,
    MOST_METRICS,
    PAGES,
    QueueThresholds,
    Thresholds,
)
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.groups.consumer_group import ConsumerGroup
from headgate.jobs.deployment.groups.queue_selection import QueueSelection
from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from headgate.jobs.deployment.metric_names import COUNTED, LETTERS_KEPT, NAMESPACE, OF_LANE, WAIT
from headgate.jobs.errors import ConfigurationError
from tests.infra.conftest import ELSEWHERE, Params
from tests.infra.fargate.workers import DEPLOYMENT, deployed, shop
from tests.infra.monitoring.cloudwatch import Minutes, goes_off
from tests.infra.templates import resources

THRESHOLDS = Thresholds()
HOUR = 60
"""Minutes per hour, in CloudWatch's periods."""

SQS_METRICS = {
    "ApproximateAgeOfOldestMessage",
    "ApproximateAgeOfOldestMessageInQuietGroups",
    "ApproximateNumberOfMessagesDelayed",
    "ApproximateNumberOfNoisyGroups",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesVisible",
    "NumberOfEmptyReceives",
    "NumberOfMessagesDeleted",
    "NumberOfMessagesReceived",
    "NumberOfMessagesSent",
}
"""https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-available-cloudwatch-metrics.html"""


def rules(app: App, deployment: Deployment | None = None, *, fires: bool = True) -> dict[str, Rule]:
    found = rules_for(
        app, deployment or Deployment(), bridge=fires, schedules=fires, sweep="shop-test-sweep"
    )
    assert len({rule.name for rule in found}) == len(found)
    return {rule.name: rule for rule in found}


@pytest.fixture(scope="module")
def all_rules(app: App) -> dict[str, Rule]:
    """Return the rules of an app that has one of everything."""
    fast = ConsumerGroup(name="fast", handler="shop.fast", queues=("payments",))
    return rules(app, Deployment(workers=(WorkerGroup(queues=("jobs",)),), consumers=(fast,)))


def steady(value: float, minutes: int = HOUR) -> Minutes:
    return [value] * minutes


IDLE = {
    "waiting": steady(0),
    "received": steady(0),
    "deleted": steady(0),
    "received0": steady(0),
    "received1": steady(0),
    "empty0": steady(3),
    "empty1": steady(3),
    "held0": steady(0),
    "held1": steady(0),
}
"""Queues that are polled and empty; metrics of jobs are not written."""

BUSY = {
    **IDLE,
    "waiting": steady(20),
    "oldest": steady(3),
    "received": steady(600),
    "deleted": steady(600),
    "received0": steady(600),
    "wait": steady(2),
    "completed": steady(580),
    "failed": steady(20),
    "held": steady(50),
    "q0": steady(50),
    "invocations": steady(100),
    "attempts": steady(100),
    "errors": steady(0),
}
"""Ten jobs a second through each queue, with 3 % of the runs failing."""


# --- silence -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seen", [IDLE, BUSY], ids=["idle", "busy"])
def test_no_alarm_goes_off_while_all_is_well(
    all_rules: Mapping[str, Rule], seen: Mapping[str, Minutes]
) -> None:
    assert [name for name, rule in all_rules.items() if goes_off(rule, seen)] == []


def test_where_nothing_is_written_only_workers_that_should_poll_are_missed(
    all_rules: Mapping[str, Rule],
) -> None:
    assert [name for name, rule in all_rules.items() if goes_off(rule, {})] == ["workers-silent"]


# --- each queue ----------------------------------------------------------------------------------


def test_every_queue_has_its_alarms(app: App, all_rules: Mapping[str, Rule]) -> None:
    kinds = ("depth", "oldest", "late", "failing", "dead")
    of_queues = {
        f"{spec.group}-{spec.priority}-{kind}" for spec in app.topology.queues for kind in kinds
    }
    assert of_queues <= all_rules.keys()


def test_a_deep_queue_alarms_once_it_has_been_so_for_five_minutes(
    all_rules: Mapping[str, Rule],
) -> None:
    rule = all_rules["jobs-high-depth"]
    most = THRESHOLDS.depth

    assert goes_off(rule, {"waiting": steady(most + 1, 5)})
    assert not goes_off(rule, {"waiting": steady(most, 5)})
    assert not goes_off(rule, {"waiting": [*steady(most * 10, 3), most, most - 100]}), "it drains"


OLD = THRESHOLDS.oldest.total_seconds()


@pytest.mark.parametrize(
    ("seen", "old"),
    [
        ({"waiting": steady(5), "oldest": steady(OLD + 1), "deleted": steady(50)}, True),
        ({"waiting": steady(5), "oldest": steady(OLD), "deleted": steady(50)}, False),
        ({"waiting": steady(0), "oldest": steady(OLD * 9), "deleted": steady(0)}, False),
        ({"waiting": steady(400), "oldest": steady(0), "deleted": steady(13)}, True),
        ({"waiting": steady(1)}, True),
        ({"waiting": [0, *steady(1, 10)]}, False),
        ({"waiting": steady(390), "oldest": steady(OLD), "deleted": steady(13)}, False),
    ],
    ids=[
        "a job is too old",
        "a job is as old as it may get",
        "what is old runs, or waits for a retry",
        "jobs that were received three times: SQS tells no age, but they are more than are done",
        "a single job that nobody does, of whose age SQS tells nothing",
        "a job came ten minutes ago",
        "what waits is done in the time allowed",
    ],
)
def test_old_jobs_alarm_by_sqs_s_word_and_by_the_pace_of_the_queue(
    all_rules: Mapping[str, Rule], seen: Mapping[str, Minutes], old: bool
) -> None:
    assert goes_off(all_rules["jobs-normal-oldest"], seen) is old


def _spec(app: App, priority: Priority) -> QueueSpec:
    return app.topology.queue("jobs", priority)


@pytest.mark.parametrize("priority", list(Priority))
def test_jobs_that_start_late_alarm_by_what_started_and_by_what_did_not(
    app: App, all_rules: Mapping[str, Rule], priority: Priority
) -> None:
    rule = all_rules[f"jobs-{priority}-late"]
    target = start_within_s(_spec(app, priority))
    per_target = target / 60

    assert goes_off(rule, {**BUSY, "wait": steady(target + 1, 2 * HOUR)})
    assert not goes_off(rule, {**BUSY, "wait": steady(target, 2 * HOUR)})
    assert goes_off(rule, {"waiting": steady(1, 2 * HOUR)}), "nobody takes it, and nobody says so"
    slow, quick = 10 * per_target + 1, 10 * per_target
    assert goes_off(rule, {"waiting": steady(slow), "received": steady(10)})
    assert not goes_off(rule, {"waiting": steady(quick), "received": steady(10)})


@pytest.mark.parametrize("priority", list(Priority))
def test_jobs_are_late_no_sooner_than_their_lane_says_and_soon_after(
    app: App, all_rules: Mapping[str, Rule], priority: Priority
) -> None:
    """An alarm needs three of its periods: together a target's length, or three minutes."""
    rule = all_rules[f"jobs-{priority}-late"]
    target = start_within_s(_spec(app, priority))

    needed_s = rule.points * rule.period_s
    assert target <= needed_s <= max(3 * 60, target + 3 * 60)
    waiting: list[float | None] = [0] * HOUR
    assert not goes_off(rule, {"waiting": [*waiting, *[1.0] * (target // 60 - 1)]})
    assert goes_off(rule, {"waiting": [*waiting, *[1.0] * (5 * rule.period_s // 60)]})


def test_a_lane_s_own_target_is_the_alarm_s() -> None:
    app = App("shop", stage="test")
    patient = replace(DEFAULT_LANES[Priority.LOW], start_within=timedelta(hours=2))
    app.queue("nightly", priorities=[Priority.LOW], lanes={Priority.LOW: patient}).define(
        "report", Params
    )
    rule = rules(app)["nightly-low-late"]

    assert not goes_off(rule, {"waiting": [*steady(0), *steady(1, 119)]})
    assert goes_off(rule, {"waiting": [*steady(0), *steady(1, 120)]})
    assert not goes_off(rule, {"wait": steady(7_200, 5 * HOUR)})
    assert goes_off(rule, {"wait": steady(7_201, 5 * HOUR)})


def test_a_late_latest_minute_hides_no_late_job(all_rules: Mapping[str, Rule]) -> None:
    rule = all_rules["jobs-critical-late"]
    assert goes_off(rule, {**BUSY, "wait": [*steady(90), None], "waiting": [*steady(0), None]})


@pytest.mark.parametrize(
    ("failed", "completed", "alarms"),
    [
        (60, 940, True),
        (50, 950, False),
        (0, 0, False),
        (FAILURES, 0, True),
        (FAILURES - 1, 0, False),
    ],
)
def test_failing_runs_alarm_by_their_rate_if_they_are_more_than_a_few(
    all_rules: Mapping[str, Rule], failed: float, completed: float, alarms: bool
) -> None:
    seen = {"failed": [failed, *steady(0, 14)], "completed": [completed, *steady(0, 14)]}
    assert goes_off(all_rules["jobs-high-failing"], seen) is alarms


def test_dead_letters_alarm_when_they_are_many_and_of_critical_types_at_once() -> None:
    app = App("shop", stage="test")
    app.define("send-email", Params, priority=Priority.HIGH)
    app.define("capture", Params, priority=Priority.CRITICAL, alert_at_once=True)
    told = rules(app)
    most = THRESHOLDS.dead_letters

    assert goes_off(told["jobs-high-dead"], {"dead": steady(most + 1, 5)})
    assert not goes_off(told["jobs-high-dead"], {"dead": steady(most, 5)})
    assert goes_off(told["jobs-critical-dead"], {"dead": [0, 0, 0, 0, 1]})
    assert not goes_off(told["jobs-critical-dead"], {"dead": steady(0, 5)})


def test_a_dead_letter_alarm_stays_on_while_somebody_looks_at_the_letters(
    all_rules: Mapping[str, Rule],
) -> None:
    many = float(THRESHOLDS.dead_letters + 1)
    assert goes_off(all_rules["jobs-high-dead"], {"dead": [many, many, 0, 0, many]})


def test_a_sweep_that_hides_a_critical_dead_letter_does_not_end_its_alarm() -> None:
    app = App("shop", stage="test")
    app.define("capture", Params, priority=Priority.CRITICAL, alert_at_once=True)
    told = rules(app)["jobs-critical-dead"]
    assert goes_off(told, {"dead": [1, 1, 1, 1, 0]})
    assert goes_off(told, {"dead": [1, 1, 1, 0, 0]})


def test_in_flight_alarms_before_sqs_gives_out_nothing(all_rules: Mapping[str, Rule]) -> None:
    rule = all_rules["in-flight"]
    assert rule.threshold < MAX_IN_FLIGHT
    assert goes_off(rule, {**BUSY, "q3": steady(THRESHOLDS.in_flight + 1)})
    assert not goes_off(rule, {**BUSY, "q3": steady(THRESHOLDS.in_flight)})


# --- workers -------------------------------------------------------------------------------------


def test_workers_that_should_be_there_are_missed_though_nothing_waits(app: App) -> None:
    rule = rules(app, Deployment(workers=(WorkerGroup(min_tasks=1),)))["workers-silent"]
    gone = {name: steady(0) for name in rule.metrics}

    assert goes_off(rule, gone)
    assert not goes_off(rule, {**gone, "empty1": steady(3)}), "one of its queues is polled"
    assert not goes_off(rule, {**gone, "held1": steady(50)}), "all slots are taken by long jobs"
    assert not goes_off(rule, {**gone, "empty0": [*steady(0), *steady(0, 13), 3]}), "it is back"


def test_workers_that_may_be_none_are_missed_when_something_waits(app: App) -> None:
    rule = rules(app, Deployment(workers=(WorkerGroup(min_tasks=0),)))["workers-silent"]

    assert not goes_off(rule, {})
    assert goes_off(rule, {"waiting1": steady(4)})
    assert not goes_off(rule, {"waiting1": [*steady(0), *steady(4, 14)]}), (
        "a task takes a while to start"
    )
    assert not goes_off(rule, {"waiting1": steady(4), "received0": steady(1)}), "somebody works"


def test_workers_elsewhere_are_missed_when_something_waits(app: App) -> None:
    rule = rules(app, ELSEWHERE)["workers-silent"]

    assert not goes_off(rule, {})
    assert goes_off(rule, {"waiting4": steady(1)})


def test_where_functions_serve_all_queues_no_worker_is_missed(app: App) -> None:
    functions = Deployment(workers=(), consumers=(ConsumerGroup(name="all", handler="shop.all"),))
    assert not [name for name in rules(app, functions) if name.endswith("-silent")]


# --- the whole app -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["quarantine", "failed-firings", "failed-sweeps"])
def test_a_single_job_that_is_set_aside_alarms(all_rules: Mapping[str, Rule], name: str) -> None:
    assert goes_off(all_rules[name], {"kept": [0, 0, 0, 0, 1]})
    assert not goes_off(all_rules[name], {"kept": steady(0)})


@pytest.mark.parametrize(("name", "whole"), [("bridge", "invocations"), ("schedules", "attempts")])
def test_firings_that_fail_alarm_by_their_rate(
    all_rules: Mapping[str, Rule], name: str, whole: str
) -> None:
    rule = all_rules[name]
    assert rule.threshold == THRESHOLDS.schedules_percent
    assert goes_off(rule, {whole: steady(1_000, 15), "errors": steady(11, 15)})
    assert not goes_off(rule, {whole: steady(1_000, 15), "errors": steady(10, 15)})
    assert not goes_off(rule, {whole: [1], "errors": [1]}), "one is for its retries to mend"


def test_firings_that_are_given_up_alarm_beside_those_that_fail(
    all_rules: Mapping[str, Rule],
) -> None:
    assert goes_off(all_rules["schedules"], {"attempts": [3], "errors": [1], "dropped": [2]})


@pytest.mark.parametrize("name", ["sweep", "fast-errors"])
def test_a_function_that_fails_as_a_whole_alarms(all_rules: Mapping[str, Rule], name: str) -> None:
    assert goes_off(all_rules[name], {"errors": [FUNCTION_FAILURES]})
    assert not goes_off(all_rules[name], {"errors": [FUNCTION_FAILURES - 1]})


def test_an_app_without_a_bridge_has_no_alarms_for_it(app: App) -> None:
    assert not {"bridge", "failed-firings", "schedules"} & rules(app, fires=False).keys()


# --- watched resources ---------------------------------------------------------------------------


def test_the_thresholds_are_the_deployments(app: App) -> None:
    stage = Thresholds(depth=7, oldest=timedelta(minutes=2), failed_percent=50)
    told = rules(app, Deployment(alarms=stage))

    assert told["jobs-low-depth"].threshold == 7
    assert told["jobs-low-failing"].threshold == 50
    assert goes_off(told["jobs-low-oldest"], {"waiting": steady(1), "oldest": steady(121)})


def test_a_queue_s_own_thresholds_replace_those_of_all(app: App) -> None:
    own = QueueThresholds(depth=7, oldest=120, failed_percent=50)
    told = rules(app, Deployment(alarms=Thresholds(dead_letters=3, queues={"payments": own})))

    assert told["payments-low-depth"].threshold == 7
    assert told["payments-low-failing"].threshold == 50
    assert told["payments-low-dead"].threshold == 3
    assert goes_off(told["payments-low-oldest"], {"waiting": steady(1), "oldest": steady(121)})
    assert told["jobs-low-depth"].threshold == THRESHOLDS.depth


def test_dead_letters_of_all_queues_together_alarm(all_rules: Mapping[str, Rule]) -> None:
    most = THRESHOLDS.all_dead_letters
    assert goes_off(all_rules["dead-letters"], {"kept": steady(most + 1, 15)})
    assert not goes_off(all_rules["dead-letters"], {"kept": steady(most, 15)})


# --- tenants -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["late", "oldest"])
def test_one_noisy_tenant_sets_off_no_alarm_while_the_others_jobs_start_in_time(
    app: App, kind: str
) -> None:
    told = rules(app)[f"jobs-high-{kind}"]
    flood: dict[str, Minutes] = {
        "waiting": steady(90_000),
        "oldest": steady(9_000),
        "wait": steady(9_000),
        "received": steady(10),
        "deleted": steady(10),
    }
    assert goes_off(told, flood), "nobody is noisy: these are everybody's jobs"
    assert not goes_off(told, {**flood, "noisy": steady(1), "quiet": steady(2)})
    assert goes_off(told, {**flood, "noisy": steady(1), "quiet": steady(9_000)})


def test_sqs_tells_no_noisy_tenants_of_fifo_queues() -> None:
    app = App("shop", stage="test")
    app.queue("ledger", fifo=True).define("book", Params)
    told = rules(app)
    ledger = [rule for name, rule in told.items() if name.startswith("ledger-")]
    assert ledger
    assert not any("noisy" in rule.metrics for rule in ledger)


def test_an_app_without_tenants_may_save_their_metrics(app: App) -> None:
    told = rules(app, Deployment(alarms=Thresholds(by_tenant=False)))
    assert not any("noisy" in rule.metrics for rule in told.values())
    assert goes_off(told["jobs-high-oldest"], {"waiting": steady(1), "oldest": steady(9_000)})


# --- pages and tickets ---------------------------------------------------------------------------


def test_what_keeps_jobs_from_being_run_pages_and_what_has_ended_does_not(
    all_rules: Mapping[str, Rule],
) -> None:
    paging = {rule.kind for rule in all_rules.values() if rule.severity == "page"}
    assert paging <= set(PAGES)
    assert {"late", "oldest", "failing", "silent", "errors"} <= paging
    assert not paging & {"depth", "dead", "dead-letters", "quarantine", "sweep"}


def test_the_kinds_that_page_are_the_deployments(app: App) -> None:
    told = rules(app, Deployment(alarms=Thresholds(pages=("depth",))))
    assert {rule.kind for rule in told.values() if rule.severity == "page"} == {"depth"}


def test_an_outage_of_a_group_is_one_page_whichever_queues_it_serves(app: App) -> None:
    fast = WorkerGroup(name="fast", queues=("payments",))
    slow = WorkerGroup(name="slow", queues=("jobs",))
    found = pages(list(rules(app, Deployment(workers=(fast, slow))).values()))

    assert found.keys() == {"fast-page", "slow-page", "app-page"}
    names = {name: {rule.name for rule in members} for name, (_, members) in found.items()}
    assert {"payments-low-late", "fast-silent"} <= names["fast-page"]
    assert {"jobs-high-late", "jobs-low-oldest", "slow-silent"} <= names["slow-page"]
    assert names["app-page"] == {"bridge", "schedules", "in-flight"}


def test_no_page_names_more_alarms_than_aws_allows() -> None:
    app = App("shop", stage="test", priorities="all")
    for number in range(10):
        app.queue(f"group-{number}").define(f"type-{number}", Params)
    found = pages(list(rules(app).values()))
    assert {"workers-page", "workers-page-2"} <= found.keys()
    assert all(len(members) <= MOST_NAMED for _, members in found.values())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"queues": {"jobs": {}}}, "must be a mapping"),
        ({"pages": ("late", "deep")}, "must be a tuple"),
        ({"depth": 0}, "depth must be positive"),
        ({"oldest": timedelta(0)}, "oldest must be positive"),
        ({"in_flight": MAX_IN_FLIGHT}, "never reached"),
        ({"failed_percent": 100}, "under 100"),
    ],
)
def test_thresholds_that_make_no_sense_are_refused(wrong: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Thresholds(**wrong)


def many_queues() -> App:
    app = App("shop", stage="test")
    for number in range(12):
        app.queue(f"group-{number}", fifo=number % 2 == 0).define(f"type-{number}", Params)
    return app


def test_each_alarm_of_a_large_app_stays_within_the_aws_limit() -> None:
    app = many_queues()
    told = rules(app).values()

    assert all(len(rule.metrics) <= MOST_METRICS for rule in told)
    in_flight = [
        series.dimensions["QueueName"]
        for rule in told
        if rule.name.startswith("in-flight")
        for series in rule.metrics.values()
    ]
    assert in_flight == [spec.name for spec in app.topology.queues]
    assert any(name.endswith(".fifo") for name in in_flight)


def test_every_metric_that_is_watched_is_one_that_is_written(
    app: App, all_rules: Mapping[str, Rule]
) -> None:
    topology = app.topology
    queues = {
        *(spec.name for spec in topology.queues),
        *(spec.dlq_name for spec in topology.queues),
        topology.quarantine_name,
        topology.failed_firings_name,
        topology.failed_sweeps_name,
    }
    lanes = {(spec.group, str(spec.priority)) for spec in topology.queues}
    for series in (each for rule in all_rules.values() for each in rule.metrics.values()):
        named = series.dimensions
        match series.namespace:
            case "AWS/SQS":
                assert series.name in SQS_METRICS
                assert named["QueueName"] in queues
            case namespace if namespace == NAMESPACE:
                assert named["service"] == "shop-test"
                if series.name == LETTERS_KEPT:
                    continue
                assert series.name in {*COUNTED.values(), WAIT}
                assert named.keys() == OF_LANE
                assert (named["queue"], named["priority"]) in lanes
            case "AWS/Scheduler":
                assert named == {"ScheduleGroup": topology.schedule_group}
            case namespace:
                assert namespace == "AWS/Lambda"
                assert series.name in {"Errors", "Invocations"}


def test_every_expression_uses_each_of_its_metrics_and_no_other(
    all_rules: Mapping[str, Rule],
) -> None:
    for rule in all_rules.values():
        if rule.expression is None:
            assert len(rule.metrics) == 1
        else:
            assert set(re.findall(r"FILL\((\w+), 0\)", rule.expression)) == rule.metrics.keys()
            assert "SEARCH" not in rule.expression, "CloudWatch takes none in an alarm"


# --- the template --------------------------------------------------------------------------------


def alarms(template: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return list(resources(template, "AWS::CloudWatch::Alarm", "JobsWatching").values())


def test_every_rule_is_an_alarm_that_opens_a_ticket_and_tells_its_end(
    app: App, template: Mapping[str, Any]
) -> None:
    [tickets] = resources(template, "AWS::SNS::Topic", "JobsAlertsTickets")
    expected = rules(app, ELSEWHERE)
    found = {alarm["AlarmName"]: alarm for alarm in alarms(template)}

    assert {f"shop-test-{name}" for name in expected} == found.keys()
    for alarm in found.values():
        assert alarm["AlarmActions"] == alarm["OKActions"] == [{"Ref": tickets}]


def test_the_pages_are_composite_alarms_of_alarms_that_exist(
    app: App, template: Mapping[str, Any]
) -> None:
    [topic] = resources(template, "AWS::SNS::Topic", "JobsAlertsTopic")
    composites = {
        logical_id: each
        for logical_id, each in template["Resources"].items()
        if each["Type"] == "AWS::CloudWatch::CompositeAlarm"
    }
    there = {alarm["AlarmName"] for alarm in alarms(template)}
    named = {each["Properties"]["AlarmName"] for each in composites.values()}
    assert named == {f"shop-test-{name}" for name in pages(list(rules(app, ELSEWHERE).values()))}
    for each in composites.values():
        rule = each["Properties"]["AlarmRule"]
        assert set(re.findall(r'ALARM\("([^"]+)"\)', rule)) <= there
        assert len(rule) <= 10_240
        assert each["Properties"]["AlarmActions"] == [{"Ref": topic}]
        assert any(of.startswith("JobsWatchingAlarms") for of in each["DependsOn"])


def test_nobody_is_told_in_a_mute_window_and_scaling_goes_on() -> None:
    night = MuteWindow(
        schedule="cron(0 22 * * *)", duration=timedelta(hours=8), timezone="Europe/Berlin"
    )
    release = MuteWindow(schedule="at(2026-12-24T18:00)", severity="page")
    deployment = replace(DEPLOYMENT, mutes=(night, release), notify_recovery=False)
    template = deployed(shop(), deployment).template
    muted = resources(template, "AWS::CloudWatch::AlarmMuteRule").values()
    by_window: dict[str, set[str]] = {}
    for rule in muted:
        targets = rule["MuteTargets"]["AlarmNames"]
        assert len(targets) <= MOST_NAMED
        by_window.setdefault(rule["Rule"]["Schedule"]["Expression"], set()).update(targets)
    [schedule] = {json.dumps(each["Rule"]) for each in muted if "-mute-1" in each["Name"]}
    assert json.loads(schedule)["Schedule"] == {
        "Expression": "cron(0 22 * * *)",
        "Duration": "PT480M",
        "Timezone": "Europe/Berlin",
    }
    composites = resources(template, "AWS::CloudWatch::CompositeAlarm").values()
    paging = {each["AlarmName"] for each in composites}
    tickets = {alarm["AlarmName"] for alarm in alarms(template)}
    assert by_window == {
        "cron(0 22 * * *)": paging | tickets,
        "at(2026-12-24T18:00)": paging,
    }
    scaling = resources(template, "AWS::CloudWatch::Alarm", "JobsWorkers").values()
    assert scaling
    assert all("AlarmName" not in alarm for alarm in scaling), "what has no name can't be muted"
    assert not any("OKActions" in each for each in (*composites, *alarms(template)))


@pytest.mark.parametrize("nested", [(), ("payments",)], ids=["in the stack", "nested"])
def test_a_bad_release_is_known_by_the_alarms_of_the_queues_that_it_serves(
    app: App, nested: tuple[str, ...]
) -> None:
    deployment = Deployment(nested=nested)
    named = {
        rule.alarm_name("shop-test")
        for rule in rules(app, deployment).values()
        if rule.kind == "failing"
    }
    assert set(roll_back_on(app, deployment, QueueSelection())) == named
    of_payments = {name for name in named if "payments-" in name}
    assert len(of_payments) == 2
    assert set(roll_back_on(app, deployment, QueueSelection(queues=("payments",)))) == of_payments
    assert roll_back_on(app, replace(deployment, alarms=None), QueueSelection()) == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"schedule": "rate(1 hour)"}, "cron"),
        ({"schedule": "cron(0 22 * * ? *)"}, "five fields"),
        ({"schedule": "at(2026-02-30T18:00)"}, r"got .at\(2026-02-30"),
        ({"schedule": "at(2026-12-24T24:30)"}, r"got .at\(2026-12-24T24"),
        ({"schedule": "at(2026-12-24T18:00)", "duration": 30}, "a minute to 15 days"),
        ({"schedule": "at(2026-12-24T18:00)", "timezone": "Mars"}, "IANA"),
    ],
)
def test_windows_that_cloudwatch_does_not_know_are_refused(wrong: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        MuteWindow(**wrong)


def test_every_alarm_says_what_it_means_what_is_likely_and_what_to_do_first(
    template: Mapping[str, Any],
) -> None:
    for alarm in alarms(template):
        text = alarm["AlarmDescription"]
        assert re.fullmatch(r".+\. Likely: .+\. First: .+\.", text, re.DOTALL), text
        assert len(text) <= 1024


def test_an_alarm_is_deployed_as_its_rule_says(app: App, template: Mapping[str, Any]) -> None:
    found = {alarm["AlarmName"].removeprefix("shop-test-"): alarm for alarm in alarms(template)}
    for name, rule in rules(app, ELSEWHERE).items():
        alarm = found[name]
        assert alarm["Threshold"] == rule.threshold
        assert alarm["ComparisonOperator"] == (
            "GreaterThanOrEqualToThreshold" if rule.at else "GreaterThanThreshold"
        )
        assert alarm["EvaluationPeriods"] == rule.periods
        assert alarm["DatapointsToAlarm"] == rule.points
        assert alarm["TreatMissingData"] == ("breaching" if rule.silence_alarms else "notBreaching")
        watched = [each["MetricStat"] for each in alarm.get("Metrics", []) if "MetricStat" in each]
        assert all(each["Period"] == rule.period_s for each in watched)
        if rule.expression is None:
            assert alarm["Period"] == rule.period_s
        else:
            [told] = [each for each in alarm["Metrics"] if each.get("ReturnData", True)]
            assert told["Expression"] == rule.expression
            assert len(watched) == len(rule.metrics)


def test_a_period_is_one_that_cloudwatch_takes() -> None:
    for rule in rules(many_queues()).values():
        assert rule.period_s % 60 == 0
        longest_s = 604_800 if rule.period_s >= 3_600 else 86_400
        assert rule.period_s * rule.periods <= longest_s


def test_the_queues_that_are_watched_are_in_the_template(template: Mapping[str, Any]) -> None:
    queues = {each["QueueName"] for each in resources(template, "AWS::SQS::Queue").values()}
    watched = {
        dimension["Value"]
        for alarm in alarms(template)
        for dimensions in (
            alarm.get("Dimensions", []),
            *(
                each["MetricStat"]["Metric"]["Dimensions"]
                for each in alarm.get("Metrics", [])
                if "MetricStat" in each
            ),
        )
        for dimension in dimensions
        if dimension["Name"] == "QueueName"
    }
    assert watched == queues


def test_what_alarms_there_are_is_known_without_cdk() -> None:
    """So ``headgate cost`` counts them where CDK is not installed."""
    code = "import sys, headgate.infra.monitoring.alarm_rules; print(*sys.modules)"
    answered = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert answered.returncode == 0, answered.stderr
    assert not {"aws_cdk", "constructs", "jsii"} & set(answered.stdout.split())
