"""Resources for delays and for schedules made at run time: their names and permissions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_iam as iam

from headgate import App, Priority, Schedule, cron
from headgate.infra.job_system import JobSystem
from headgate.infra.stack import HeadgateStack
from headgate.jobs.aws.schedule_wire import AwsPlace, create_request
from headgate.jobs.core.naming import role_in
from headgate.jobs.core.ports.scheduler import ScheduleSpec
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.errors import ConfigurationError
from tests.infra.conftest import ELSEWHERE, NO_BUNDLING, Params
from tests.infra.templates import (
    listed,
    name_of,
    resources,
    statements,
    synthesized,
    template_of,
)

ENVIRONMENT = cdk.Environment(account="123456789012", region="eu-central-1")


def declared(**options: Any) -> App:
    app = App("shop", stage="test", **options)
    app.define("send-email", Params, priority=Priority.HIGH)
    app.define("report", Params, priority=Priority.LOW)
    return app


def granting(app: App) -> Mapping[str, Any]:
    """Return a stack with a role for each possible grant, in a known region."""
    stack = cdk.Stack(cdk.App(context=NO_BUNDLING), "Own", env=ENVIRONMENT)
    system = JobSystem(stack, "Jobs", app=app, deployment=ELSEWHERE)
    tasks = iam.ServicePrincipal("ecs-tasks.amazonaws.com")
    system.grant_submit(iam.Role(stack, "Web", assumed_by=tasks))
    system.grant_work(iam.Role(stack, "Worker", assumed_by=tasks))
    system.grant_manage_schedules(iam.Role(stack, "Console", assumed_by=tasks))
    return template_of(stack)


@pytest.fixture(scope="module")
def granted() -> Mapping[str, Any]:
    return granting(declared())


def policy(template: Mapping[str, Any], role: str) -> list[Mapping[str, Any]]:
    [found] = [
        each["PolicyDocument"]["Statement"]
        for logical_id, each in resources(template, "AWS::IAM::Policy").items()
        if logical_id.startswith(role)
    ]
    return list(found)


def scheduling(template: Mapping[str, Any], role: str) -> set[tuple[str, str]]:
    """Return each action on schedules that a role may take, with the name of its target."""
    return {
        (action, "*" if resource == "*" else name_of(template, resource).rpartition(":")[2])
        for statement in policy(template, role)
        for action in listed(statement["Action"])
        for resource in listed(statement["Resource"])
        if action.startswith("scheduler:")
    }


def test_what_is_made_at_run_time_finds_what_the_stack_has_by_its_names(
    granted: Mapping[str, Any],
) -> None:
    topology = declared().topology
    spec = ScheduleSpec(
        group=topology.schedule_group,
        name="delay.1",
        expression="at(2100-01-01T00:00:00)",
        function=topology.bridge_name,
        role=topology.scheduler_role,
        dead_letters=topology.failed_firings_name,
        input="{}",
    )
    place = AwsPlace(partition="aws", account="123456789012", region="eu-central-1")
    request = create_request(spec, place, "token")

    [group] = resources(granted, "AWS::Scheduler::ScheduleGroup", "JobsSchedules").values()
    [function] = resources(granted, "AWS::Lambda::Function", "JobsBridge").values()
    roles = {each.get("RoleName") for each in resources(granted, "AWS::IAM::Role").values()}
    assert group["Name"] == request["GroupName"] == "shop-test"
    assert request["Target"]["Arn"] == (
        f"arn:aws:lambda:eu-central-1:123456789012:function:{function['FunctionName']}"
    )
    assert role_in(topology.scheduler_role, "eu-central-1") in roles
    assert request["Target"]["RoleArn"] == (
        "arn:aws:iam::123456789012:role/shop-test-scheduler-eu-central-1"
    )
    assert request["Target"]["DeadLetterConfig"]["Arn"].endswith(":shop-test-schedules-dlq")


def test_the_bridge_may_feed_every_queue_since_any_job_may_be_delayed() -> None:
    app = declared()
    assert fed_by_the_bridge(app) == {spec.name for spec in app.topology.queues}


def fed_by_the_bridge(app: App) -> set[str]:
    template = synthesized(app)
    return {
        name_of(template, resource)
        for statement in statements(template, "JobsBridge")["lambda.amazonaws.com"]
        if "sqs:GetQueueUrl" in listed(statement["Action"])
        for resource in listed(statement["Resource"])
    }


def test_without_long_delays_the_bridge_feeds_whatever_a_schedule_may_name() -> None:
    app = declared(long_delays=False)
    app.define(
        "daily",
        Params,
        priority=Priority.LOW,
        other_priorities=[Priority.HIGH],
        schedule=cron("0 8 * * ? *"),
    )
    app.queue("mail").define("send-mail", Params)
    assert fed_by_the_bridge(app) == {spec.name for spec in app.topology.queues}


def test_without_any_schedules_the_bridge_feeds_the_queues_of_events_alone() -> None:
    app = declared(long_delays=False)
    placed = app.define("placed", Params, priority=Priority.LOW)
    app.event_rule("order-placed", pattern={"source": ["shop"]}, job=placed)
    assert fed_by_the_bridge(app) == {"shop-test-jobs-low"}


@pytest.mark.parametrize("role", ["Web", "Worker"])
def test_submitters_and_workers_may_only_manage_schedules_of_delays(
    granted: Mapping[str, Any], role: str
) -> None:
    assert scheduling(granted, role) == {
        ("scheduler:CreateSchedule", "schedule/shop-test/delay.*"),
        ("scheduler:GetSchedule", "schedule/shop-test/delay.*"),
        ("scheduler:DeleteSchedule", "schedule/shop-test/delay.*"),
    }


def test_a_schedule_manager_may_change_all_but_only_remove_dynamic_ones(
    granted: Mapping[str, Any],
) -> None:
    names = [name for name, job in declared().types.items() if job.schedule is not None]
    changed = product(("Get", "Update"), [*names, "dynamic.*"])
    assert scheduling(granted, "Console") == {
        *((f"scheduler:{verb}Schedule", f"schedule/shop-test/{name}") for verb, name in changed),
        ("scheduler:CreateSchedule", "schedule/shop-test/dynamic.*"),
        ("scheduler:GetSchedule", "schedule/shop-test/dynamic.*"),
        ("scheduler:DeleteSchedule", "schedule/shop-test/dynamic.*"),
        ("scheduler:ListSchedules", "*"),
    }


def test_every_schedule_of_a_type_is_deployed_and_may_be_changed_by_its_name() -> None:
    app = App("shop", stage="test")
    report = app.define("report", schedule=cron("0 0 * * ? *"))
    report.add_schedule("emea", schedule=cron("0 8 * * ? *", timezone="Europe/Berlin"))
    template = granting(app)
    schedules = resources(template, "AWS::Scheduler::Schedule").values()
    found = [each for each in schedules if "Name" in each]  # without that of the sweep
    times = {each["Name"]: each["ScheduleExpression"] for each in found}
    assert times == {"report": "cron(0 0 * * ? *)", "report.emea": "cron(0 8 * * ? *)"}
    inputs = {json.loads(each["Target"]["Input"])["schedule"] for each in found}
    assert inputs == set(times)
    for name in times:
        assert ("scheduler:UpdateSchedule", f"schedule/shop-test/{name}") in scheduling(
            template, "Console"
        )


@pytest.mark.parametrize("role", ["Web", "Worker", "Console"])
def test_the_schedules_role_is_passed_only_to_the_scheduler(
    granted: Mapping[str, Any], role: str
) -> None:
    passing = [each for each in policy(granted, role) if each["Action"] == "iam:PassRole"]
    assert passing
    for statement in passing:
        assert statement["Condition"] == {
            "StringEquals": {"iam:PassedToService": "scheduler.amazonaws.com"}
        }


def test_without_long_delays_nobody_is_given_schedules() -> None:
    stack = cdk.Stack(cdk.App(context=NO_BUNDLING), "Own")
    system = JobSystem(stack, "Jobs", app=declared(long_delays=False), deployment=ELSEWHERE)
    web = iam.Role(stack, "Web", assumed_by=iam.ServicePrincipal("ecs-tasks.amazonaws.com"))
    system.grant_submit(web)
    template = template_of(stack)
    assert "scheduler:" not in json.dumps(policy(template, "Web"))
    assert not [each for each in template["Resources"] if each.startswith("JobsSchedules")]
    with pytest.raises(ConfigurationError, match="long_delays=True"):
        system.grant_manage_schedules(web)


def test_a_declared_start_is_the_bridge_s_and_a_declared_end_is_deployed() -> None:
    app = App("shop", stage="test")
    start, end = datetime(2030, 1, 1, 8, 30, tzinfo=UTC), datetime(2031, 1, 1, tzinfo=UTC)
    app.define("weekly", Params, schedule=Schedule.rate(timedelta(days=7), start=start, end=end))
    [schedule] = resources(synthesized(app), "AWS::Scheduler::Schedule", "JobsSchedules").values()
    assert schedule["ScheduleExpression"] == "cron(30 8 * * ? *)"
    assert "StartDate" not in schedule
    assert datetime.fromisoformat(schedule["EndDate"]) == end
    given = json.loads(schedule["Target"]["Input"])
    assert given["start"] == {"at": "2030-01-01T08:30:00Z", "every_minutes": 7 * 24 * 60}


def test_a_schedules_template_does_not_depend_on_the_current_time() -> None:
    app = App("shop", stage="test")
    start, end = datetime(2030, 1, 1, tzinfo=UTC), datetime(2031, 1, 1, tzinfo=UTC)
    app.define("daily", Params, schedule=cron("0 8 * * ? *", start=start, end=end))
    app.define("often", Params, schedule=Schedule.rate(timedelta(minutes=90), start=start, end=end))
    app.define("once", Params, schedule=Schedule.at(start))

    def synthesized_at(now: datetime) -> Mapping[str, Any]:
        stack = cdk.Stack(cdk.App(context=NO_BUNDLING), "Own")
        JobSystem(stack, "Jobs", app=app, deployment=ELSEWHERE, now=now)
        return template_of(stack)

    before = synthesized_at(start - timedelta(days=1))
    assert resources(before, "AWS::Scheduler::Schedule", "JobsSchedules")
    assert synthesized_at(start + timedelta(days=1)) == before
    assert synthesized_at(end + timedelta(days=1)) == before


@pytest.mark.parametrize(("standby", "state"), [(False, "ENABLED"), (True, "DISABLED")])
def test_in_a_standby_region_schedules_are_there_and_switched_off(
    app: App, standby: bool, state: str
) -> None:
    deployment = Deployment(workers=(), standby=standby)
    assembly = cdk.App(context=NO_BUNDLING)
    stack = HeadgateStack(assembly, "Stack", app=app, deployment=deployment)
    made = resources(template_of(stack), "AWS::Scheduler::Schedule", "JobsSchedules")
    assert made
    assert {each["State"] for each in made.values()} == {state}
