"""The object stores that the conformance suite runs over, with their connections."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from uuid import uuid4

import pytest

from headgate import App
from headgate.jobs.aws.provision import create_bucket
from headgate.jobs.aws.s3 import AsyncS3Store, S3Store
from headgate.jobs.core.ports.object_store import AsyncObjectStore, ObjectStore
from headgate.jobs.core.topology import Topology
from headgate.jobs.testing import MemoryStore
from tests.support.environment import with_test_credentials
from tests.support.servers import ServerName


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreUnderTest:
    """A bucket that no other test uses."""

    async_store: AsyncObjectStore
    store: ObjectStore
    """The same bucket for synchronous code."""
    nowhere: AsyncObjectStore
    """A bucket that does not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCandidate:
    """A store that the whole suite runs over."""

    name: str
    connect: Callable[[pytest.FixtureRequest], AbstractAsyncContextManager[StoreUnderTest]]


@asynccontextmanager
async def _memory(request: pytest.FixtureRequest) -> AsyncIterator[StoreUnderTest]:
    del request
    store, nowhere = MemoryStore(), MemoryStore(name="nowhere")
    nowhere.missing = True
    yield StoreUnderTest(async_store=store, store=store.sync, nowhere=nowhere)


def _connect_to(
    name: ServerName,
) -> Callable[[pytest.FixtureRequest], AbstractAsyncContextManager[StoreUnderTest]]:
    """Return a factory of buckets, one per test, on the session's server fixture ``name``."""

    @asynccontextmanager
    async def connect(request: pytest.FixtureRequest) -> AsyncIterator[StoreUnderTest]:
        endpoint_url: str = request.getfixturevalue(name)
        with_test_credentials(
            request.getfixturevalue("monkeypatch"), request.getfixturevalue("tmp_path")
        )
        topology, nowhere = _topology(), _topology()
        await create_bucket(topology, endpoint_url=endpoint_url)
        synchronous = S3Store(topology.bucket, endpoint_url=endpoint_url)
        async with (
            AsyncS3Store(topology.bucket, endpoint_url=endpoint_url) as store,
            AsyncS3Store(nowhere.bucket, endpoint_url=endpoint_url) as missing,
        ):
            try:
                yield StoreUnderTest(async_store=store, store=synchronous, nowhere=missing)
            finally:
                synchronous.close()

    return connect


def _topology() -> Topology:
    return App(f"a{uuid4().hex[:12]}", stage="test").topology


STORES: tuple[StoreCandidate, ...] = (
    StoreCandidate(name="memory", connect=_memory),
    StoreCandidate(name="moto", connect=_connect_to("moto")),
    StoreCandidate(name="ministack", connect=_connect_to("ministack")),
)
