"""Metric lines: one writer for workers and functions, whose names the dashboard relies on."""

from __future__ import annotations

import json
import random

import pytest

from headgate.jobs.core.events import JobCompleted, JobFailed, JobStarted
from headgate.jobs.deployment.metric_lines import MetricLines, metric_line
from headgate.jobs.deployment.metric_names import NAMESPACE, OF_LANE, OF_TYPE
from tests.support.job_events import event_of

RNG = random.Random(1)  # noqa: S311 - samples


def test_a_line_is_what_cloudwatch_reads() -> None:
    dimensions = (("type", "send"), ("queue", "mail"))
    line = json.loads(metric_line("shop", dimensions, {"JobsCompleted": 2}, {"Duration": [1, 3]}))
    assert isinstance(line["_aws"].pop("Timestamp"), int)
    assert line == {
        "_aws": {
            "CloudWatchMetrics": [
                {
                    "Namespace": "Headgate",
                    "Dimensions": [["type", "queue", "service"]],
                    "Metrics": [
                        {"Name": "JobsCompleted", "Unit": "Count"},
                        {"Name": "Duration", "Unit": "Seconds"},
                    ],
                }
            ],
        },
        "type": "send",
        "queue": "mail",
        "service": "shop",
        "JobsCompleted": [2.0],
        "Duration": [1.0, 3.0],
    }


def test_a_flush_writes_one_line_per_type_and_lane() -> None:
    lines: list[str] = []
    metrics = MetricLines("shop-prod", rng=RNG, write=lines.append)
    for attempt in (1, 2):
        metrics(event_of(JobStarted, waited_s=0.5, is_first=attempt == 1, attempt=attempt))
        metrics(event_of(JobCompleted, ran_s=1.5, attempt=attempt))
    metrics(
        event_of(
            JobFailed, ran_s=1, error_type="E", error_message="m", traceback="", job_type="other"
        )
    )
    metrics.flush()
    read = [json.loads(line) for line in lines]
    told = {line["type"]: line for line in read if "type" in line}
    [lane] = [line for line in read if "type" not in line]
    assert told["send"]["JobsCompleted"] == [2]
    assert told["send"]["Duration"] == [1.5, 1.5]
    assert told["send"]["service"] == "shop-prod"
    assert told["other"]["JobsFailed"] == [1]
    assert (lane["JobsCompleted"], lane["JobsFailed"], lane["Wait"]) == ([2], [1], [0.5])
    assert lane["JobsStarted"] == [2]
    assert "JobsStarted" not in told["send"]
    [of_type] = told["send"]["_aws"]["CloudWatchMetrics"]
    assert of_type["Namespace"] == NAMESPACE
    assert set(of_type["Dimensions"][0]) == OF_TYPE
    assert set(lane["_aws"]["CloudWatchMetrics"][0]["Dimensions"][0]) == OF_LANE
    lines.clear()
    metrics.flush()
    assert lines == []


def test_a_line_samples_what_is_too_much_for_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    lines: list[str] = []
    metrics = MetricLines("shop", rng=RNG, write=lines.append)
    for number in range(10_000):
        metrics(event_of(JobCompleted, ran_s=float(number)))
    metrics.flush()
    [line] = [line for line in map(json.loads, lines) if "type" in line]
    assert line["JobsCompleted"] == [10_000]
    assert len(line["Duration"]) == 99
    assert 3_000 < sum(line["Duration"]) / 99 < 7_000
    assert capsys.readouterr().out == ""
