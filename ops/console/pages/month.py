"""The cost of a month at the present rate, and so far, by the model of ``headgate cost``.

What is known are the messages that SQS was sent, not the jobs that share one: a message counts as
one job. So for a type with bundles this is the least that it costs: the requests to SQS are right,
and the records and the running time are those of one job for each message.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from headgate.jobs.client.overview.queues import QueueList
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.errors import ConfigurationError, UnknownQueue
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.ops.console.context import Console
from headgate.ops.prices import MONTH_S

if TYPE_CHECKING:
    from headgate.ops.costing.estimate import Estimate

_FRESH_S, _SO_FAR_FRESH_S = 300.0, 900.0

_LEAST_S = 3_600.0
"""Seconds of a month from which on it says something about its cost."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class MonthSoFar:
    """The present calendar month, in UTC, up to now."""

    usd: float
    """Its cost, as if the system had been deployed since its beginning."""
    jobs: float
    """The messages that were sent to queues."""


def month(console: Console, found: QueueList) -> Estimate | None:
    """Return the estimate for the present rate of jobs; None if that or the deployment is unknown.

    What schedules submit is part of the rate, so it is taken off what the model adds.
    """
    deployment = console.deployment
    rates = [each.metrics.sent_per_minute for each in found.queues]
    known = [each for each in rates if each is not None]
    if deployment is None or not known:
        return None
    jobs, now = sum(known) * MONTH_S / 60, console.clock.now()
    return console.reader.read(
        "month", lambda: _estimated(console, deployment, jobs, now), fresh_s=_FRESH_S
    ).value


def month_so_far(console: Console) -> MonthSoFar | None:
    """Return the cost of the month so far; None if its jobs or the deployment are unknown.

    It is the part of a month's cost at its mean rate that has passed.
    """
    deployment, now = console.deployment, console.clock.now().astimezone(UTC)
    begin = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    passed_s = (now - begin).total_seconds()
    if deployment is None or passed_s < _LEAST_S:
        return None

    def ask() -> MonthSoFar | None:
        if not (sent := console.client.queues.sent(begin)):
            return None
        jobs, part = sum(sent.values()), passed_s / MONTH_S
        found = _estimated(console, deployment, jobs / part, now)
        return None if found is None else MonthSoFar(usd=found.bill.usd * part, jobs=jobs)

    return console.reader.read(("month so far", begin), ask, fresh_s=_SO_FAR_FRESH_S).value


def _estimated(
    console: Console, deployment: Deployment, jobs: float, now: datetime
) -> Estimate | None:
    """Return the estimate for a number of messages a month, those of schedules included."""
    # The models of workers, alarms and the sweep take a sixth of the time to start a console.
    from headgate.ops.costing.estimate import estimate
    from headgate.ops.costing.load import Load, firings

    types = console.app.types.values()
    fired = sum(firings(each.when, now) for job in types for each in job.schedules)
    try:
        load = Load(jobs=max(0.0, jobs - fired), bundled=1)  # bundles are messages already
        return estimate(console.app, deployment, load, now=now)
    except (ConfigurationError, UnknownQueue):  # `headgate check` tells what is wrong with it
        return None
