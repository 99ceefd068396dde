"""Loading an app for `headgate dev`, and provisioning what it declares."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from headgate.jobs.aws.provision import provision
from headgate.jobs.aws.scheduler import EventBridgeScheduler
from headgate.jobs.core.topology import Topology
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.app_path import load_app
from headgate.jobs.definitions.current_folder import look_here_first
from headgate.jobs.definitions.policies import load_handlers
from headgate.jobs.schedules.registry import times_of
from headgate.ops.dev.schedules import LocalSchedules


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """An app that is ready to run."""

    app: App
    provisioned: str
    """A digest of what is provisioned, by which the next start can leave it as it is."""

    def description(self) -> dict[str, Any]:
        """Return what the screen shows of it, as JSON values."""
        now = datetime.now(UTC)
        return {
            "app": "-".join(filter(None, (self.app.name, self.app.stage))),
            "types": list(self.app.types),
            "schedules": {
                job.name: due.isoformat()
                for job in self.app.types.values()
                if job.schedule is not None and (due := next(times_of(job.schedule, now), None))
            },
            "provisioned": self.provisioned,
        }


def prepared(path: str, provisioned: str) -> Prepared:
    """Load the app at a path, and create what it needs and is not there yet.

    Args:
        path: the app's, such as ``shop.app:app``.
        provisioned: the digest of what an earlier start has provisioned, or an empty text.

    Raises:
        HeadgateError: the app is wrong, can't be imported, or AWS could not be asked.
    """
    look_here_first()
    app = load_app(path)
    load_handlers(app)
    digest = _digest(app.topology)
    if digest != provisioned:
        provision_all(app)
    else:
        _store_schedules(app)
    return Prepared(app=app, provisioned=digest)


def provision_all(app: App) -> None:
    """Create all that an app has on AWS, and its declared schedules; at the present endpoint.

    Raises:
        ConfigurationError: a declared schedule is wrong.
        TransportError: AWS could not be asked, or refused.
    """
    asyncio.run(provision(app.topology))
    _store_schedules(app)


def _store_schedules(app: App) -> None:
    with EventBridgeScheduler() as scheduler:
        LocalSchedules(app, scheduler).store()


def _digest(topology: Topology) -> str:
    return hashlib.sha256(repr(topology).encode()).hexdigest()
