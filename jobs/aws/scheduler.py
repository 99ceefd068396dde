"""`jobs.core.ports.AsyncScheduler` and `Scheduler` on EventBridge Scheduler.

The calls of both are written once. They use names: STS is asked for the account, once; function,
role and queues are the account's own, in the client's region. Both open with their first call,
since few programs ever make one.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from botocore.exceptions import ClientError

from headgate.jobs.aws import schedule_wire
from headgate.jobs.aws.connections.connection import (
    Connection,
    ImmediateClient,
    async_aws_client,
    async_session,
    aws_client,
)
from headgate.jobs.aws.connections.faults import naming
from headgate.jobs.core.immediate import drive
from headgate.jobs.core.ports import ScheduleSpec

if TYPE_CHECKING:
    from aiobotocore.session import AioSession
    from boto3.session import Session
    from botocore.config import Config

_POOL = 16  # as many as `client.schedules.list` asks at once


class _Calls:
    """The calls of a scheduler, through a client whose calls are awaited, and its place."""

    def __init__(self, client: Callable[[], Awaitable[tuple[Any, schedule_wire.AwsPlace]]]) -> None:
        self._client = client

    async def create(self, schedule: ScheduleSpec, *, token: str) -> bool:
        """Create a schedule (CreateSchedule); return False if its name is taken."""
        client, place = await self._client()
        with naming("scheduler:CreateSchedule", schedule.group):
            try:
                await client.create_schedule(**schedule_wire.create_request(schedule, place, token))
            except ClientError as error:
                if schedule_wire.refused_with(error, schedule_wire.NAME_TAKEN):
                    return False
                raise
        return True

    async def get(self, group: str, name: str) -> ScheduleSpec | None:
        """Return a schedule, or None if there is none of that name (GetSchedule)."""
        client, _ = await self._client()
        with naming("scheduler:GetSchedule", group):
            try:
                return schedule_wire.read_schedule(
                    await client.get_schedule(**schedule_wire.address(group, name))
                )
            except ClientError as error:
                if schedule_wire.refused_with(error, schedule_wire.NOT_THERE):
                    return None
                raise

    async def names(self, group: str, *, prefix: str) -> list[str]:
        """Return the names that begin with ``prefix`` (ListSchedules, a request per hundred)."""
        client, _ = await self._client()
        found: list[str] = []
        page: str | None = None
        while True:
            with naming("scheduler:ListSchedules", group):
                answer = await client.list_schedules(
                    **schedule_wire.names_request(group, prefix, page)
                )
                found += schedule_wire.read_names(answer)
            if (page := schedule_wire.next_page(answer)) is None:
                return found

    async def update(self, schedule: ScheduleSpec) -> bool:
        """Overwrite a schedule (UpdateSchedule); return False if there is none of that name."""
        client, place = await self._client()
        request = schedule_wire.update_request(
            schedule, place, schedule_wire.arguments_of_update(client)
        )
        with naming("scheduler:UpdateSchedule", schedule.group):
            try:
                await client.update_schedule(**request)
            except ClientError as error:
                if schedule_wire.refused_with(error, schedule_wire.NOT_THERE):
                    return False
                raise
        return True

    async def delete(self, group: str, name: str) -> bool:
        """Delete a schedule (DeleteSchedule); return False if there is none of that name."""
        client, _ = await self._client()
        with naming("scheduler:DeleteSchedule", group):
            try:
                await client.delete_schedule(**schedule_wire.address(group, name))
            except ClientError as error:
                if schedule_wire.refused_with(error, schedule_wire.NOT_THERE):
                    return False
                raise
        return True


class AsyncEventBridgeScheduler(_Calls):
    """EventBridge Scheduler for an event loop: `jobs.core.ports.AsyncScheduler`.

    ::

        async with AsyncEventBridgeScheduler() as scheduler:
            await scheduler.names("shop", prefix="delay.")

    Each call has three tries, of 10 s each. By its token, the service recognizes a creation that is
    tried again.

    Args:
        endpoint_url: None for the one in ``AWS_ENDPOINT_URL_SCHEDULER``, ``AWS_ENDPOINT_URL`` or
            the profile, else AWS's own.
        region: None for ``AWS_REGION``, ``AWS_DEFAULT_REGION`` or the profile's.
        account: the account that owns function, role and queues; None asks STS.
        session: The user's own aiobotocore session; None makes one.
        config: The user's own botocore settings, which win over these.
    """

    def __init__(
        self,
        *,
        endpoint_url: str | None = None,
        region: str | None = None,
        account: str | None = None,
        session: AioSession | None = None,
        config: Config | None = None,
    ) -> None:
        super().__init__(self._opened)
        self._account = account
        self._connection = Connection(
            endpoint_url=endpoint_url, region=region, pool=_POOL, session=session, config=config
        )
        self._lifecycle = asyncio.Lock()
        self._closing = AsyncExitStack()
        self._open: tuple[Any, schedule_wire.AwsPlace] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Close the connections. Idempotent; a later call opens them again."""
        async with self._lifecycle:
            self._open = None
            await self._closing.aclose()

    async def _opened(self) -> tuple[Any, schedule_wire.AwsPlace]:
        async with self._lifecycle:
            if self._open is None:
                self._open = await self._make()
            return self._open

    async def _make(self) -> tuple[Any, schedule_wire.AwsPlace]:
        session = async_session(self._connection.session)
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(
                async_aws_client("scheduler", self._connection, session)
            )
            place = await self._place(client, session)
            self._closing = stack.pop_all()
        return client, place

    async def _place(self, client: Any, session: AioSession) -> schedule_wire.AwsPlace:
        region, partition = client.meta.region_name, client.meta.partition
        if self._account is not None:
            return schedule_wire.AwsPlace(partition=partition, account=self._account, region=region)
        async with async_aws_client("sts", self._connection, session) as sts:
            with naming("sts:GetCallerIdentity", "sts"):
                return schedule_wire.place_of(await sts.get_caller_identity(), region)


class EventBridgeScheduler:
    """EventBridge Scheduler for synchronous code, on boto3: `jobs.core.ports.Scheduler`.

    Safe to share between threads. The arguments are `AsyncEventBridgeScheduler`'s, with a session
    of boto3.
    """

    def __init__(
        self,
        *,
        endpoint_url: str | None = None,
        region: str | None = None,
        session: Session | None = None,
        config: Config | None = None,
    ) -> None:
        self._calls = _Calls(self._opened)
        self._connection = Connection(
            endpoint_url=endpoint_url, region=region, pool=_POOL, session=session, config=config
        )
        self._opening = threading.Lock()
        self._client: tuple[Any, schedule_wire.AwsPlace] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. Idempotent; a later call opens them again."""
        with self._opening:
            if self._client is not None:
                (client, _), self._client = self._client, None
                client.close()

    def create(self, schedule: ScheduleSpec, *, token: str) -> bool:
        """Create a schedule (CreateSchedule); return False if its name is taken."""
        return drive(self._calls.create(schedule, token=token))

    def get(self, group: str, name: str) -> ScheduleSpec | None:
        """Return a schedule, or None if there is none of that name (GetSchedule)."""
        return drive(self._calls.get(group, name))

    def names(self, group: str, *, prefix: str) -> list[str]:
        """Return the names that begin with ``prefix`` (ListSchedules, a request per hundred)."""
        return drive(self._calls.names(group, prefix=prefix))

    def update(self, schedule: ScheduleSpec) -> bool:
        """Overwrite a schedule (UpdateSchedule); return False if there is none of that name."""
        return drive(self._calls.update(schedule))

    def delete(self, group: str, name: str) -> bool:
        """Delete a schedule (DeleteSchedule); return False if there is none of that name."""
        return drive(self._calls.delete(group, name))

    async def _opened(self) -> tuple[Any, schedule_wire.AwsPlace]:
        with self._opening:
            if self._client is None:
                client = ImmediateClient(aws_client("scheduler", self._connection))
                self._client = client, self._place(client.meta.region_name)
            return self._client

    def _place(self, region: str) -> schedule_wire.AwsPlace:
        sts = aws_client("sts", self._connection)
        try:
            with naming("sts:GetCallerIdentity", "sts"):
                return schedule_wire.place_of(sts.get_caller_identity(), region)
        finally:
            sts.close()
