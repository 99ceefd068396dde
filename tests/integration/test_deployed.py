"""The shop's template, deployed: its queues, schedules and functions at work together."""

from __future__ import annotations

import asyncio
import copy
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from botocore.exceptions import ClientError

from examples.shop import contracts as shop
from infra.stack import HeadgateStack
from jobs import App, AsyncClient, AsyncJobHandle, Priority
from jobs.envelope import derived_job_id
from tests.infra.conftest import NO_BUNDLING, Params
from tests.infra.templates import queues, template_of
from tests.support.deployable import deployable, left_out
from tests.support.deployed import Stack
from tests.support.deployed_shop import TOPOLOGY, DeployedShop, deployed_shop
from tests.support.journal import GENEROUS_S
from tests.support.queue_attributes import declared, told
from tests.support.workers import WorkerProcess, environment


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeployedShop]:
    with deployed_shop(tmp_path_factory.mktemp("cdk.out")) as shop:
        yield shop


@pytest.fixture
async def worker(deployed: DeployedShop, tmp_path: Path) -> AsyncIterator[WorkerProcess]:
    env = environment(deployed.cloud.endpoint_url, "", tmp_path) | {"SHOP_DATA": str(tmp_path)}
    async with WorkerProcess(app="examples.shop.app:app", env=env) as process:
        yield process
        process.send(signal.SIGTERM)  # and not killed: it would hide what it has from the next
        assert await process.ended() == 0


# --- deploy --------------------------------------------------------------------------------------


def test_all_of_the_template_is_deployed_but_what_ministack_can_not_make(
    deployed: DeployedShop,
) -> None:
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
    template = deployable(template_of(HeadgateStack(cdk.App(context=NO_BUNDLING), "L", app=app)))
    only_queues = {
        name: resource
        for name, resource in template["Resources"].items()
        if resource["Type"] == "AWS::SQS::Queue"
    }
    stack = Stack(deployed.cloud, "ledger")
    stack.create({"Resources": only_queues})

    for queue in (app.topology.queue("books", Priority.NORMAL),):
        for name in (queue.name, queue.dlq_name):
            said = declared(template, queues(template)[name])
            assert said["FifoQueue"] is True
            assert said.items() <= told(deployed.attributes(name)).items()
    stack.delete()


# --- submit, drain -------------------------------------------------------------------------------


@pytest.mark.usefixtures("worker")
async def test_what_the_sdk_submits_to_the_deployed_queues_a_worker_does() -> None:
    orders = [
        shop.Order(order_id=f"order-{number}", sku="sku-1", quantity=1, amount_cents=100)
        for number in range(20)
    ]
    payment = shop.Payment(order_id="order-1", amount_cents=100)
    async with AsyncClient(shop.app) as client:
        submitted: list[AsyncJobHandle[Any]] = [
            *await client.submit_many(shop.process_order, orders),
            await client.submit(shop.capture_payment, payment),
            await client.submit(shop.send_notification, shop.Notification(user="ada", text="Hi")),
            await client.submit(shop.send_email, shop.Email(to="ada@example.com", subject="Hello")),
            await client.submit(shop.aggregate_analytics, shop.Analytics()),
        ]
        async with asyncio.timeout(GENEROUS_S):
            assert {await job.wait() for job in submitted} == {"completed"}


# --- fire ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("worker")
async def test_the_deployed_rates_fire_by_themselves_and_the_worker_does_their_jobs(
    deployed: DeployedShop,
) -> None:
    rates = [
        job.name
        for job in shop.app.types.values()
        if job.schedule and job.schedule.expression.startswith("rate(")
    ]
    assert rates
    async with AsyncClient(shop.app) as client, asyncio.timeout(GENEROUS_S):
        for name in rates:
            schedule = deployed.schedule(name)
            made = schedule["CreationDate"].replace(microsecond=0)  # a rate's first time
            assert await client.handle(str(derived_job_id(made, schedule["Arn"]))).wait() == (
                "completed"
            )


def test_the_bridge_that_they_invoked_ran_what_was_bundled_for_it(deployed: DeployedShop) -> None:
    bridges = deployed.processes_of(TOPOLOGY.bridge_name)
    assert bridges
    for bridge in bridges:
        [core] = {each.path for each in bridge.memory_maps() if "pydantic_core" in each.path}
        assert Path(core).is_relative_to(bridge.cwd())


# --- poison --------------------------------------------------------------------------------------


def test_a_message_that_kills_whoever_receives_it_is_moved_by_the_deployed_redrive_policy(
    deployed: DeployedShop,
) -> None:
    spec = TOPOLOGY.queue("payments", Priority.CRITICAL)
    deployed.send(spec.name, "poison")

    receives = 0
    while deployed.receive(spec.name) == "poison":
        receives += 1

    assert receives == spec.max_receive_count
    assert deployed.receive(spec.dlq_name) == "poison"


# --- deploy again, and delete --------------------------------------------------------------------


def test_the_same_template_again_changes_nothing(deployed: DeployedShop) -> None:
    with pytest.raises(ClientError, match="No updates are to be performed"):
        deployed.stack.update(deployable(deployed.template))


def test_another_visibility_timeout_changes_its_queue_and_replaces_nothing(
    deployed: DeployedShop,
) -> None:
    spec = TOPOLOGY.queue("inventory", Priority.NORMAL)
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


def test_a_stack_that_is_deleted_leaves_nothing_behind(deployed: DeployedShop) -> None:
    deployed.stack.delete()

    ask = deployed.cloud.client
    groups = ask("scheduler").list_schedule_groups()["ScheduleGroups"]
    assert [group["Name"] for group in groups] == ["default"]
    assert ask("sqs").list_queues().get("QueueUrls", []) == []
    assert ask("scheduler").list_schedules()["Schedules"] == []
    assert ask("lambda").list_functions()["Functions"] == []
    assert ask("dynamodb").list_tables()["TableNames"] == []
    assert ask("iam").list_roles()["Roles"] == []
