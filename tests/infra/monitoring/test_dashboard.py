"""The dashboard shows all resources, in a grid without holes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ecs as ecs

from headgate import App, Existing, ExistingQueue, Priority
from headgate.infra.job_system import JobSystem
from headgate.infra.monitoring.dashboard import WIDTH
from headgate.jobs.deployment.cdk_context import parse_deployment
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.groups.consumer_group import ConsumerGroup
from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from headgate.jobs.deployment.metric_names import (
    COUNTED,
    DURATION,
    NAMESPACE,
    OF_LANE,
    OF_TYPE,
    WAIT,
)
from tests.infra.conftest import ELSEWHERE, NO_BUNDLING, Params
from tests.infra.monitoring.test_alarm_rules import SQS_METRICS
from tests.infra.templates import resources, synthesized, template_of

Widget = Mapping[str, Any]


def body(template: Mapping[str, Any]) -> Sequence[Widget]:
    """Return the dashboard's widgets; a reference to a resource reads ``${its logical id}``."""
    [dashboard] = resources(template, "AWS::CloudWatch::Dashboard").values()
    return list(json.loads(joined(dashboard["DashboardBody"]))["widgets"])


def joined(text: Any) -> str:
    match text:
        case str():
            return text
        case {"Fn::Join": [str(between), parts]}:
            return between.join(map(joined, parts))
        case {"Ref": name} | {"Fn::GetAtt": [name, _]}:
            return f"${{{name}}}"
    raise AssertionError(text)


def metrics(widgets: Sequence[Widget]) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Yield namespace, name and dimensions of each metric that a graph names."""
    for widget in widgets:
        for entry in widget["properties"].get("metrics", []):
            plain = [part for part in entry if isinstance(part, str)]
            if plain:
                namespace, name, *dimensions = plain
                yield namespace, name, dict(zip(dimensions[::2], dimensions[1::2], strict=True))


def expressions(widgets: Sequence[Widget]) -> list[str]:
    return [
        part["expression"]
        for widget in widgets
        for entry in widget["properties"].get("metrics", [])
        for part in entry
        if isinstance(part, dict) and "expression" in part
    ]


@pytest.fixture(scope="module")
def stack(app: App, tmp_path_factory: pytest.TempPathFactory) -> cdk.Stack:
    """Return the stack of an app whose jobs are run by workers and by a function."""
    project = tmp_path_factory.mktemp("project")
    (project / "fast.py").write_text("handler = None\n")
    fast = ConsumerGroup(
        name="fast", handler="fast.handler", source=str(project), queues=("payments",)
    )
    deployment = Deployment(workers=(WorkerGroup(queues=("jobs",)),), consumers=(fast,))
    stack = cdk.Stack(cdk.App(context=NO_BUNDLING), "Own")
    JobSystem(
        stack,
        "Jobs",
        app=app,
        deployment=deployment,
        image=ecs.ContainerImage.from_registry("example/worker"),
        app_path="shop.app:app",
    )
    return stack


@pytest.fixture(scope="module")
def whole(stack: cdk.Stack) -> Mapping[str, Any]:
    return template_of(stack)


@pytest.fixture(scope="module", params=["a stack", "all that may be watched"])
def widgets(request: pytest.FixtureRequest, template: Mapping[str, Any]) -> Sequence[Widget]:
    if request.param == "a stack":
        return body(template)
    return body(request.getfixturevalue("whole"))


def test_no_two_widgets_overlap_and_none_leaves_a_hole(widgets: Sequence[Widget]) -> None:
    cells = [
        (x, y)
        for each in widgets
        for x in range(each["x"], each["x"] + each["width"])
        for y in range(each["y"], each["y"] + each["height"])
    ]
    height = max(y for _, y in cells) + 1
    assert len(cells) == len(set(cells)), "an overlap"
    assert set(cells) == {(x, y) for x in range(WIDTH) for y in range(height)}


def test_it_is_read_from_the_alarms_down(app: App, widgets: Sequence[Widget]) -> None:
    read = sorted(widgets, key=lambda each: (each["y"], each["x"]))
    titles = [each["properties"].get("title", "") for each in read]

    assert [each["type"] for each in read[:2]] == ["text", "alarm"]
    used = [priority for priority in Priority if f"{priority}" in " ".join(titles)]
    assert used == list(Priority)
    assert [title.partition(":")[0] for title in titles[2:10]] == [*used, *used]
    assert titles.index("Runs that failed, by queue") < titles.index("Jobs completed, by type")
    assert "SQS" in titles[-2]
    assert app.topology.queues


def test_every_alarm_of_the_app_stands_on_top(template: Mapping[str, Any]) -> None:
    shown = next(each for each in body(template) if each["type"] == "alarm")
    alarms = [
        name
        for kind in ("AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm")
        for name in resources(template, kind, "JobsWatching")
    ]
    assert sorted(shown["properties"]["alarms"]) == sorted(f"${{{name}}}" for name in alarms)


def test_every_metric_that_is_shown_is_one_that_is_written(
    app: App, widgets: Sequence[Widget]
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
    for namespace, name, named in metrics(widgets):
        match namespace:
            case "AWS/SQS":
                assert name in SQS_METRICS
                assert named["QueueName"] in queues
            case "AWS/DynamoDB":
                assert named == {"TableName": topology.table_name}
            case "AWS/Scheduler":
                assert named == {"ScheduleGroup": topology.schedule_group}
            case "AWS/Lambda":
                assert name in {"Invocations", "Errors", "Throttles", "Duration"}
            case "AWS/ECS":
                assert named.keys() == {"ClusterName", "ServiceName"}
            case _:
                assert namespace == NAMESPACE
                assert name in {*COUNTED.values(), WAIT}
                assert named.keys() == OF_LANE
                assert (named["queue"], named["priority"]) in lanes


def test_every_search_is_for_what_is_counted_by_type(widgets: Sequence[Widget]) -> None:
    searches = [text for text in expressions(widgets) if "SEARCH" in text]
    pattern = re.compile(
        r"(?:SUM\()?SEARCH\('\{(\w+),([\w,]+)\} MetricName=\"(\w+)\" service=\"shop-test\"', "
        r"'(?:Sum|p95)', 300\)\)?"
    )
    assert searches
    for text in searches:
        found = pattern.fullmatch(text)
        assert found, text
        namespace, dimensions, name = found.groups()
        assert namespace == NAMESPACE
        assert set(dimensions.split(",")) == OF_TYPE
        assert name in {*COUNTED.values(), DURATION}


def test_noisy_tenants_are_shown_for_each_standard_queue(
    app: App, widgets: Sequence[Widget]
) -> None:
    [shown] = [each for each in widgets if each["properties"].get("title", "").startswith("Noisy")]
    told = {(name, dimensions["QueueName"]) for _, name, dimensions in metrics([shown])}
    noisy, quiet = "ApproximateNumberOfNoisyGroups", "ApproximateAgeOfOldestMessageInQuietGroups"
    standard = [spec.name for spec in app.topology.queues if not spec.fifo]
    assert told == {(metric, name) for metric in (noisy, quiet) for name in standard}


def fifo_only() -> App:
    app = App("shop", stage="test")
    app.queue("orders", fifo=True).define("take-order", Params)
    return app


def one_standard_queue_among_fifo() -> App:
    app = fifo_only()
    app.queue("mail").define("send-email", Params)
    return app


def without_records() -> App:
    app = App("shop", stage="test", records="off")
    app.define("send-email", Params)
    return app


def of_imported_fifo_queues() -> App:
    arn = "arn:aws:sqs:eu-central-1:999988887777"
    own = ExistingQueue(queue=f"{arn}:orders.fifo", dead_letters=f"{arn}:orders-dead.fifo")
    app = App("shop", stage="test", existing=Existing(queues={"orders": {"normal": own}}))
    app.queue("orders", fifo=True).define("take-order", Params)
    return app


@pytest.mark.parametrize("deployment", [ELSEWHERE, replace(ELSEWHERE, alarms=None)])
@pytest.mark.parametrize(
    "make", [fifo_only, one_standard_queue_among_fifo, without_records, of_imported_fifo_queues]
)
def test_no_graph_is_empty_which_cloudwatch_would_refuse(
    make: Callable[[], App], deployment: Deployment
) -> None:
    shown = body(synthesized(make(), deployment))
    assert_no_graph_is_empty(shown)
    test_no_two_widgets_overlap_and_none_leaves_a_hole(shown)


def test_no_graph_is_empty_where_much_is_shown(widgets: Sequence[Widget]) -> None:
    assert_no_graph_is_empty(widgets)


def assert_no_graph_is_empty(widgets: Sequence[Widget]) -> None:
    """https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/CloudWatch-Dashboard-Body-Structure.html"""
    graphs = [each["properties"] for each in widgets if each["type"] == "metric"]
    assert graphs
    assert [each["title"] for each in graphs if not each.get("metrics")] == []


def test_each_lane_is_shown_with_the_time_within_which_its_jobs_should_start(
    app: App, template: Mapping[str, Any]
) -> None:
    for priority in Priority:
        [shown] = [
            each["properties"]
            for each in body(template)
            if each["properties"].get("title", "").startswith(f"{priority}: p99 wait")
        ]
        target = app.topology.queue("jobs", priority).lane.start_within.total_seconds()
        [line] = shown["annotations"]["horizontal"]
        assert line["value"] == max(60, target)


def test_workers_and_functions_are_shown_where_there_are_any(whole: Mapping[str, Any]) -> None:
    named = list(metrics(body(whole)))
    [service] = resources(whole, "AWS::ECS::Service")
    functions = {
        each["FunctionName"].strip("${}") for namespace, _, each in named if "Lambda" in namespace
    }
    services = {each["ServiceName"] for namespace, _, each in named if namespace == "AWS/ECS"}

    assert services == {f"${{{service}}}"}
    [sweep] = resources(whole, "AWS::Lambda::Function", "JobsSweep")
    assert functions == {"shop-test-bridge", "shop-test-fast", sweep}


def test_no_alarm_exists_before_the_service_that_it_misses(whole: Mapping[str, Any]) -> None:
    [service] = resources(whole, "AWS::ECS::Service")
    [silent] = [
        resource
        for resource in whole["Resources"].values()
        if resource["Type"] == "AWS::CloudWatch::Alarm"
        and resource["Properties"].get("AlarmName", "").endswith("workers-silent")
    ]
    assert service in silent["DependsOn"]
    assert silent["Properties"]["TreatMissingData"] == "breaching"


def test_functions_that_run_jobs_and_others_have_an_alarm_each(whole: Mapping[str, Any]) -> None:
    alarms = resources(whole, "AWS::CloudWatch::Alarm", "JobsWatching").values()
    names = {each["AlarmName"] for each in alarms}
    assert {"shop-test-fast-errors", "shop-test-sweep", "shop-test-bridge"} <= names


def test_the_queries_about_jobs_are_asked_of_all_logs_that_tell_of_jobs(
    whole: Mapping[str, Any],
) -> None:
    [retries] = [
        each
        for each in resources(whole, "AWS::Logs::QueryDefinition").values()
        if each["Name"] == "shop-test/retries"
    ]
    asked = {each["Ref"] for each in retries["LogGroupNames"]}
    workers = resources(whole, "AWS::Logs::LogGroup", "JobsWorkers")
    functions = resources(whole, "AWS::Logs::LogGroup", "JobsConsumer")
    assert len(workers) == len(functions) == 1
    assert asked == {*workers, *functions}


def test_cdk_warns_of_nothing_that_watches(stack: cdk.Stack, whole: Mapping[str, Any]) -> None:
    warnings = [
        entry.data
        for construct in stack.node.find_all()
        if "/Watching/" in construct.node.path
        for entry in construct.node.metadata
        if entry.type == "aws:cdk:warning"
    ]
    assert warnings == []
    assert whole


def test_widgets_show_every_alarm_within_cloudwatchs_limit() -> None:
    app = App("shop", stage="test", priorities="all")
    for group in ("orders", "mail", "books", "images", "reports"):
        app.queue(group).define(f"run-{group}", Params)
    template = synthesized(app)
    shown = [widget for widget in body(template) if widget["type"] == "alarm"]
    sizes = [len(widget["properties"]["alarms"]) for widget in shown]
    assert max(sizes) <= 100
    kinds = ("AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm")
    assert sum(sizes) == sum(len(resources(template, kind)) for kind in kinds) > 100


def test_a_stage_without_alarms_has_a_dashboard_without_holes(app: App) -> None:
    deployment = replace(ELSEWHERE, alarms=None)
    template = synthesized(app, deployment)
    shown = body(template)

    assert not resources(template, "AWS::CloudWatch::Alarm")
    assert "alarm" not in {each["type"] for each in shown}
    test_no_two_widgets_overlap_and_none_leaves_a_hole(shown)
    assert parse_deployment({"alarms": None}, {"workers": []}) == deployment
