"""Requirements of the conformance suite on a server, and declarations of known gaps."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, Unpack

import pytest

from headgate.jobs.core.clock import SystemClock
from headgate.jobs.core.ports.transport import AsyncTransport
from headgate.jobs.testing import MemorySqs
from tests.support.queues import DEFAULT_OPTIONS, QueueOptions


class Feature(StrEnum):
    """A part of SQS's behaviour that some server lacks; the tests that expose the gap need it."""

    ATTRIBUTE_RULES = "attribute-rules"
    ATTRIBUTES_IN_SIZE = "attributes-in-size"
    CONCURRENT_RECEIVERS = "concurrent-receivers"
    DEDUPLICATION_OUTLIVES_DELETE = "deduplication-outlives-delete"
    DELAY_LIMIT = "delay-limit"
    FIFO_DELAY_FAILS_ALONE = "fifo-delay-fails-alone"
    FIFO_RECEIPTS_EXPIRE = "fifo-receipts-expire"
    FULL_SIZE = "full-size"
    PAST_RECEIPT_DELETES = "past-receipt-deletes"
    REPEATED_DELETE = "repeated-delete"
    SIZE_IN_BYTES = "size-in-bytes"
    VISIBILITY_LIMIT = "visibility-limit"
    XML_CHARACTERS = "xml-characters"


class Server(Protocol):
    """A queue service under test."""

    @property
    def transport(self) -> AsyncTransport: ...

    async def create_queue(self, name: str, **options: Unpack[QueueOptions]) -> None:
        """Create a queue as `MemorySqs.create_queue` does; ``dlq`` names an existing queue."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A server that the whole suite runs over: its name and its connection."""

    name: str
    connect: Callable[[pytest.FixtureRequest], AbstractAsyncContextManager[Server]]
    """Opens the server for one test, on that test's event loop.

    It may request a session's fixture, such as one that starts a process.
    """
    gaps: Mapping[Feature, str] = field(default_factory=dict)
    """Missing features, each with what the server does instead.

    A test that needs one of them must fail there, so that a repair of the server is noticed.
    """
    unsteady: Mapping[Feature, str] = field(default_factory=dict)
    """Features that work only sometimes.

    A test that needs one of them is skipped there, since neither outcome would mean anything.
    """


def needs(feature: StrEnum) -> pytest.MarkDecorator:
    """Mark a test that fails on servers with this gap."""
    return pytest.mark.needs(feature)


@dataclass(frozen=True, slots=True)
class MemoryServer:
    """The in-memory service of `jobs.testing`, in real time like the other servers."""

    transport: MemorySqs

    async def create_queue(self, name: str, **options: Unpack[QueueOptions]) -> None:
        given = DEFAULT_OPTIONS | options
        self.transport.create_queue(
            name,
            visibility=given["visibility_s"],
            delay=given["delay_s"],
            retention=given["retention_s"],
            dlq=given["dlq"],
            max_receive_count=given["max_receive_count"],
            fifo=given["fifo"],
        )


@asynccontextmanager
async def connect_to_memory(request: pytest.FixtureRequest) -> AsyncIterator[Server]:
    """Yield a separate service for each test."""
    del request
    yield MemoryServer(MemorySqs(SystemClock()))


MEMORY = Candidate(name="memory", connect=connect_to_memory)
