"""The schedulers that the conformance suite runs over, with their gaps and connections."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from uuid import uuid4

import boto3
import pytest

from headgate.jobs.aws.scheduler import AsyncEventBridgeScheduler, EventBridgeScheduler
from headgate.jobs.core.clock import SystemClock
from headgate.jobs.core.ports.scheduler import AsyncScheduler, Scheduler, ScheduleSpec
from headgate.jobs.testing import MemoryScheduler
from tests.support.environment import REGION, with_test_credentials
from tests.support.servers import ServerName


class SchedulerFeature(StrEnum):
    """A part of EventBridge Scheduler that some server lacks; tests that expose the gap need it."""

    GROUP_MISSING_AT_CREATION = "group-missing-at-creation"
    GROUP_MISSING_AT_LISTING = "group-missing-at-listing"
    PAGES = "pages"
    START_AT_CREATION = "start-at-creation"
    START_AT_UPDATE = "start-at-update"
    TOKENS = "tokens"
    UPDATES_EVERYTHING = "updates-everything"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerUnderTest:
    """A scheduler, with a group that no other test uses."""

    scheduler: AsyncScheduler
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerCandidate:
    """A scheduler that the whole suite runs over, like `tests.conformance.servers.Candidate`."""

    name: str
    connect: Callable[[pytest.FixtureRequest], AbstractAsyncContextManager[SchedulerUnderTest]]
    gaps: Mapping[SchedulerFeature, str] = field(default_factory=dict)
    unsteady: Mapping[SchedulerFeature, str] = field(default_factory=dict)


class Awaited:
    """A synchronous scheduler, called from an event loop."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    async def create(self, schedule: ScheduleSpec, *, token: str) -> bool:
        return self._scheduler.create(schedule, token=token)

    async def get(self, group: str, name: str) -> ScheduleSpec | None:
        return self._scheduler.get(group, name)

    async def names(self, group: str, *, prefix: str) -> list[str]:
        return self._scheduler.names(group, prefix=prefix)

    async def update(self, schedule: ScheduleSpec) -> bool:
        return self._scheduler.update(schedule)

    async def delete(self, group: str, name: str) -> bool:
        return self._scheduler.delete(group, name)


@asynccontextmanager
async def _memory(request: pytest.FixtureRequest) -> AsyncIterator[SchedulerUnderTest]:
    del request
    group = _group()
    yield SchedulerUnderTest(scheduler=MemoryScheduler(SystemClock(), groups={group}), group=group)


@asynccontextmanager
async def _synchronous_memory(request: pytest.FixtureRequest) -> AsyncIterator[SchedulerUnderTest]:
    del request
    group = _group()
    memory = MemoryScheduler(SystemClock(), groups={group})
    yield SchedulerUnderTest(scheduler=Awaited(memory.sync), group=group)


def _connect_to(
    name: ServerName, *, synchronous: bool = False
) -> Callable[[pytest.FixtureRequest], AbstractAsyncContextManager[SchedulerUnderTest]]:
    """Return a factory of connections, one per test, to the session's server fixture ``name``."""

    @asynccontextmanager
    async def connect(request: pytest.FixtureRequest) -> AsyncIterator[SchedulerUnderTest]:
        endpoint_url: str = request.getfixturevalue(name)
        with_test_credentials(
            request.getfixturevalue("monkeypatch"), request.getfixturevalue("tmp_path")
        )
        group = _group()
        aws = boto3.client("scheduler", endpoint_url=endpoint_url, region_name=REGION)
        try:
            aws.create_schedule_group(Name=group)
            if synchronous:
                with EventBridgeScheduler(endpoint_url=endpoint_url) as scheduler:
                    yield SchedulerUnderTest(scheduler=Awaited(scheduler), group=group)
            else:
                async with AsyncEventBridgeScheduler(endpoint_url=endpoint_url) as awaited:
                    yield SchedulerUnderTest(scheduler=awaited, group=group)
            aws.delete_schedule_group(Name=group)
        finally:
            aws.close()

    return connect


def _group() -> str:
    return f"g{uuid4().hex}"


MOTO: Mapping[SchedulerFeature, str] = {
    SchedulerFeature.GROUP_MISSING_AT_CREATION: "moto answers with an internal error",
    SchedulerFeature.GROUP_MISSING_AT_LISTING: "moto lists nothing",
    SchedulerFeature.START_AT_UPDATE: "moto takes any start in an update",
    SchedulerFeature.TOKENS: "moto doesn't know client tokens",
    SchedulerFeature.UPDATES_EVERYTHING: "moto keeps what is to happen after completion",
}

MINISTACK: Mapping[SchedulerFeature, str] = {
    SchedulerFeature.GROUP_MISSING_AT_LISTING: "MiniStack lists nothing",
    SchedulerFeature.PAGES: "MiniStack lists a hundred, and says that there are no more",
    SchedulerFeature.START_AT_CREATION: "MiniStack takes any start",
    SchedulerFeature.START_AT_UPDATE: "MiniStack takes any start",
    SchedulerFeature.TOKENS: "MiniStack doesn't know client tokens",
}

SCHEDULERS: tuple[SchedulerCandidate, ...] = (
    SchedulerCandidate(name="memory", connect=_memory),
    SchedulerCandidate(name="memory for plain code", connect=_synchronous_memory),
    SchedulerCandidate(name="moto", connect=_connect_to("moto"), gaps=MOTO),
    SchedulerCandidate(
        name="moto by boto3", connect=_connect_to("moto", synchronous=True), gaps=MOTO
    ),
    SchedulerCandidate(name="ministack", connect=_connect_to("ministack"), gaps=MINISTACK),
    SchedulerCandidate(
        name="ministack by boto3",
        connect=_connect_to("ministack", synchronous=True),
        gaps=MINISTACK,
    ),
)
