"""Submission of the plan: by both clients, by the schedules' bridge, and as raw messages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Any
from uuid import uuid4

from examples.shop.contracts import app
from headgate.jobs.client.async_client import AsyncClient
from headgate.jobs.client.client import Client
from headgate.jobs.core.backend import AsyncBackend, Backend
from headgate.jobs.core.batching import EntryRejected
from headgate.jobs.core.events import Event, Events, JobSubmitted
from headgate.jobs.core.ports.transport import OutgoingMessage
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.schedules.bridging import Bridge
from headgate.jobs.schedules.firing import Firing, schedule_input
from headgate.jobs.schedules.routes import Routes
from headgate.ops.demo.plan import Plan, PlannedJob, PlannedMessage, batches

_AT_ONCE = 100
"""Number of concurrent submissions, as in a busy web service."""


class Submitter:
    """Submits a plan and remembers the planned job of each id.

    Args:
        plan: the jobs and messages to submit.
        async_backend: AWS for the event loop, open.
        backend: AWS for synchronous code.
        record: called for each submitted job, on the event loop's thread.
    """

    def __init__(
        self,
        plan: Plan,
        async_backend: AsyncBackend,
        backend: Backend,
        record: Callable[[Event], None],
    ) -> None:
        self._plan = plan
        self._async_backend = async_backend
        self._backend = backend
        self._record = record
        self.planned: dict[str, PlannedJob] = {}
        """The jobs submitted so far, by id."""
        self.finished = False

    async def submit_all(self) -> None:
        """Submit everything.

        Raises:
            TransportError, PartlySubmitted: SQS did not accept something.
        """
        await self._send_messages(self._plan.messages)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._submit(job for job in self._plan.jobs if not job.plain))
            group.create_task(self._submit_plainly([job for job in self._plan.jobs if job.plain]))
            for declared in self._plan.schedules:
                group.create_task(self._fire(declared))
        self.finished = True

    async def _submit(self, jobs: Iterable[PlannedJob]) -> None:
        remaining = iter(jobs)
        async with AsyncClient(
            app, backend=self._async_backend, events=Events(self._record)
        ) as sdk:
            while wave := list(islice(remaining, _AT_ONCE)):
                await asyncio.gather(*(self._submit_one(sdk, job) for job in wave))

    async def _submit_one(self, sdk: AsyncClient, job: PlannedJob) -> None:
        handle = await sdk.submit(job.type, job.payload, **job.overrides)
        self.planned[handle.id] = job

    async def _submit_plainly(self, jobs: list[PlannedJob]) -> None:
        loop = asyncio.get_running_loop()

        def record(event: Event) -> None:
            loop.call_soon_threadsafe(self._record, event)

        events = Events(record)
        with Client(app, backend=self._backend, events=events) as sdk:
            for batch in batches(jobs):
                payloads, first = [job.payload for job in batch], batch[0]
                submit = partial(sdk.submit_many, first.type, payloads, **first.overrides)
                handles = await asyncio.to_thread(submit)
                self.planned |= {h.id: job for h, job in zip(handles, batch, strict=True)}

    async def _fire(self, declared: JobType[Any, Any]) -> None:
        """Act as EventBridge Scheduler and the bridge do when a schedule is due."""
        now = datetime.now(UTC)
        firing = Firing.model_validate(_filled_in(schedule_input(app, declared), now))
        bridge = Bridge(self._backend.ports.transport, None, lambda: now, routes=Routes.of(app))
        await asyncio.to_thread(bridge.submit, firing)
        job_id = str(firing.job_id)
        self.planned[job_id] = PlannedJob(type=declared, payload=declared.load(firing.payload))
        self._record(
            JobSubmitted(
                at=now,
                job_id=job_id,
                job_type=declared.name,
                queue=declared.queue,
                priority=declared.priority,
                delay_s=0,
            )
        )

    async def _send_messages(self, messages: Iterable[PlannedMessage]) -> None:
        transport = self._async_backend.async_ports.transport
        for message in messages:
            outgoing = OutgoingMessage(body=message.body)
            for failure in await transport.send(message.queue.name, [outgoing]):
                raise EntryRejected(failure)


def _filled_in(template: dict[str, Any], due: datetime) -> dict[str, Any]:
    """Return a schedule's input with the context attributes that EventBridge Scheduler fills in."""
    values = {
        "<aws.scheduler.schedule-arn>": "arn:aws:scheduler:us-east-1:000000000000:schedule/"
        f"{app.name}/{template['schedule']}",
        "<aws.scheduler.scheduled-time>": due.strftime("%Y-%m-%dT%H:%M:00Z"),
        "<aws.scheduler.execution-id>": str(uuid4()),
        "<aws.scheduler.attempt-number>": "1",
    }
    return {
        name: values.get(value, value) if isinstance(value, str) else value
        for name, value in template.items()
    }
