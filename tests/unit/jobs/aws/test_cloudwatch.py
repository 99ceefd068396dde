"""CloudWatch's answers: read by time, over pages, and left out where they are none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from headgate.jobs.aws.cloudwatch import _Calls
from headgate.jobs.core.backend import MetricQuery
from headgate.jobs.core.immediate import ImmediateLock
from headgate.jobs.errors import AccessDenied, TransportError

UNTIL = datetime(2026, 11, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SENT = MetricQuery(queue="shop-jobs-high", name="NumberOfMessagesSent", statistic="Sum")


class Answers:
    """A CloudWatch that gives prepared answers, and notes the requests."""

    reopens = True

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.requests: list[dict[str, Any]] = []

    def lock(self) -> ImmediateLock:
        return ImmediateLock()

    @asynccontextmanager
    async def open(self, service: str) -> AsyncIterator[Any]:
        assert service == "cloudwatch"
        yield self

    async def get_metric_data(self, **request: Any) -> Any:
        self.requests.append(dict(request))
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


async def read(answers: Answers, *queries: MetricQuery) -> Any:
    return await _Calls(answers).read(queries, since=UNTIL - 5 * MINUTE, until=UNTIL)


def minutes(*values: float) -> dict[datetime, float]:
    """Return the values by the last minutes, in order."""
    return {UNTIL - (len(values) - at) * MINUTE: value for at, value in enumerate(values)}


def result(name: str, *values: Any, **fields: Any) -> dict[str, Any]:
    times = [UNTIL - at * MINUTE for at in range(1, len(values) + 1)]  # the latest first, as asked
    return {"Id": name, "Timestamps": times, "Values": list(values), **fields}


async def test_values_are_returned_from_the_earliest_minute_on() -> None:
    answers = Answers({"MetricDataResults": [result("m0", 3.0, 2.0, 1.0)]})
    found = await read(answers, SENT)
    assert found == {SENT: minutes(1.0, 2.0, 3.0)}
    assert list(found[SENT].values()) == [1.0, 2.0, 3.0]
    [request] = answers.requests
    assert (request["StartTime"], request["EndTime"]) == (UNTIL - 5 * MINUTE, UNTIL)
    [asked] = request["MetricDataQueries"]
    assert asked["MetricStat"] == {
        "Metric": {
            "Namespace": "AWS/SQS",
            "MetricName": "NumberOfMessagesSent",
            "Dimensions": [{"Name": "QueueName", "Value": "shop-jobs-high"}],
        },
        "Period": 60,
        "Stat": "Sum",
    }


async def test_a_metric_is_read_by_the_hour_where_minutes_are_kept_no_more() -> None:
    answers = Answers({"MetricDataResults": [result("m0", 3.0)]})
    hourly = replace(SENT, period_s=3_600)
    assert await read(answers, hourly) == {hourly: minutes(3.0)}
    [asked] = answers.requests[0]["MetricDataQueries"]
    assert asked["MetricStat"]["Period"] == 3_600


async def test_a_metric_of_a_worker_is_asked_for_by_its_own_dimensions() -> None:
    answers = Answers({"MetricDataResults": []})
    lane = (("service", "shop"), ("queue", "jobs"), ("priority", "high"))
    await read(answers, replace(SENT, name="JobsFailed", namespace="Headgate", dimensions=lane))
    [asked] = answers.requests[0]["MetricDataQueries"]
    assert asked["MetricStat"]["Metric"] == {
        "Namespace": "Headgate",
        "MetricName": "JobsFailed",
        "Dimensions": [{"Name": name, "Value": value} for name, value in lane],
    }


async def test_pages_are_put_together_and_five_hundred_metrics_asked_for_at_once() -> None:
    queries = [
        MetricQuery(queue=f"q{n}", name="NumberOfMessagesSent", statistic="Sum") for n in range(501)
    ]
    answers = Answers(
        {"MetricDataResults": [result("m0", 2.0, 1.0)], "NextToken": "more"},
        {"MetricDataResults": [result("m499", 7.0)]},
        {"MetricDataResults": [result("m0", 9.0)]},
    )
    found = await read(answers, *queries)
    first, last = minutes(1.0, 2.0), minutes(7.0)
    assert found == {queries[0]: first, queries[499]: last, queries[500]: minutes(9.0)}
    assert [len(each["MetricDataQueries"]) for each in answers.requests] == [500, 500, 1]
    assert [each.get("NextToken") for each in answers.requests] == [None, "more", None]


async def test_an_answer_that_never_ends_is_read_for_ten_pages() -> None:
    answers = Answers({"MetricDataResults": [], "NextToken": "more"})
    assert await read(answers, SENT) == {}
    assert len(answers.requests) == 10


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"MetricDataResults": None},
        {"MetricDataResults": "m0"},
        {"MetricDataResults": ["m0", 7]},
        {"MetricDataResults": [result("other", 1.0)]},
        {"MetricDataResults": [{"Id": "m0"}]},
        {"MetricDataResults": [result("m0", float("nan"), -1.0, "7", None)]},
        {"MetricDataResults": [result("m0", 1.0, Timestamps=["yesterday"])]},
    ],
)
async def test_what_is_no_value_is_left_out(answer: dict[str, Any]) -> None:
    found = await read(Answers(answer), SENT)
    assert not any(found.values())


async def test_a_refusal_and_an_endpoint_that_is_away_are_errors_of_headgate() -> None:
    denied = ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "GetMetricData")
    with pytest.raises(AccessDenied, match="cloudwatch:GetMetricData"):
        await read(Answers(denied), SENT)
    away = EndpointConnectionError(endpoint_url="http://127.0.0.1:1")
    with pytest.raises(TransportError):
        await read(Answers(away), SENT)


async def test_the_metrics_of_another_accounts_queue_are_asked_of_that_account() -> None:
    theirs = replace(
        SENT, queue="arn:aws:sqs:eu-central-1:222222222222:jobs", account="222222222222"
    )
    answers = Answers({"MetricDataResults": []})
    await read(answers, SENT, theirs)
    own, other = answers.requests[0]["MetricDataQueries"]
    assert "AccountId" not in own
    assert other["AccountId"] == "222222222222"
    [dimension] = other["MetricStat"]["Metric"]["Dimensions"]
    assert dimension == {"Name": "QueueName", "Value": "jobs"}
