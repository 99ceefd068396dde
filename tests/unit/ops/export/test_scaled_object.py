"""KEDA scales a worker group by the rules that ECS scales it by."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from headgate.jobs.deployment.scaling.backlog import (
    QueueLoad,
    acceptable_backlog,
    tasks_busy,
    tasks_wanted,
)
from headgate.ops.export.scaled_object import formula, queue_url, scaled_object
from tests.unit.ops.export.shop import ACCOUNT, REGION, moved_in, shop

GROUP = WorkerGroup(concurrency=10, processes=2)
QUEUES = GROUP.selection.of(shop().topology)
HIGH = shop().topology.queue("jobs", "high")
COUNTS = st.integers(0, 100_000)


@settings(max_examples=25)
@given(st.tuples(*(st.tuples(COUNTS, COUNTS) for _ in QUEUES)), st.integers(0, 50))
def test_the_formula_asks_for_the_tasks_that_ecs_would_run(
    jobs: tuple[tuple[int, int], ...], pods: int
) -> None:
    loads = [
        QueueLoad(waiting=waiting, in_flight=flying, per_task=acceptable_backlog(GROUP, queue))
        for (waiting, flying), queue in zip(jobs, QUEUES, strict=True)
    ]
    busy = min(tasks_busy(loads, slots=GROUP.slots, sleeps=False), pods)
    counted = {"pods": pods}
    for (waiting, flying), queue in zip(jobs, QUEUES, strict=True):
        name = f"{queue.group}_{queue.priority}"
        counted |= {name: waiting, f"{name}_all": waiting + flying}

    # The operators and the two functions mean the same in Python.
    asked = eval(formula(GROUP, QUEUES), {"max": max, "min": min}, counted)  # noqa: S307 - ours

    assert asked == pytest.approx(max(tasks_wanted(loads), busy))


def test_each_variable_of_the_formula_is_a_trigger_and_each_trigger_a_variable() -> None:
    made = scaled_object(
        GROUP,
        QUEUES,
        metadata={"name": "shop-prod-workers"},
        selector={"a": "1", "b": "2"},
        authentication="shop-prod",
        account=ACCOUNT,
        region=REGION,
    )
    triggers = {each["name"]: each for each in made["spec"]["triggers"]}
    code = compile(formula(GROUP, QUEUES), "formula", "eval")
    assert set(code.co_names) - {"max", "min"} == set(triggers)
    assert triggers["pods"]["metadata"] == {"podSelector": "a=1,b=2", "value": "1"}


def test_a_queue_is_counted_with_and_without_its_jobs_in_flight() -> None:
    made = scaled_object(
        WorkerGroup(concurrency=50, min_tasks=0, max_tasks=7),
        [HIGH],
        metadata={"name": "shop-prod-workers"},
        selector={"a": "1"},
        authentication="shop-prod",
        account=ACCOUNT,
        region=REGION,
    )
    waiting, every, _ = made["spec"]["triggers"]
    assert waiting == {
        "type": "aws-sqs-queue",
        "name": "jobs_high",
        "useCachedMetrics": True,
        "authenticationRef": {"name": "shop-prod"},
        "metadata": {
            "queueURL": "https://sqs.eu-central-1.amazonaws.com/111122223333/shop-prod-jobs-high",
            "awsRegion": "eu-central-1",
            "queueLength": "3000",
            "scaleOnInFlight": "false",
        },
    }
    assert (every["name"], every["metadata"]["scaleOnInFlight"]) == ("jobs_high_all", "true")
    assert every["metadata"]["queueLength"] == "50"
    assert (made["spec"]["minReplicaCount"], made["spec"]["maxReplicaCount"]) == (0, 7)


@pytest.mark.parametrize("typical", [0.007, 7])
def test_the_lengths_are_whole_numbers_as_keda_demands(typical: float) -> None:
    group = WorkerGroup(concurrency=50, typical=typical)
    assert acceptable_backlog(group, HIGH) % 1
    made = scaled_object(
        group,
        [HIGH],
        metadata={"name": "shop-prod-workers"},
        selector={"a": "1"},
        authentication="shop-prod",
        account=ACCOUNT,
        region=REGION,
    )
    *queues, _ = made["spec"]["triggers"]
    lengths = [int(each["metadata"]["queueLength"]) for each in queues]
    assert lengths == [int(acceptable_backlog(group, HIGH)), 50]


def test_chinas_queues_are_in_a_domain_of_their_own() -> None:
    assert queue_url(HIGH, ACCOUNT, "cn-north-1") == (
        "https://sqs.cn-north-1.amazonaws.com.cn/111122223333/shop-prod-jobs-high"
    )


def test_a_queue_of_another_account_is_counted_at_that_account_s_url() -> None:
    topology = moved_in().topology
    urls = [queue_url(each, ACCOUNT, REGION) for each in topology.queues]
    assert [url.removeprefix(f"https://sqs.{REGION}.amazonaws.com/") for url in urls] == [
        f"{ACCOUNT}/orders",
        "999999999999/letters",
    ]
