"""Metrics of a system are those that its alarms and its dashboard watch."""

from __future__ import annotations

from collections.abc import Callable

import aws_cdk as cdk
import pytest
from aws_cdk import aws_cloudwatch as cloudwatch

from headgate import Priority
from headgate.infra import IJobSystem, JobSystem
from headgate.infra.monitoring.alarm_rules import rules_for
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.metric_names import NAMES
from headgate.jobs.errors import ConfigurationError, UnknownQueue
from tests.infra.conftest import NO_BUNDLING
from tests.infra.everything import everything
from tests.infra.templates import resources, template_of

OF_A_QUEUE: dict[str, Callable[..., cloudwatch.Metric]] = {
    "metric_visible": lambda system, *given, **more: system.metric_visible(*given, **more),
    "metric_in_flight": lambda system, *given, **more: system.metric_in_flight(*given, **more),
    "metric_oldest_age": lambda system, *given, **more: system.metric_oldest_age(*given, **more),
    "metric_dead_letters": lambda system, *given, **more: system.metric_dead_letters(
        *given, **more
    ),
    "metric_completed": lambda system, *given, **more: system.metric_completed(*given, **more),
    "metric_failed": lambda system, *given, **more: system.metric_failed(*given, **more),
    "metric_wait": lambda system, *given, **more: system.metric_wait(*given, **more),
}
EXPECTED = {
    "metric_visible": ("ApproximateNumberOfMessagesVisible", "Maximum"),
    "metric_in_flight": ("ApproximateNumberOfMessagesNotVisible", "Maximum"),
    "metric_oldest_age": ("ApproximateAgeOfOldestMessage", "Maximum"),
    "metric_dead_letters": ("ApproximateNumberOfMessagesVisible", "Maximum"),
    "metric_completed": ("JobsCompleted", "Sum"),
    "metric_failed": ("JobsFailed", "Sum"),
    "metric_wait": ("Wait", "p99"),
}


def a_system(*, region: str | None = None) -> tuple[cdk.Stack, IJobSystem]:
    stack = cdk.Stack(cdk.App(context=NO_BUNDLING), "Web")
    return stack, JobSystem.from_app(stack, "Jobs", app=everything(), region=region)


@pytest.fixture(scope="module")
def system() -> IJobSystem:
    return a_system()[1]


@pytest.mark.parametrize("name", OF_A_QUEUE)
def test_a_queue_s_metric_has_its_statistic_over_five_minutes(
    name: str, system: IJobSystem
) -> None:
    metric = OF_A_QUEUE[name](system, "jobs", Priority.HIGH)
    assert (metric.metric_name, metric.statistic) == EXPECTED[name]
    assert metric.period.to_minutes() == 5
    assert (metric.region, metric.account) == (None, None)


@pytest.mark.parametrize("name", OF_A_QUEUE)
def test_the_options_of_cdk_s_metrics_replace_a_metric_s_own(name: str, system: IJobSystem) -> None:
    period = cdk.Duration.minutes(1)
    options = {"period": period, "statistic": "Average", "label": "mine", "color": "#ff0000"}
    metric = OF_A_QUEUE[name](system, "mail", **options)
    assert metric.period.to_minutes() == 1
    assert (metric.statistic, metric.label, metric.color) == ("Average", "mine", "#ff0000")


@pytest.mark.parametrize("name", OF_A_QUEUE)
def test_a_metric_of_an_unknown_queue_is_refused(name: str, system: IJobSystem) -> None:
    with pytest.raises(UnknownQueue, match="did you mean 'mail'"):
        OF_A_QUEUE[name](system, "mial")


def test_alarms_watch_the_metrics_that_a_system_gives(system: IJobSystem) -> None:
    app = everything()
    rules = {
        rule.name: rule
        for rule in rules_for(app, Deployment(), bridge=True, schedules=True, sweep="sweep")
    }
    for rule, variable, metric in (
        ("mail-normal-dead", "dead", system.metric_dead_letters("mail")),
        ("mail-normal-oldest", "oldest", system.metric_oldest_age("mail")),
        ("mail-normal-depth", "waiting", system.metric_visible("mail")),
        ("mail-normal-late", "wait", system.metric_wait("mail")),
        ("mail-normal-failing", "failed", system.metric_failed("mail")),
        ("mail-normal-failing", "completed", system.metric_completed("mail")),
    ):
        watched = rules[rule].metrics[variable]
        assert (metric.namespace, metric.metric_name) == (watched.namespace, watched.name)
        assert metric.dimensions == watched.dimensions


def test_a_metric_makes_an_alarm() -> None:
    stack, system = a_system()
    system.metric_oldest_age("mail", period=cdk.Duration.minutes(1)).create_alarm(
        stack, "Old", threshold=600, evaluation_periods=3
    )
    system.metric_failed_percent("mail").create_alarm(
        stack, "Failing", threshold=10, evaluation_periods=1
    )
    [old, failing] = resources(template_of(stack), "AWS::CloudWatch::Alarm").values()
    assert old["MetricName"] == "ApproximateAgeOfOldestMessage"
    assert old["Dimensions"] == [{"Name": "QueueName", "Value": "shop-prod-mail-normal"}]
    expression, *metrics = failing["Metrics"]
    assert expression["Expression"].startswith("100 * FILL(failed, 0) / ")
    assert {each["MetricStat"]["Metric"]["MetricName"] for each in metrics} == {
        "JobsFailed",
        "JobsCompleted",
    }


def test_metrics_of_another_region_are_drawn_from_there() -> None:
    stack, system = a_system(region="ap-southeast-1")
    cloudwatch.Dashboard(
        stack,
        "Dashboard",
        widgets=[
            [
                cloudwatch.GraphWidget(
                    left=[system.metric_visible("mail"), system.metric_failed_percent("mail")]
                )
            ]
        ],
    )
    [dashboard] = resources(template_of(stack), "AWS::CloudWatch::Dashboard").values()
    assert str(dashboard["DashboardBody"]).count('"region":"ap-southeast-1"') == 3


STATISTICS = {
    "Duration": "Average",
    "Wait": "Average",
    "DeadLettersKept": "Maximum",
    "TasksBusy": "Maximum",
    "TasksWanted": "Maximum",
}
"""Statistics of metrics that are no counts."""


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_metric_that_is_published_can_be_asked_for_by_type(
    name: str, system: IJobSystem
) -> None:
    report = everything().types["report"]
    metric = system.metric(name, job=report)
    assert (metric.namespace, metric.metric_name) == ("Headgate", name)
    assert metric.dimensions == {"service": "shop-prod", "type": "report", "queue": "jobs"}
    assert metric.statistic == STATISTICS.get(name, "Sum")


def test_a_metric_takes_dimensions_in_place_of_a_type(system: IJobSystem) -> None:
    metric = system.metric("JobsFailed", dimensions_map={"queue": "mail", "priority": "normal"})
    assert metric.dimensions == system.metric_failed("mail").dimensions


def test_a_metric_that_nothing_publishes_is_refused(system: IJobSystem) -> None:
    with pytest.raises(ConfigurationError, match="no metric 'JobFailed': did you mean 'JobsFai"):
        system.metric("JobFailed")
    with pytest.raises(ConfigurationError, match="JobsFailed is published for each job type"):
        system.metric("JobsFailed")
