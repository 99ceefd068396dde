"""``client.workers``: the workers that live, and what they do.

`AsyncWorkerDesk` is the awaited form of `WorkerDesk`, and its engine.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from datetime import datetime

from headgate.jobs.client.services import ClientServices
from headgate.jobs.core.clock import Clock
from headgate.jobs.core.immediate import drive
from headgate.jobs.core.ports.table import AsyncTable, Item
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.policies import keeps_records
from headgate.jobs.errors import SettingsInvalid
from headgate.jobs.records.fleet.worker_status import (
    SILENT_AFTER_S,
    WORKER_STATUSES,
    WorkerStatus,
    read_status,
)
from headgate.jobs.values.light_dataclass import frozen_dataclass, light_dataclass

_PAGES = 4
"""Maximum number of requests of one look, of a thousand workers and a MiB each."""


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class WorkerList:
    """The workers of an app, as they describe themselves about every 30 seconds."""

    workers: Sequence[WorkerStatus]
    """Those that live, by name."""
    silent: Sequence[WorkerStatus]
    """Those that have not written for 90 s, and within the last hour did: they were killed, can't
    reach the table, or their clock is wrong."""
    skipped: int
    """Number of items that no worker of this version wrote."""
    complete: bool
    """False if there is more than one look reads."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class AsyncWorkerDesk:
    """The awaited form of `WorkerDesk`, which also drives this class.

    Args:
        app: the app whose workers are listed.
        table: holds their statuses.
        clock: tells the time.
    """

    app: App
    table: AsyncTable
    clock: Clock

    async def list(self) -> WorkerList:
        """`WorkerDesk.list`, awaited."""
        if not keeps_records(self.app):
            raise SettingsInvalid(
                f"the workers of {self.app.name!r} write no table, so none can be listed: declare "
                "the app with records='failures' or more"
            )
        items, complete = await self._read()
        return _listed(items, self.clock.now(), complete=complete)

    async def _read(self) -> tuple[builtins.list[Item], bool]:
        items: builtins.list[Item] = []
        after = ""
        for _ in range(_PAGES):
            page = await self.table.page(WORKER_STATUSES, after=after)
            items += page.items
            if not (after := page.after):
                return items, True
        return items, False


class WorkerDesk:
    """The workers of an app. Lambda functions, which run only while they have jobs, are none."""

    def __init__(self, engine: AsyncWorkerDesk) -> None:
        self._engine = engine

    def list(self) -> WorkerList:
        """Return the workers that live, and those that fell silent within the last hour.

        Raises:
            SettingsInvalid: the app keeps no records, so its workers write no table.
            TransportError: the table can't be read.
        """
        return drive(self._engine.list())


def workers_of(services: ClientServices) -> AsyncWorkerDesk:
    """Return the workers of a client's app, over what its handles use."""
    return AsyncWorkerDesk(app=services.app, table=services.table, clock=services.clock)


def _listed(items: Sequence[Item], now: datetime, *, complete: bool) -> WorkerList:
    read = [read_status(item) for item in items]
    # A status from the future would stay for as long as its clock is ahead.
    known = [each for each in read if each is not None and not _is_ahead(each, now)]
    return WorkerList(
        workers=[each for each in known if not each.is_silent(now)],
        silent=[each for each in known if each.is_silent(now)],
        skipped=len(read) - len(known),
        complete=complete,
    )


def _is_ahead(status: WorkerStatus, now: datetime) -> bool:
    return (status.seen_at - now).total_seconds() > SILENT_AFTER_S
