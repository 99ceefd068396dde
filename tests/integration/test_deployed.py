"""The shop's template, deployed: its queues, schedules and functions at work together."""

from __future__ import annotations

import asyncio
import copy
import json
import signal
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from examples.shop import contracts as shop
from headgate import App, AsyncClient, AsyncJobHandle, Priority
from headgate.jobs.dead_letters.reading import REDRIVEN
from headgate.jobs.messages.job_ids import derived_job_id
from tests.infra.conftest import Params
from tests.infra.templates import queues, synthesized
from tests.support.deployable import GAPS, deployable, left_out
from tests.support.deployed import Stack
from tests.support.deployed_shop import (
    EVERY_MINUTE,
    NOTIFIER,
    TOPOLOGY,
    WORKERS_QUEUES,
    DeployedShop,
    deployed_shop,
)
from tests.support.journal import GENEROUS_S
from tests.support.queue_attributes import declared, told
from tests.support.workers import WorkerProcess, environment

MINUTE_S = 60


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeployedShop]:
    with deployed_shop(tmp_path_factory.mktemp("shop")) as shop:
        yield shop


@pytest.fixture
async def worker(deployed: DeployedShop, tmp_path: Path) -> AsyncIterator[WorkerProcess]:
    env = environment(deployed.cloud.endpoint_url, "", tmp_path) | {"SHOP_DATA": str(tmp_path)}
    queues = ("--queues", ",".join(WORKERS_QUEUES))
    async with WorkerProcess(*queues, app="examples.shop.app:app", env=env) as process:
        yield process
        process.send(signal.SIGTERM)  # not killed, which would hide its messages from the next
        assert await process.ended() == 0


# --- deploy --------------------------------------------------------------------------------------


def test_only_the_listed_types_and_the_alarms_dashboard_are_left_out(
    deployed: DeployedShop,
) -> None:
    declared = deployed.template["Resources"]
    types = {declared[name]["Type"] for name in left_out(deployed.template)}
    assert types == {gap.type for gap in GAPS} | {"AWS::CloudWatch::Dashboard"}


def test_all_else_of_the_template_is_deployed(deployed: DeployedShop) -> None:
    wanted = deployed.template["Resources"].keys() - left_out(deployed.template).keys()
    assert deployed.stack.resources().keys() == wanted


def test_every_queue_has_the_attributes_that_the_template_gives_it(deployed: DeployedShop) -> None:
    template = deployed.template
    assert {spec.name for spec in TOPOLOGY.queues} < queues(template).keys()
    for name, properties in queues(template).items():
        assert declared(template, properties).items() <= told(deployed.attributes(name)).items()


def test_fifo_queues_have_theirs(deployed: DeployedShop) -> None:
    app = App("ledger")
    books = app.queue("books", priorities=[Priority.NORMAL], fifo=True)
    books.define("post", Params, group_by=lambda _params: "a")
    template = synthesized(app)
    only_queues = {
        name: resource
        for name, resource in template["Resources"].items()
        if resource["Type"] == "AWS::SQS::Queue"
    }
    stack = Stack(deployed.cloud, "ledger")
    stack.create({"Resources": only_queues})

    spec = app.topology.queue("books", Priority.NORMAL)
    for name in (spec.name, spec.dlq_name):
        said = declared(template, queues(template)[name])
        assert said["FifoQueue"] is True
        assert said.items() <= told(deployed.attributes(name)).items()
    stack.delete()


# --- submit, fire, drain -------------------------------------------------------------------------


@pytest.mark.usefixtures("worker")
async def test_what_is_submitted_and_what_the_schedules_fire_is_done(
    deployed: DeployedShop,
) -> None:
    async with AsyncClient(shop.app) as client, asyncio.timeout(MINUTE_S + GENEROUS_S):
        submitted = await submit_of_each_queue(client)
        fired = [client.handle(job_id) for job_id in fired_by_rates(deployed)]
        assert fired
        for job in (*submitted, *fired):
            assert await job.wait() == "completed"


async def submit_of_each_queue(client: AsyncClient) -> list[AsyncJobHandle[Any]]:
    """Submit to every queue: a function serves the notifications', a worker all others."""
    orders = [
        shop.Order(order_id=f"order-{number}", sku="sku-1", quantity=1, amount_cents=100)
        for number in range(20)
    ]
    payment = shop.Payment(order_id="order-1", amount_cents=100)
    return [
        *await client.submit_many(shop.process_order, orders),
        await client.submit(shop.capture_payment, payment),
        await client.submit(shop.sync_inventory, shop.InventorySync()),
        await client.submit(shop.send_email, shop.Email(to="ada@example.com", subject="Hello")),
        await client.submit(shop.send_notification, shop.Notification(user="ada", text="Hi")),
    ]


def fired_by_rates(deployed: DeployedShop) -> list[str]:
    """Return the ids of the first jobs of all rates, which fire first when they are created.

    For the one that fires every minute, also the id of the second job.
    """
    rates = [
        job.name
        for job in shop.app.types.values()
        if job.schedule and job.schedule.expression.startswith("rate(")
    ]
    return [
        *(fired_by(deployed, name) for name in rates),
        fired_by(deployed, EVERY_MINUTE, MINUTE_S),
    ]


def fired_by(deployed: DeployedShop, name: str, after_s: float = 0) -> str:
    """Return the id of the job that a schedule submits that long after it was created."""
    schedule = deployed.schedule(name)
    due = schedule["CreationDate"].replace(microsecond=0) + timedelta(seconds=after_s)
    return str(derived_job_id(due, schedule["Arn"]))


def test_what_a_function_runs_is_what_was_bundled_for_it(deployed: DeployedShop) -> None:
    for function in (TOPOLOGY.bridge_name, NOTIFIER):
        processes = deployed.processes_of(function)
        assert processes
        for process in processes:
            maps = {each.path for each in process.memory_maps()}
            [core] = {path for path in maps if "pydantic_core" in path}
            assert Path(core).is_relative_to(process.cwd())


# --- poison, sweep -------------------------------------------------------------------------------


async def test_the_deployed_redrive_policy_and_sweep_handle_poison(
    deployed: DeployedShop,
) -> None:
    spec = TOPOLOGY.queue("payments", Priority.CRITICAL)
    deployed.subscribe("oncall")  # before there is any news: the sweep's schedule fires too
    deployed.send(spec.name, "poison")

    receives = 0
    while deployed.receive(spec.name) == "poison":
        receives += 1
    assert receives == spec.max_receive_count

    async with asyncio.timeout(GENEROUS_S):
        # A scheduled sweep may be under way: a concurrent one does nothing.
        while (told := deployed.receive("oncall")) is None:
            await asyncio.to_thread(deployed.sweep)

    alert = json.loads(told)["Message"]
    assert spec.dlq_name in alert
    assert REDRIVEN in alert
    assert "poison" not in alert, "a payload"
    assert deployed.receive(spec.dlq_name, wait_s=20) == "poison", "it gives back what it looks at"


# --- deploy again, and delete --------------------------------------------------------------------


def test_the_same_template_again_changes_nothing(deployed: DeployedShop) -> None:
    with pytest.raises(ClientError, match="No updates are to be performed"):
        deployed.stack.update(deployable(deployed.template))


def test_another_visibility_timeout_changes_its_queue_and_replaces_nothing(
    deployed: DeployedShop,
) -> None:
    spec = TOPOLOGY.queue("inventory", Priority.HIGH)
    before = deployed.stack.resources()
    longer: Any = copy.deepcopy(deployable(deployed.template))
    [queue] = [
        resource["Properties"]
        for resource in longer["Resources"].values()
        if resource.get("Properties", {}).get("QueueName") == spec.name
    ]
    queue["VisibilityTimeout"] += 1

    deployed.stack.update(longer)

    assert deployed.attributes(spec.name)["VisibilityTimeout"] == str(spec.visibility_s + 1)
    assert deployed.stack.resources() == before


def test_a_stack_that_is_deleted_leaves_its_data_and_its_workers_log_behind(
    deployed: DeployedShop,
) -> None:
    [log_group] = deployed.logical_ids("AWS::Logs::LogGroup", "Workers")
    workers_log = deployed.stack.resources()[log_group]

    deployed.stack.delete()

    ask = deployed.cloud.client
    groups = ask("scheduler").list_schedule_groups()["ScheduleGroups"]
    assert {group["Name"] for group in groups} == {"default", TOPOLOGY.schedule_group}
    assert ask("scheduler").list_schedules()["Schedules"] == []
    urls = ask("sqs").list_queues()["QueueUrls"]
    left = {url.rpartition("/")[2] for url in urls if TOPOLOGY.app in url}
    assert left == queues(deployed.template).keys()
    assert ask("lambda").list_functions()["Functions"] == []
    assert ask("lambda").list_event_source_mappings()["EventSourceMappings"] == []
    assert ask("dynamodb").list_tables()["TableNames"] == [TOPOLOGY.table_name]
    assert ask("sns").list_topics()["Topics"] == []
    assert ask("ecs").list_clusters()["clusterArns"] == []
    [log] = ask("logs").describe_log_groups()["logGroups"]
    assert log["logGroupName"] == workers_log
    assert ask("iam").list_roles()["Roles"] == []
