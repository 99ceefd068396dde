"""moto, MiniStack and ElasticMQ as candidates of the suite, behind the transports of SQS."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Unpack

import pytest

from headgate.jobs.aws.sqs.transport import AsyncSqsTransport, SqsTransport
from headgate.jobs.core.ports.transport import (
    AsyncTransport,
    EntryFailure,
    OutgoingMessage,
    QueueDepth,
    ReceivedMessage,
    VisibilityChange,
)
from tests.conformance import gaps
from tests.conformance.servers import Candidate, Server
from tests.support.environment import REGION, with_test_credentials
from tests.support.queues import QueueOptions, Queues
from tests.support.servers import ServerName


@dataclass(frozen=True, slots=True)
class RealServer:
    """A server in a process of its own; its queues are created independently of the transport."""

    transport: AsyncTransport
    queues: Queues

    async def create_queue(self, name: str, **options: Unpack[QueueOptions]) -> None:
        self.queues.create_queue(name, **options)


class _InThreads:
    """An asynchronous view of an `SqsTransport`: each call runs in a thread."""

    def __init__(self, sqs: SqsTransport) -> None:
        self._sqs = sqs

    async def send(self, queue: str, messages: Sequence[OutgoingMessage]) -> list[EntryFailure]:
        return await asyncio.to_thread(self._sqs.send, queue, messages)

    async def receive(
        self, queue: str, *, limit: int, wait_s: float, visibility_s: int | None = None
    ) -> list[ReceivedMessage]:
        return await asyncio.to_thread(
            self._sqs.receive, queue, limit=limit, wait_s=wait_s, visibility_s=visibility_s
        )

    async def delete(self, queue: str, receipts: Sequence[str]) -> list[EntryFailure]:
        return await asyncio.to_thread(self._sqs.delete, queue, receipts)

    async def change_visibility(
        self, queue: str, changes: Sequence[VisibilityChange]
    ) -> list[EntryFailure]:
        return await asyncio.to_thread(self._sqs.change_visibility, queue, changes)

    async def depth(self, queue: str) -> QueueDepth:
        return await asyncio.to_thread(self._sqs.depth, queue)


def _connect_to(
    name: ServerName, *, lean: bool = True, threads: bool = False
) -> Callable[[pytest.FixtureRequest], AbstractAsyncContextManager[Server]]:
    """Return a factory of connections, one per test, to the session's server fixture ``name``."""

    @asynccontextmanager
    async def connect(request: pytest.FixtureRequest) -> AsyncIterator[Server]:
        endpoint_url: str = request.getfixturevalue(name)
        with_test_credentials(
            request.getfixturevalue("monkeypatch"), request.getfixturevalue("tmp_path")
        )
        with Queues(endpoint_url, REGION) as queues:
            if threads:
                with SqsTransport(endpoint_url=endpoint_url, lean=lean) as sqs:
                    yield RealServer(_InThreads(sqs), queues)
            else:
                async with AsyncSqsTransport(endpoint_url=endpoint_url, lean=lean) as transport:
                    yield RealServer(transport, queues)

    return connect


MOTO = Candidate(
    name="moto", connect=_connect_to("moto"), gaps=gaps.MOTO, unsteady=gaps.MOTO_UNSTEADY
)
MINISTACK = Candidate(name="ministack", connect=_connect_to("ministack"), gaps=gaps.MINISTACK)
ELASTICMQ = Candidate(name="elasticmq", connect=_connect_to("elasticmq"), gaps=gaps.ELASTICMQ)
ELASTICMQ_BY_AIOBOTOCORE = Candidate(
    name="elasticmq by aiobotocore",
    connect=_connect_to("elasticmq", lean=False),
    gaps=gaps.ELASTICMQ,
)
ELASTICMQ_FOR_THREADS = Candidate(
    name="elasticmq for threads",
    connect=_connect_to("elasticmq", threads=True),
    gaps=gaps.ELASTICMQ,
)
ELASTICMQ_BY_BOTO3 = Candidate(
    name="elasticmq by boto3",
    connect=_connect_to("elasticmq", lean=False, threads=True),
    gaps=gaps.ELASTICMQ,
)
