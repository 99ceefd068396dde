"""`jobs.core.ports.scheduler.AsyncScheduler` and `Scheduler` on EventBridge Scheduler.

The calls of both are written once. They use names: STS is asked for the account, once; function,
role and queues are the account's own, in the client's region. Both open with their first call,
since few programs ever make one.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any, Self, Unpack

from botocore.exceptions import ClientError

from headgate.jobs.aws import schedule_wire
from headgate.jobs.aws.connections.clients import (
    AnyClients,
    AsyncClients,
    Clients,
    OnDemand,
    caller_identity,
)
from headgate.jobs.aws.connections.connection import Access, Connection
from headgate.jobs.aws.connections.faults import naming
from headgate.jobs.core.immediate import driven
from headgate.jobs.core.ports.scheduler import ScheduleSpec

_POOL = 16  # as many as `client.schedules.list` asks at once


class _Calls(OnDemand[tuple[Any, schedule_wire.AwsPlace]]):
    """The calls of a scheduler, over a client and its place."""

    def __init__(self, clients: AnyClients, account: str | None = None) -> None:
        super().__init__(clients, self._open_scheduler)
        self._account = account

    async def create(self, schedule: ScheduleSpec, *, token: str) -> bool:
        """Create a schedule (CreateSchedule); return False if its name is taken."""
        client, place = await self.opened()
        with naming("scheduler:CreateSchedule", schedule.group):
            try:
                await client.create_schedule(**schedule_wire.create_request(schedule, place, token))
            except ClientError as error:
                if schedule_wire.refused_with(error, schedule_wire.NAME_TAKEN):
                    return False
                raise
        return True

    async def get(self, group: str, name: str) -> ScheduleSpec | None:
        """Return a schedule, or None if there is none with that name (GetSchedule)."""
        client, _ = await self.opened()
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
        client, _ = await self.opened()
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
        """Overwrite a schedule (UpdateSchedule); return False if there is none with that name."""
        client, place = await self.opened()
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
        """Delete a schedule (DeleteSchedule); return False if there is none with that name."""
        client, _ = await self.opened()
        with naming("scheduler:DeleteSchedule", group):
            try:
                await client.delete_schedule(**schedule_wire.address(group, name))
            except ClientError as error:
                if schedule_wire.refused_with(error, schedule_wire.NOT_THERE):
                    return False
                raise
        return True

    async def _open_scheduler(self, stack: AsyncExitStack) -> tuple[Any, schedule_wire.AwsPlace]:
        client = await stack.enter_async_context(self._clients.open("scheduler"))
        return client, await self._place(client.meta.region_name, client.meta.partition)

    async def _place(self, region: str, partition: str) -> schedule_wire.AwsPlace:
        if self._account is not None:
            return schedule_wire.AwsPlace(partition=partition, account=self._account, region=region)
        return schedule_wire.place_of(await caller_identity(self._clients, "sts"), region)


class AsyncEventBridgeScheduler(_Calls):
    """EventBridge Scheduler for an event loop: `jobs.core.ports.scheduler.AsyncScheduler`.

    ::

        async with AsyncEventBridgeScheduler() as scheduler:
            await scheduler.names("shop", prefix="delay.")

    Each call has three tries, of 10 s each. By its token, the service recognizes a creation that is
    tried again.

    Args:
        account: The account that owns function, role and queues; None asks STS.
        access: As in `Connection`; the session is one of aiobotocore.
    """

    def __init__(self, *, account: str | None = None, **access: Unpack[Access]) -> None:
        super().__init__(AsyncClients(Connection(pool=_POOL, **access)), account)


class EventBridgeScheduler:
    """EventBridge Scheduler for synchronous code: `jobs.core.ports.scheduler.Scheduler`.

    Safe to share between threads. It opens with its first call, and again with one after `close`.

    Args:
        access: As in `Connection`; the session is one of boto3.
    """

    def __init__(self, **access: Unpack[Access]) -> None:
        calls = _Calls(Clients(Connection(pool=_POOL, **access)))
        self.create, self.get, self.names = (
            driven(calls.create),
            driven(calls.get),
            driven(calls.names),
        )
        self.update, self.delete = driven(calls.update), driven(calls.delete)
        self.close = driven(calls.stop)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
