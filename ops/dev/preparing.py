"""Loading an app for `headgate dev`, and provisioning what it declares."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from headgate.jobs.aws.provision import provision
from headgate.jobs.aws.provision_keys import provision_keys
from headgate.jobs.aws.scheduler import EventBridgeScheduler
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.app_path import load_app
from headgate.jobs.definitions.current_folder import look_here_first
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.definitions.policies import load_handlers, signing_secret_of
from headgate.jobs.definitions.sealing import key_names
from headgate.jobs.schedules.declared_schedules import declared_schedules
from headgate.jobs.schedules.registry import times_of
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.ops.dev.schedules import LocalSchedules
from headgate.ops.existing import use_existing


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """An app that is ready to run."""

    app: App
    provisioned: str
    """Digests of what is provisioned, by which the next start can leave it as it is: of queues,
    table, bucket and keys, and of declared schedules."""

    def description(self) -> dict[str, Any]:
        """Return what the screen shows of it, as JSON values."""
        now = datetime.now(UTC)
        return {
            "app": "-".join(filter(None, (self.app.name, self.app.stage))),
            "types": list(self.app.types),
            "schedules": {
                job.name: min(dues).isoformat()
                for job in self.app.types.values()
                if (dues := [*_next_times(job, now)])
            },
            "provisioned": self.provisioned,
        }


def _next_times(job: JobType[Any, Any], now: datetime) -> Iterator[datetime]:
    """Yield the next time of each of a type's schedules that has one."""
    for each in job.schedules:
        yield from islice(times_of(each.when, now), 1)


def prepared(path: str, provisioned: str) -> Prepared:
    """Load the app at a path, and create what it needs and is not there yet.

    Args:
        path: the app's, such as ``shop.app:app``.
        provisioned: the digests of what an earlier start has provisioned, or an empty text.

    Raises:
        HeadgateError: the app is wrong, can't be imported, or AWS could not be asked.
    """
    look_here_first()
    app = load_app(path)
    use_existing(app)
    load_handlers(app)
    resources = _digest(app.topology, signing_secret_of(app), key_names(app))
    wanted = [resources, _digest(*declared_schedules(app))]
    there = provisioned.split()
    if wanted[:1] != there[:1]:
        provision_all(app)
    elif wanted != there:
        _store_schedules(app)
    return Prepared(app=app, provisioned=" ".join(wanted))


def provision_all(app: App) -> None:
    """Create all that an app has on AWS, and its declared schedules; at the present endpoint.

    Its signing secret and its keys are made up, unless they are there.

    Raises:
        ConfigurationError: a declared schedule is wrong.
        TransportError: AWS could not be asked, or refused.
    """
    asyncio.run(_provision(app))
    _store_schedules(app)


async def _provision(app: App) -> None:
    await provision(app.topology)
    await provision_keys(secret=signing_secret_of(app), keys=key_names(app))


def _store_schedules(app: App) -> None:
    with EventBridgeScheduler() as scheduler:
        LocalSchedules(app, scheduler).store()


def _digest(*described: object) -> str:
    return hashlib.sha256(repr(described).encode()).hexdigest()
