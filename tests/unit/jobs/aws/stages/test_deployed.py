"""A deployed stage's alarms, tasks, roles and logs: its own are found, and no other stage's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headgate.jobs.aws.stages import deployed
from headgate.jobs.aws.stages.deployed import DeployedStage
from headgate.jobs.errors import AccessDenied

ROLE = "arn:aws:iam::111122223333:role/tasks"
QUEUE = "arn:aws:sqs:eu-central-1:111122223333:shop-prod-jobs-high"


class Paginator:
    """Pages of a listing, filtered by a prefix as AWS filters them."""

    def __init__(self, client: Client, method: str) -> None:
        self._client = client
        self._method = method

    async def paginate(self, **asked: Any) -> AsyncIterator[Any]:
        self._client.asked.append((self._method, asked))
        for page in self._client.pages:
            yield page


class Client:
    """A client of one service: it answers as it was told, and keeps what it was asked."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.pages: list[Any] = answers.pop("pages", [])
        self.asked: list[tuple[str, Any]] = []
        self.meta = SimpleNamespace(region_name="eu-central-1")

    def get_paginator(self, method: str) -> Paginator:
        return Paginator(self, method)

    def __getattr__(self, method: str) -> Any:
        async def call(**asked: Any) -> Any:
            self.asked.append((method, asked))
            answer = self.answers.get(method, {})
            if isinstance(answer, Iterator):
                answer = next(answer)
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> dict[str, Client]:
    """The clients by their service."""
    clients: dict[str, Client] = {}

    @asynccontextmanager
    async def opened(service: str, connection: Any) -> AsyncIterator[Client]:
        assert connection.region == "eu-central-1"
        yield clients[service]

    monkeypatch.setattr(deployed, "async_aws_client", opened)
    return clients


STAGE = DeployedStage("shop-prod", region="eu-central-1")


async def test_alarms_of_all_pages_are_those_that_begin_with_the_stage_s_name(
    aws: dict[str, Client],
) -> None:
    first, second = ({"AlarmName": f"shop-prod-{name}", "StateValue": "OK"} for name in "ab")
    aws["cloudwatch"] = Client(pages=[{"MetricAlarms": [first]}, {"MetricAlarms": [second]}])
    assert await STAGE.alarms() == {"shop-prod-a": "OK", "shop-prod-b": "OK"}
    # With the hyphen: another stage may be called shop-production.
    asked = {"AlarmNamePrefix": "shop-prod-", "AlarmTypes": ["MetricAlarm"]}
    assert aws["cloudwatch"].asked == [("describe_alarms", asked)]


async def test_one_of_several_tasks_is_stopped(aws: dict[str, Client]) -> None:
    aws["ecs"] = Client(list_tasks={"taskArns": ["task/1", "task/2"]})
    assert await STAGE.stop_task("cluster", "shop-prod-workers", "a test")
    assert aws["ecs"].asked == [
        ("list_tasks", {"cluster": "cluster", "serviceName": "shop-prod-workers"}),
        ("stop_task", {"cluster": "cluster", "task": "task/1", "reason": "a test"}),
    ]


async def test_where_no_task_runs_none_is_stopped(aws: dict[str, Client]) -> None:
    aws["ecs"] = Client(list_tasks={"taskArns": []})
    assert not await STAGE.stop_task("cluster", "shop-prod-workers", "a test")
    assert [method for method, _ in aws["ecs"].asked] == ["list_tasks"]


async def test_iam_is_asked_about_the_role_of_the_service_s_present_tasks(
    aws: dict[str, Client],
) -> None:
    decisions = ["allowed", "implicitDeny", "explicitDeny"]
    answers = ({"EvaluationResults": [{"EvalDecision": each}]} for each in decisions)
    aws["iam"] = Client(simulate_principal_policy=answers)
    aws["ecs"] = Client(
        describe_services={"services": [{"taskDefinition": "workers:7"}]},
        describe_task_definition={"taskDefinition": {"taskRoleArn": ROLE}},
    )
    asked = [("sqs:SendMessage", QUEUE), ("sqs:PurgeQueue", QUEUE), ("iam:PassRole", "*")]
    assert await STAGE.allowed("cluster", "shop-prod-workers", asked) == ["sqs:SendMessage"]
    assert aws["ecs"].asked[-1] == ("describe_task_definition", {"taskDefinition": "workers:7"})
    assert [each["ActionNames"] for _, each in aws["iam"].asked] == [[one] for one, _ in asked]
    assert {each["PolicySourceArn"] for _, each in aws["iam"].asked} == {ROLE}


async def test_logs_that_are_removed_are_the_stage_s_of_all_pages(aws: dict[str, Client]) -> None:
    pages = [{"logGroups": [{"logGroupName": f"shop-prod-{name}"}]} for name in "ab"]
    aws["logs"] = Client(pages=pages)
    await STAGE.remove_logs()
    assert aws["logs"].asked == [
        ("describe_log_groups", {"logGroupNamePrefix": "shop-prod-"}),
        ("delete_log_group", {"logGroupName": "shop-prod-a"}),
        ("delete_log_group", {"logGroupName": "shop-prod-b"}),
    ]


async def test_the_place_is_that_of_the_credentials(aws: dict[str, Client]) -> None:
    aws["sts"] = Client(get_caller_identity={"Account": "111122223333"})
    assert await STAGE.account_and_region() == ("111122223333", "eu-central-1")


def refusal(method: str) -> ClientError:
    return ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, method)


@pytest.mark.parametrize("method", ["ListTasks", "StopTask"])
async def test_a_task_that_can_not_be_stopped_names_the_refused_permission(
    aws: dict[str, Client], method: str
) -> None:
    answers = {"list_tasks": {"taskArns": ["task/1"]}, "stop_task": {}}
    name = {"ListTasks": "list_tasks", "StopTask": "stop_task"}[method]
    aws["ecs"] = Client(**{**answers, name: refusal(method)})
    with pytest.raises(AccessDenied, match=f"ecs:{method} on 'shop-prod'"):
        await STAGE.stop_task("cluster", "shop-prod-workers", "a test")


@pytest.mark.parametrize("method", ["DescribeServices", "DescribeTaskDefinition"])
async def test_a_role_that_can_not_be_found_names_the_refused_permission(
    aws: dict[str, Client], method: str
) -> None:
    services = {"services": [{"taskDefinition": "workers:7"}]}
    refused = refusal(method)
    aws["ecs"] = Client(
        describe_services=refused if method == "DescribeServices" else services,
        describe_task_definition=refused,
    )
    with pytest.raises(AccessDenied, match=f"ecs:{method} on 'shop-prod'"):
        await STAGE.allowed("cluster", "shop-prod-workers", [])


async def test_logs_that_can_not_be_removed_name_the_refused_permission(
    aws: dict[str, Client],
) -> None:
    pages = [{"logGroups": [{"logGroupName": "shop-prod-a"}]}]
    aws["logs"] = Client(pages=pages, delete_log_group=refusal("DeleteLogGroup"))
    with pytest.raises(AccessDenied, match="logs:DeleteLogGroup on 'shop-prod'"):
        await STAGE.remove_logs()
