"""A standby in a second region: what it costs while it waits, without a job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from headgate.jobs.definitions.app import App
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.values.light_dataclass import light_dataclass


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Standby:
    """The standby of an estimate's stage, which has the load of no jobs."""

    app: App
    """The app as it is there: existing resources differ between regions."""
    deployment: Deployment

    def changed(self, change: Callable[[Deployment], Deployment]) -> Standby:
        """Return it with a change of its deployment."""
        return replace(self, deployment=change(self.deployment))
