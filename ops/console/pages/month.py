"""The cost of a month at the present rate, by the model of ``headgate cost``."""

from __future__ import annotations

from headgate.jobs.client.overview.queues import QueueList
from headgate.jobs.errors import ConfigurationError, UnknownQueue
from headgate.ops.console.context import Console
from headgate.ops.costing.estimate import Estimate, estimate
from headgate.ops.costing.load import Load, firings
from headgate.ops.prices import MONTH_S

_FRESH_S = 300.0


def month(console: Console, found: QueueList) -> Estimate | None:
    """Return the estimate for the present rate of jobs; None if that or the deployment is unknown.

    What schedules submit is part of the rate, so it is taken off what the model adds.
    """
    deployment = console.deployment
    rates = [each.metrics.sent_per_minute for each in found.queues]
    known = [each for each in rates if each is not None]
    if deployment is None or not known:
        return None
    now = console.clock.now()

    def ask() -> Estimate | None:
        types = console.app.types.values()
        fired = sum(firings(each.schedule, now) for each in types if each.schedule is not None)
        jobs = max(0.0, sum(known) * MONTH_S / 60 - fired)
        try:
            return estimate(console.app, deployment, Load(jobs=jobs), now=now)
        except (ConfigurationError, UnknownQueue):  # `headgate check` tells what is wrong with it
            return None

    return console.reader.read("month", ask, fresh_s=_FRESH_S).value
