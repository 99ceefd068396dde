from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from headgate.jobs.aws.provision import provision
from headgate.jobs.aws.sqs.transport import AsyncSqsTransport, RequestMade, SqsTransport
from headgate.jobs.core.ports.transport import (
    AsyncTransport,
    OutgoingMessage,
    QueueDepth,
    Transport,
    VisibilityChange,
)
from headgate.jobs.core.topology import Lane, Priority, QueueSpec, Topology
from headgate.jobs.errors import (
    ConfigurationError,
    CredentialsMissing,
    QueueMissing,
    RegionMissing,
    ServiceUnavailable,
    TransportError,
)
from tests.support.environment import REGION, with_test_credentials, without_aws
from tests.support.ports import NOWHERE
from tests.support.queues import Queues
from tests.support.servers import SERVERS, ServerName, running_server

MESSAGE = OutgoingMessage(body='{"v": 1}')


@pytest.fixture(scope="session", params=SERVERS)
def endpoint(request: pytest.FixtureRequest) -> Iterator[str]:
    server: ServerName = request.param
    with running_server(server) as url:
        yield url


@pytest.fixture
def queues(endpoint: str) -> Iterator[Queues]:
    with Queues(endpoint, REGION) as made:
        yield made


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with_test_credentials(monkeypatch, tmp_path)


@pytest.fixture
async def sqs(endpoint: str) -> AsyncIterator[AsyncSqsTransport]:
    async with AsyncSqsTransport(endpoint_url=endpoint) as transport:
        yield transport


@pytest.fixture
def queue(queues: Queues) -> str:
    name = f"queue-{uuid4().hex}"
    queues.create_queue(name)
    return name


def test_both_transports_are_what_the_ports_ask_for() -> None:
    transports: tuple[AsyncTransport, Transport] = (AsyncSqsTransport(), SqsTransport())
    assert [type(transport).__name__ for transport in transports] == [
        "AsyncSqsTransport",
        "SqsTransport",
    ]


# --- messages ------------------------------------------------------------------------------------


async def test_a_message_arrives_with_its_attributes_group_and_count(
    sqs: AsyncSqsTransport, queue: str
) -> None:
    sent = OutgoingMessage(body="{}", attributes={"JobType": "send-email"}, group="org-1")
    assert await sqs.send(queue, [sent]) == []
    [message] = await sqs.receive(queue, limit=10, wait_s=20)
    assert (message.body, dict(message.attributes)) == ("{}", {"JobType": "send-email"})
    assert message.receive_count == 1
    assert message.sent_at.utcoffset() == timedelta(0)


async def test_a_message_that_is_given_back_comes_again_and_a_deleted_one_does_not(
    sqs: AsyncSqsTransport, queue: str
) -> None:
    await sqs.send(queue, [MESSAGE])
    [first] = await sqs.receive(queue, limit=10, wait_s=20)
    back = VisibilityChange(receipt=first.receipt, timeout_s=0)
    assert await sqs.change_visibility(queue, [back]) == []
    [second] = await sqs.receive(queue, limit=10, wait_s=20)
    assert second.receive_count == 2
    assert await sqs.delete(queue, [second.receipt]) == []
    assert await sqs.depth(queue) == QueueDepth(visible=0, in_flight=0, delayed=0)


async def test_one_bad_entry_is_reported_by_its_index_and_the_others_are_sent(
    sqs: AsyncSqsTransport, queue: str
) -> None:
    await sqs.send(queue, [MESSAGE])
    [message] = await sqs.receive(queue, limit=10, wait_s=20)
    changes = [
        VisibilityChange(receipt="not-a-receipt", timeout_s=0),
        VisibilityChange(receipt=message.receipt, timeout_s=0),
    ]
    [failure] = await sqs.change_visibility(queue, changes)
    assert failure.index == 0
    assert failure.sender_fault
    assert (await sqs.depth(queue)).visible == 1


def test_a_synchronous_sender_reaches_an_asynchronous_receiver(endpoint: str, queue: str) -> None:
    with SqsTransport(endpoint_url=endpoint) as sqs:
        assert sqs.send(queue, [MESSAGE, MESSAGE]) == []
        assert sqs.depth(queue).visible == 2


def test_synchronous_code_receives_gives_back_and_deletes(endpoint: str, queue: str) -> None:
    requests: list[RequestMade] = []
    with SqsTransport(endpoint_url=endpoint, on_request=requests.append) as sqs:
        sqs.send(queue, [MESSAGE])
        for delivery in (1, 2):
            [message] = sqs.receive(queue, limit=10, wait_s=1, visibility_s=600)
            assert (message.body, message.receive_count) == (MESSAGE.body, delivery)
            assert sqs.receive(queue, limit=10, wait_s=0) == []
            shown = VisibilityChange(receipt=message.receipt, timeout_s=0)
            assert sqs.change_visibility(queue, [shown]) == []
        [failure] = sqs.change_visibility(
            queue, [VisibilityChange(receipt="not-a-receipt", timeout_s=0)]
        )
        assert failure.sender_fault
        [message] = sqs.receive(queue, limit=10, wait_s=1)
        assert sqs.delete(queue, [message.receipt]) == []
        assert sqs.depth(queue) == QueueDepth(visible=0, in_flight=0, delayed=0)
    asked = [(request.action, request.entries) for request in requests]
    assert asked[:5] == [
        ("resolve", 0),
        ("send", 1),
        ("receive", 1),
        ("receive", 0),
        ("change_visibility", 1),
    ]
    assert asked[-2:] == [("delete", 1), ("depth", 0)]


async def test_a_pending_poll_does_not_take_the_connection_that_a_send_needs(
    endpoint: str, queue: str
) -> None:
    async with AsyncSqsTransport(endpoint_url=endpoint, max_pool_connections=1) as sqs:
        poll = asyncio.create_task(sqs.receive(queue, limit=1, wait_s=20))
        await sqs.depth(queue)  # a round trip, so that the poll is under way
        await sqs.send(queue, [MESSAGE])
        assert len(await poll) == 1


# --- addresses -----------------------------------------------------------------------------------


async def test_a_missing_queue_is_named_with_what_to_do(sqs: AsyncSqsTransport) -> None:
    with pytest.raises(QueueMissing, match=r"'nowhere' does not exist.*cdk deploy") as caught:
        await sqs.send("nowhere", [MESSAGE])
    assert caught.value.__cause__ is not None


def test_synchronous_calls_name_a_missing_queue_too(endpoint: str) -> None:
    with (
        SqsTransport(endpoint_url=endpoint) as sqs,
        pytest.raises(QueueMissing, match="nowhere"),
    ):
        sqs.send("nowhere", [MESSAGE])


async def test_however_many_ask_for_a_queue_at_once_its_address_is_asked_for_once(
    endpoint: str, queue: str
) -> None:
    seen: list[RequestMade] = []
    async with AsyncSqsTransport(endpoint_url=endpoint, on_request=seen.append) as sqs:
        await asyncio.gather(*(sqs.send(queue, [MESSAGE]) for _ in range(5)))
    actions = [request.action for request in seen]
    assert (actions.count("resolve"), actions.count("send")) == (1, 5)


async def test_a_queue_deleted_and_made_again_is_found_again(
    endpoint: str, queues: Queues, queue: str
) -> None:
    seen: list[RequestMade] = []
    async with AsyncSqsTransport(endpoint_url=endpoint, on_request=seen.append) as sqs:
        await sqs.send(queue, [MESSAGE])
        queues.delete_queue(queue)
        with pytest.raises(QueueMissing):
            await sqs.send(queue, [MESSAGE])
        queues.create_queue(queue)
        assert await sqs.send(queue, [MESSAGE]) == []
    assert [request.action for request in seen].count("resolve") == 2


# --- the observer --------------------------------------------------------------------------------


async def test_every_request_is_told_of_with_its_queue_and_how_much_it_carried(
    endpoint: str, queue: str
) -> None:
    seen: list[RequestMade] = []
    async with AsyncSqsTransport(endpoint_url=endpoint, on_request=seen.append) as sqs:
        await sqs.send(queue, [MESSAGE, MESSAGE])
        messages = await sqs.receive(queue, limit=10, wait_s=20)
        receipts = [message.receipt for message in messages]
        await sqs.change_visibility(
            queue, [VisibilityChange(receipt=receipt, timeout_s=60) for receipt in receipts]
        )
        await sqs.delete(queue, receipts)
        await sqs.depth(queue)
    assert [(request.action, request.entries) for request in seen] == [
        ("resolve", 0),
        ("send", 2),
        ("receive", 2),
        ("change_visibility", 2),
        ("delete", 2),
        ("depth", 0),
    ]
    assert {request.queue for request in seen} == {queue}
    assert all(request.duration_s > 0 for request in seen)


async def test_a_request_that_fails_is_told_of_too(endpoint: str) -> None:
    seen: list[RequestMade] = []
    async with AsyncSqsTransport(endpoint_url=endpoint, on_request=seen.append) as sqs:
        with pytest.raises(QueueMissing):
            await sqs.depth("nowhere")
    assert [request.action for request in seen] == ["resolve"]


# --- missing settings, servers and packages ------------------------------------------------------


async def test_without_credentials_the_error_says_how_to_give_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    without_aws(monkeypatch, tmp_path)
    async with AsyncSqsTransport(region=REGION) as sqs:
        with pytest.raises(CredentialsMissing, match="aws configure"):
            await sqs.depth("any")
    with (
        SqsTransport(region=REGION) as sqs,
        pytest.raises(CredentialsMissing, match="AWS_PROFILE"),
    ):
        sqs.depth("any")


async def test_without_a_region_the_error_says_how_to_give_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    without_aws(monkeypatch, tmp_path)
    with pytest.raises(RegionMissing, match="AWS_REGION"):
        await AsyncSqsTransport().start()
    with SqsTransport() as sqs, pytest.raises(RegionMissing, match="AWS_REGION"):
        sqs.depth("any")


async def test_a_profile_that_does_not_exist_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(CredentialsMissing, match="nobody"):
        await AsyncSqsTransport().start()
    with SqsTransport() as sqs, pytest.raises(CredentialsMissing, match="nobody"):
        sqs.depth("any")


async def test_an_endpoint_that_is_no_url_is_quoted() -> None:
    with pytest.raises(TransportError, match="not a url"):
        await AsyncSqsTransport(endpoint_url="not a url").start()
    with (
        SqsTransport(endpoint_url="not a url") as sqs,
        pytest.raises(TransportError, match="not a url"),
    ):
        sqs.depth("any")


async def test_an_endpoint_that_is_down_means_that_the_service_is_unavailable() -> None:
    async with AsyncSqsTransport(endpoint_url=NOWHERE) as sqs:
        with pytest.raises(ServiceUnavailable, match="EndpointConnectionError"):
            await sqs.receive("any", limit=1, wait_s=20)
    with SqsTransport(endpoint_url=NOWHERE) as sqs, pytest.raises(ServiceUnavailable):
        sqs.send("any", [MESSAGE])


async def test_without_aiobotocore_the_error_names_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "aiobotocore.session", None)
    monkeypatch.delitem(
        sys.modules, "headgate.jobs.aws.connections.late_credentials", raising=False
    )
    with pytest.raises(ConfigurationError, match=r"pip install 'headgate\[worker\]'"):
        await AsyncSqsTransport().start()


def test_importing_the_transport_imports_neither_sdk() -> None:
    imported = subprocess.run(
        [sys.executable, "-c", "import headgate.jobs.aws.sqs.transport, sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert not {"boto3", "aiobotocore", "aiohttp"} & set(imported)


# --- sources of the settings ---------------------------------------------------------------------


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_SQS"])
async def test_the_endpoint_comes_from_the_standard_variables(
    monkeypatch: pytest.MonkeyPatch, endpoint: str, queue: str, variable: str
) -> None:
    monkeypatch.setenv(variable, endpoint)
    async with AsyncSqsTransport() as sqs:
        assert await sqs.send(queue, [MESSAGE]) == []
    with SqsTransport() as sqs:
        assert sqs.send(queue, [MESSAGE]) == []


async def test_an_explicit_region_wins_then_aws_region_then_the_default_region(
    monkeypatch: pytest.MonkeyPatch, endpoint: str, queue: str
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_REGION", REGION)
    async with AsyncSqsTransport(endpoint_url=endpoint) as sqs:
        assert await sqs.send(queue, [MESSAGE]) == []
    async with AsyncSqsTransport(endpoint_url=endpoint, region="eu-west-1") as elsewhere:
        with pytest.raises(QueueMissing):
            await elsewhere.send(queue, [MESSAGE])


# --- starting and stopping -----------------------------------------------------------------------


async def test_starting_and_stopping_are_idempotent_and_stopping_first_is_safe(
    endpoint: str, queue: str
) -> None:
    sqs = AsyncSqsTransport(endpoint_url=endpoint)
    await sqs.stop()
    await asyncio.gather(sqs.start(), sqs.start())
    assert await sqs.send(queue, [MESSAGE]) == []
    await sqs.stop()
    await sqs.stop()
    with pytest.raises(ConfigurationError, match="async with"):
        await sqs.send(queue, [MESSAGE])


def test_a_closed_synchronous_transport_opens_again_when_it_is_used(
    endpoint: str, queue: str
) -> None:
    sqs = SqsTransport(endpoint_url=endpoint)
    sqs.close()
    assert sqs.send(queue, [MESSAGE]) == []
    sqs.close()
    assert sqs.send(queue, [MESSAGE]) == []
    sqs.close()


# --- provisioning --------------------------------------------------------------------------------


def _topology(*, fifo: bool) -> Topology:
    tail = ".fifo" if fifo else ""
    app = f"shop-{uuid4().hex[:8]}"
    spec = QueueSpec(
        group="jobs",
        priority=Priority.HIGH,
        name=f"{app}-jobs-high{tail}",
        dlq_name=f"{app}-jobs-high-dlq{tail}",
        lane=Lane(visibility=timedelta(seconds=60), start_within=timedelta(minutes=1), share=0.2),
        max_receive_count=13,
        fifo=fifo,
    )
    return Topology(
        app=app,
        stage=None,
        queues=(spec,),
        quarantine_name=f"{app}-quarantine",
        table_name=f"{app}-records",
    )


@pytest.mark.parametrize("fifo", [False, True], ids=["standard", "fifo"])
async def test_every_queue_is_made_with_the_numbers_that_the_topology_gives(
    endpoint: str, queues: Queues, fifo: bool
) -> None:
    topology = _topology(fifo=fifo)
    await provision(topology, endpoint_url=endpoint)
    [spec] = topology.queues
    main, dead = queues.attributes(spec.name), queues.attributes(spec.dlq_name)
    assert main["VisibilityTimeout"] == "60"
    assert main["MessageRetentionPeriod"] == str(4 * 86_400)
    assert main["ReceiveMessageWaitTimeSeconds"] == "20"
    assert main["SqsManagedSseEnabled"] == "true"
    redrive = json.loads(main["RedrivePolicy"])
    assert redrive["deadLetterTargetArn"] == dead["QueueArn"]
    assert int(redrive["maxReceiveCount"]) == 13
    assert dead["MessageRetentionPeriod"] == str(14 * 86_400)
    quarantine = queues.attributes(topology.quarantine_name)
    assert quarantine["MessageRetentionPeriod"] == str(14 * 86_400)
    for made in (main, dead):
        assert made.get("FifoQueue", "false") == str(fifo).lower()
        assert made.get("FifoThroughputLimit") == ("perMessageGroupId" if fifo else None)
        assert made.get("DeduplicationScope") == ("messageGroup" if fifo else None)


async def test_provisioning_again_changes_nothing(endpoint: str, queues: Queues) -> None:
    topology = _topology(fifo=False)
    await provision(topology, endpoint_url=endpoint)
    await provision(topology, endpoint_url=endpoint)
    assert queues.attributes(topology.queues[0].name)["VisibilityTimeout"] == "60"


@pytest.mark.parametrize("fifo", [False, True])
async def test_a_queue_that_exists_is_given_the_attributes_of_a_changed_topology(
    endpoint: str, queues: Queues, fifo: bool
) -> None:
    topology = _topology(fifo=fifo)
    await provision(topology, endpoint_url=endpoint)
    [spec] = topology.queues
    longer = replace(spec, lane=replace(spec.lane, visibility=timedelta(seconds=90)))
    await provision(replace(topology, queues=(longer,)), endpoint_url=endpoint)
    assert queues.attributes(spec.name)["VisibilityTimeout"] == "90"
    assert "RedrivePolicy" in queues.attributes(spec.name)
