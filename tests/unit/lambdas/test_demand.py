"""The function that counts the tasks that worker groups with many queues need."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel

from headgate import App, Priority
from headgate.jobs.core.clock import SystemClock
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from headgate.jobs.deployment.metric_names import NAMESPACE, OF_WORKERS, TASKS_BUSY, TASKS_WANTED
from headgate.jobs.deployment.scaling.demand_plan import demand_plan, read_demand_plan
from headgate.jobs.errors import MessageUnreadable, TransportError
from headgate.jobs.testing import MemorySqs
from headgate.lambdas import demand
from tests.support.lambda_context import lambda_context
from tests.support.loggers import restored

GROUP = WorkerGroup(concurrency=10)
"""Ten slots: one task starts 600 jobs of the priority high in its minute."""


class Order(BaseModel):
    card: str = ""


class OnLambda:
    """The function's own environment, with SQS in memory."""

    def __init__(self) -> None:
        self.app = App("shop", stage="test")
        self.app.define("send-email", Order, priority=Priority.HIGH)
        self.app.queue("payments", priorities=[Priority.LOW])
        self.sqs = MemorySqs(SystemClock())
        self.sqs.provision(self.app.topology)

    def invoke(self, *groups: WorkerGroup) -> dict[str, dict[str, float]]:
        plan = demand_plan(self.app.topology, groups).model_dump(mode="json")
        return demand.handler(plan, lambda_context())

    def send(self, queue: str, count: int) -> None:
        name = f"shop-test-{queue}"
        for _ in range(count):
            self.sqs.sync.send(name, [OutgoingMessage(body="{}", attributes={})])


@pytest.fixture
def on_lambda(monkeypatch: pytest.MonkeyPatch) -> Iterator[OnLambda]:
    found = OnLambda()
    monkeypatch.setattr(demand, "_queues", lambda: found.sqs.sync)
    demand._lines.cache_clear()
    with restored(bare=True):
        yield found
    demand._lines.cache_clear()


def lines(captured: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in captured.readouterr().out.splitlines()]


def test_the_sum_over_all_queues_of_a_group_is_published(
    on_lambda: OnLambda, capsys: pytest.CaptureFixture[str]
) -> None:
    on_lambda.send("jobs-high", 6)
    on_lambda.send("payments-low", 9)
    on_lambda.sqs.sync.receive("shop-test-payments-low", limit=5, visibility_s=30, wait_s=0)

    assert on_lambda.invoke(GROUP) == {
        "workers": {TASKS_WANTED: pytest.approx(6 / 600 + 4 / 9_000), TASKS_BUSY: 5 / 10}
    }
    [line] = lines(capsys)
    [described] = line["_aws"]["CloudWatchMetrics"]
    assert described["Namespace"] == NAMESPACE
    assert set(described["Dimensions"][0]) == OF_WORKERS
    assert (line["service"], line["group"]) == ("shop-test", "workers")
    assert line[TASKS_WANTED] == [pytest.approx(6 / 600 + 4 / 9_000)]
    assert line[TASKS_BUSY] == [0.5]


def test_a_group_counts_its_own_queues_alone(on_lambda: OnLambda) -> None:
    on_lambda.send("jobs-high", 6)
    own = replace(GROUP, name="payments", queues=("payments",))
    assert on_lambda.invoke(own) == {"payments": {TASKS_WANTED: 0, TASKS_BUSY: 0}}


@pytest.mark.parametrize("received", [0, 1])
def test_a_group_that_may_sleep_wants_a_whole_task_while_there_is_work(
    on_lambda: OnLambda, received: int
) -> None:
    sleepy = replace(GROUP, min_tasks=0)
    assert on_lambda.invoke(sleepy)["workers"] == {TASKS_WANTED: 0, TASKS_BUSY: 0}
    on_lambda.send("payments-low", 1)
    if received:
        on_lambda.sqs.sync.receive("shop-test-payments-low", limit=1, visibility_s=30, wait_s=0)
    assert on_lambda.invoke(sleepy)["workers"][TASKS_BUSY] == 1


def test_a_group_that_can_not_be_counted_gets_no_value_and_the_others_theirs(
    on_lambda: OnLambda, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = replace(GROUP, name="gone", queues=("payments",))
    there = replace(GROUP, name="there", queues=("jobs",))
    plan = demand_plan(on_lambda.app.topology, [gone, there])
    missing = plan.groups[0].queues[0].model_copy(update={"name": "shop-test-nowhere"})
    broken = plan.groups[0].model_copy(update={"queues": (missing,)})
    event = plan.model_copy(update={"groups": (broken, plan.groups[1])}).model_dump(mode="json")

    with pytest.raises(TransportError):
        demand.handler(event, lambda_context())
    assert [line["group"] for line in lines(capsys)] == ["there"]


def test_another_input_than_the_schedule_s_is_refused_by_its_fields() -> None:
    with pytest.raises(MessageUnreadable, match="groups: Field required"):
        read_demand_plan({"app": "shop"})


def test_the_input_of_the_schedule_is_read_back(on_lambda: OnLambda) -> None:
    plan = demand_plan(on_lambda.app.topology, [GROUP])
    assert read_demand_plan(json.loads(plan.model_dump_json())) == plan
