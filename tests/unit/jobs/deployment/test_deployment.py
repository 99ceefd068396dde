"""A deployment is checked when it is declared, in the terms of its declaration."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest

from headgate import App, Priority
from headgate.jobs.deployment.cdk_context import parse_deployment
from headgate.jobs.deployment.deployment import INTERFACE_ENDPOINTS, Deployment
from headgate.jobs.deployment.groups.consumer_group import ConsumerGroup
from headgate.jobs.deployment.groups.queue_selection import QueueSelection
from headgate.jobs.deployment.groups.worker_group import FARGATE_MEMORY_MB, WorkerGroup
from headgate.jobs.deployment.surroundings import ExistingVpc
from headgate.jobs.errors import ConfigurationError, UnknownQueue
from headgate.workers.configuration import WorkerSettings


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"worker": []}, r"deployment's worker: there is no such field: did you mean 'workers'\?"),
        ({"workers": [{"nam": "x"}]}, r"workers.0.nam: .* did you mean 'name'\?"),
        ({"workers": [{"priorities": ["lo"]}]}, "'lo'"),
        ({"workers": [{"cpu": 300}]}, "cpu must be one of 256, 512"),
        (
            {"workers": [{"memory_mib": 600}]},
            "memory_mib of a task with 256 CPU units may be 512, 1024, 2048, got 600",
        ),
        ({"workers": [{"cpu": 512, "memory_mib": 512}]}, "1024 to 4096 .in steps of 1024."),
        ({"workers": [{"min_tasks": 3, "max_tasks": 2}]}, "0 <= min_tasks <= max_tasks"),
        ({"workers": [{"min_tasks": 0, "max_tasks": 0}]}, "max_tasks at least 1"),
        ({"workers": [{"concurrency": 0}]}, "at least 1, .* got 0 and 1"),
        ({"workers": [{"typical": 0}]}, "typical must be positive"),
        ({"workers": [{"stop_timeout": 121}]}, "between 30 and 120 s"),
        ({"workers": [{"stop_timeout": 29}]}, "between 30 and 120 s"),
        ({"workers": [{}, {}]}, "called 'workers'"),
        ({"consumers": [{"name": "bridge", "handler": "a.b"}]}, "has a function of that name"),
        ({"consumers": [{"name": "x"}]}, "consumers.0.handler: field required"),
        (
            {"consumers": [{"name": "x", "handler": "a.b", "batch_size": 11}]},
            "unless max_batching_window",
        ),
        (
            {"consumers": [{"name": "x", "handler": "a.b", "max_concurrency": 1}]},
            "between 2 and 1,000",
        ),
        ({"consumers": [{"name": "x", "handler": "a.b", "timeout": 901}]}, "15 min"),
        (
            {"consumers": [{"name": "x", "handler": "a.b", "concurrency": 0}]},
            "concurrency must lie between 1 and 1,000, got 0",
        ),
        (
            {"consumers": [{"name": "x", "handler": "a.b", "typical": 0}]},
            "typical must be positive",
        ),
        (
            {"consumers": [{"name": "x", "handler": "a.b", "max_batching_window": 301}]},
            "0 and 5 min",
        ),
        ({"consumers": [{"name": "x", "handler": "a.b", "memory_mib": 64}]}, "128 and 10240"),
        ({"consumers": [{"name": "workers", "handler": "a.b"}]}, "called 'workers'"),
        ({"alarms": {"dept": 9}}, r"alarms.dept: .* did you mean 'depth'\?"),
        (
            {"workers": {"min_tasks": 0}},
            "deployment's workers: must be a list, got {'min_tasks': 0}",
        ),
        ({"workers": ["few"]}, "workers.0: must be an object, got 'few'"),
        ({"environment": ["A=1"]}, "environment: must be an object, got"),
        ({"environment": {"A": 1}}, "environment.A: must be a text, got 1"),
        ({"alerts_to": "a@b.example"}, "alerts_to: must be a list, got 'a@b.example'"),
        ({"budget_usd": "lots"}, "budget_usd: must be a whole number, got 'lots'"),
        ({"workers": [{"typical": "5s"}]}, "typical: must be a number of seconds, .* got '5s'"),
        ({"workers": [{"stop_timeout": "PT30S"}]}, "stop_timeout: must be a number of seconds"),
        ({"consumers": [{"name": "x", "handler": "a.b", "timeout": -1}]}, "seconds, 0 or more"),
        ({"alarms": {"depth": -1}}, "depth must be positive"),
        ({"alerts_to": ["oncall"]}, "not an e-mail address: 'oncall'"),
        ({"bridge_reserved": 0}, "bridge_reserved is at least 1"),
        ({"budget_usd": -1}, "must not be negative"),
        ({"network": "private"}, "deployment's network: input should be 'endpoints' or 'public'"),
        ({"endpoint_zones": 3}, "endpoint_zones must be 1 or 2, got 3"),
        ({"workers": [{"concurrency": 1001}]}, "at most 1,000 and 64"),
        ({"workers": [{"processes": 65}]}, "at most 1,000 and 64"),
    ],
)
def test_what_aws_would_refuse_is_refused_by_name(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        parse_deployment(fields)


@pytest.mark.parametrize(("cpu", "memories"), FARGATE_MEMORY_MB.items())
def test_every_size_of_fargates_is_taken(cpu: int, memories: tuple[int, ...]) -> None:
    for memory_mib in memories:
        assert WorkerGroup(cpu=cpu, memory_mib=memory_mib).memory_mib == memory_mib


def test_a_consumer_may_have_large_batches_where_it_gathers_them() -> None:
    group = ConsumerGroup(
        name="x", handler="a.b", batch_size=10_000, max_batching_window=timedelta(seconds=1)
    )
    assert group.batch_size == 10_000


def test_lanes_are_the_queues_of_both_group_and_priority() -> None:
    app = App("shop", priorities="all")
    app.define("report", dict)
    app.queue("payments", priorities=[Priority.CRITICAL])

    def names(lanes: QueueSelection) -> list[str]:
        return [spec.name for spec in lanes.of(app.topology)]

    assert names(QueueSelection(queues=("jobs",), priorities=(Priority.LOW, Priority.HIGH))) == [
        "shop-jobs-high",
        "shop-jobs-low",
    ]
    assert names(QueueSelection()) == [spec.name for spec in app.topology.queues]
    with pytest.raises(ConfigurationError, match="payments has the priority low"):
        QueueSelection(queues=("payments",), priorities=(Priority.LOW,)).of(app.topology)
    with pytest.raises(UnknownQueue, match="payments"):
        QueueSelection(queues=("payment",)).of(app.topology)


def test_a_group_drains_for_its_stop_timeout_but_what_settling_takes() -> None:
    assert WorkerGroup().drain == timedelta(seconds=22)
    assert WorkerGroup(stop_timeout=timedelta(seconds=120)).drain == timedelta(seconds=112)


def test_an_isolated_network_has_an_endpoint_for_each_service_workers_call() -> None:
    deployment = Deployment()
    assert deployment.interface_endpoints(long_delays=False, seals=False) == INTERFACE_ENDPOINTS
    every = deployment.interface_endpoints(long_delays=True, seals=True)
    assert every == (*INTERFACE_ENDPOINTS, "scheduler", "kms")


@pytest.mark.parametrize("deployment", [Deployment(workers=()), Deployment(network="public")])
def test_a_network_that_is_public_or_not_there_has_none(deployment: Deployment) -> None:
    assert deployment.interface_endpoints(long_delays=True, seals=True) == ()


@pytest.mark.parametrize(
    ("group", "on_demand"),
    [
        (WorkerGroup(max_tasks=7), 7),
        (WorkerGroup(spot=True, min_tasks=2), 1),
        (WorkerGroup(spot=True, min_tasks=0), 0),
    ],
    ids=["on demand", "spot", "spot, from none"],
)
def test_a_spot_group_with_a_minimum_keeps_one_task_on_demand(
    group: WorkerGroup, on_demand: int
) -> None:
    assert group.on_demand == on_demand


def test_a_group_takes_what_a_worker_takes() -> None:
    group = WorkerGroup(concurrency=1000)
    assert WorkerSettings(concurrency=group.concurrency).selection == group.selection


@pytest.mark.parametrize(
    ("stage", "kept"), [(None, False), ("dev", False), ("prod", True), ("staging", True)]
)
def test_every_stage_but_dev_keeps_its_data_unless_it_says_otherwise(
    stage: str | None, kept: bool
) -> None:
    assert Deployment().keeps_data(stage) is kept
    assert Deployment(keep_data=True).keeps_data(stage)
    assert not Deployment(keep_data=False).keeps_data(stage)


@pytest.mark.parametrize(
    ("stage", "kept"), [(None, False), ("dev", False), ("prod", True), ("staging", True)]
)
def test_a_bad_release_is_rolled_back_where_data_is_kept_unless_the_stage_says_otherwise(
    stage: str | None, kept: bool
) -> None:
    assert Deployment().rolls_back(stage) is kept
    assert Deployment(roll_back_on_alarm=True).rolls_back(stage)
    assert not Deployment(roll_back_on_alarm=False).rolls_back(stage)
    assert not Deployment(roll_back_on_alarm=True, alarms=None).rolls_back(stage)


ARN = "arn:aws:secretsmanager:eu-central-1:111122223333:secret:db-AbCdEf"
KEY = "arn:aws:kms:eu-central-1:111122223333:key/1"
SUBNETS = ["subnet-1"]
OF_TASK = {"name": "traces", "image": "collector:1"}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"environment": {"A-B": "c"}}, "'A-B' is not the name of a variable"),
        ({"environment": {"A": 1}}, "environment.A"),
        ({"environment": {"HEADGATE_STAGE": "x"}}, "HEADGATE_STAGE is set by the deployment"),
        ({"secrets": {"A": "db-password"}}, "A must be a secret's whole ARN"),
        ({"secrets": {"A": f"{ARN}:key:AWSCURRENT"}}, "A must be a secret's whole ARN"),
        ({"workers": [{"secrets": {"A": "ssm:"}}]}, "'workers': A must be"),
        ({"environment": {"A": "b"}, "secrets": {"A": ARN}}, "A is in environment and in secrets"),
        ({"vpc": {"id": "main", "subnets": SUBNETS}}, "'main' is not an id"),
        ({"vpc": {"id": "vpc-1", "subnets": []}}, "at least one of its subnets"),
        ({"vpc": {"id": "vpc-1", "subnets": SUBNETS, "subnet": []}}, "did you mean 'subnets'"),
        ({"log_retention_days": 31}, "one of 1, 3, 5, 7, 14, 30, 60"),
        ({"architecture": "arm"}, "architecture"),
        ({"encryption_key": "alias/jobs"}, "must be the ARN of a KMS key"),
        ({"encryption_key": KEY.replace("key/1", "alias/jobs")}, "not of an alias"),
        ({"encryption_key": "arn:aws:kms:eu-central-1"}, "must be the ARN of a KMS key"),
        ({"log_key": "alias/logs"}, "log_key must be the ARN of a KMS key"),
        ({"alerts_to": ("a@b.c", "a@b.c")}, "alerts_to: 'a@b.c' is named twice"),
        ({"tickets_to": ("@",)}, "not an e-mail address: '@'"),
        ({"cluster": "a/b c"}, "cluster must be the name of one"),
        ({"environment": {"A": "x" * 50_000}}, "ECS takes 64 KiB"),
        ({"secrets": {"A": ARN[:-7]}}, "with its six random characters"),
        ({"vpc": {"id": "vpc-1", "subnets": SUBNETS * 2}}, "'subnet-1' is named twice"),
        ({"workers": [{"task_role": "x:role/"}]}, "task_role must be the ARN of a role"),
        ({"workers": [{"sidecars": [{**OF_TASK, "memory_mib": 2}]}]}, "must be 6 or more"),
        (
            {"workers": [{"memory_mib": 512, "sidecars": [{**OF_TASK, "memory_mib": 512}]}]},
            "'traces' may use 512 MiB, and its task has 512",
        ),
    ],
)
def test_surroundings_that_make_no_sense_are_refused_by_name(
    fields: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        parse_deployment(fields)


def test_an_isolated_network_has_endpoints_for_what_holds_secrets() -> None:
    def services(**fields: Any) -> set[str]:
        found = Deployment(**fields).interface_endpoints(long_delays=False, seals=False)
        return {*found} - {*INTERFACE_ENDPOINTS}

    own = WorkerGroup(secrets={"B": "ssm:/shop/b"})
    assert services() == set()
    assert services(secrets={"A": ARN}) == {"secretsmanager"}
    assert services(secrets={"A": ARN}, workers=(own,)) == {"secretsmanager", "ssm"}
    assert (
        Deployment(vpc=ExistingVpc(id="vpc-1", subnets=("subnet-1",))).interface_endpoints(
            long_delays=True, seals=True
        )
        == ()
    )


def test_a_group_replaces_the_deployments_variables_and_secrets() -> None:
    deployment = Deployment(environment={"A": "a", "B": "b"}, secrets={"C": ARN})
    group = WorkerGroup(environment={"C": "c"}, secrets={"A": "ssm:/a"})
    assert deployment.environment_of(group) == {"B": "b", "C": "c"}
    assert deployment.secrets_of(group) == {"A": "ssm:/a"}
