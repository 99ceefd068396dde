"""The estimate: the monthly costs of an app with its deployment and a load."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from headgate.jobs.definitions.app import App
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.ops.costing import compute, demand, objects, records, sqs, sweeping, watching
from headgate.ops.costing.bill import Bill, Charge
from headgate.ops.costing.fleet import UTILISATION, Fleet, fleet_of
from headgate.ops.costing.load import Load, Stream, streams_of
from headgate.ops.costing.standby import Standby


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A month's bill, with the model it is based on."""

    bill: Bill
    """All charges, those of a standby among them."""
    standby_usd: float | None
    """The part of the bill for the standby; None: there is none."""
    fleet: Fleet
    load: Load
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...]


def estimate(
    app: App,
    deployment: Deployment,
    load: Load,
    *,
    now: datetime,
    free_tier: bool = False,
    standby: Standby | None = None,
) -> Estimate:
    """Estimate the costs of a month.

    Args:
        app: the app, with all of its job types.
        deployment: the deployment of its stage.
        load: the number and properties of the jobs.
        now: start of the month; aware.
        free_tier: leave out units within the free tier.
        standby: the stage's standby, which is charged as it waits; None: it has none.

    Raises:
        UnknownJobType: a share is of a type that the app doesn't have.
        UnknownQueue, ConfigurationError: the deployment names queues that the app doesn't have.
        SettingsInvalid: the shares leave a remainder, and no type is left to take it.
    """
    fleet = fleet_of(app.topology, deployment, load, _streams(app, deployment, load, now))
    active = list(_charges(app, deployment, fleet, load))
    idle = _idle(standby, load, now) if standby is not None else []
    bill = Bill(active + idle, free_tier=free_tier)
    return Estimate(
        bill=bill,
        standby_usd=bill.usd - Bill(active, free_tier=free_tier).usd if standby else None,
        fleet=fleet,
        load=load,
        assumptions=tuple(_assumptions(load, fleet, app.max_message_bytes)),
        warnings=(*_warnings(fleet), *_beyond(deployment.budget_usd, bill)),
    )


def _streams(app: App, deployment: Deployment, load: Load, now: datetime) -> list[Stream]:
    """Return the jobs of each type; in a standby region schedules are disabled."""
    found = streams_of(app, load, now)
    if not deployment.standby:
        return found
    return [
        replace(stream, fired=stream.fired - stream.scheduled, scheduled=0.0) for stream in found
    ]


def _idle(standby: Standby, load: Load, now: datetime) -> list[Charge]:
    """Return a standby's charges, all of which are due independent of the jobs."""
    app, deployment, none = standby.app, standby.deployment, replace(load, jobs=0.0)
    fleet = fleet_of(app.topology, deployment, none, _streams(app, deployment, none, now))
    return [replace(each, job_type=None) for each in _charges(app, deployment, fleet, none)]


def _charges(app: App, deployment: Deployment, fleet: Fleet, load: Load) -> Iterator[Charge]:
    yield from sqs.charges(fleet, load, app.max_message_bytes)
    yield from records.charges(app, fleet, load)
    yield from objects.charges(app, fleet, load)
    yield from compute.charges(app, deployment, fleet, load)
    yield from sweeping.charges(app, fleet)
    yield from demand.charges(app.topology, deployment)
    yield from watching.charges(app, deployment, fleet, load)


def _assumptions(load: Load, fleet: Fleet, limit: int) -> Iterator[str]:
    runs = " or ".join(f"{seconds:g}" for seconds in sorted(set(fleet.run_s.values())))
    yield (
        f"{load.jobs:,.0f} jobs a month, all of them within {100 / load.peak:.0f} % of it, "
        "plus those of schedules"
    )
    yield f"a handler runs for {runs} s; {100 * load.failure_rate:g} % of attempts fail"
    yield f"{load.together:g} of 10 possible messages to a request, each of {load.payload_bytes} B"
    bundled = [stream for stream in fleet.streams if stream.job.bundle is not None and stream.jobs]
    if shared := {sqs.jobs_in_message(each, load, limit) for each in bundled}:
        counts = " or ".join(f"{count:g}" for count in sorted(shared))
        yield f"{counts} jobs to a message, of types with bundles"
    if load.children:
        yield f"handlers submit {100 * load.children:g} % of the jobs"
    yield f"jobs fill {100 * UTILISATION:.0f} % of the slots before another task starts"
    traced = any(each.tracing for group in fleet.consumers.values() for each in group)
    tracing = "X-Ray, " if traced else ""
    yield f"nothing for {tracing}data transfer, e-mails, taxes, and whatever handlers use"


def _beyond(budget_usd: int, bill: Bill) -> Iterator[str]:
    if 0 < budget_usd < bill.usd:
        yield f"that is more than the deployment's budget_usd of {budget_usd}"


def _warnings(fleet: Fleet) -> Iterator[str]:
    for crew in fleet.crews:
        if crew.is_overloaded:
            yield (
                f"the worker group {crew.group.name!r} needs {crew.needed * crew.peak:,.1f} tasks "
                f"at its peak, and may have {crew.group.max_tasks}: jobs will wait; raise max_tasks"
            )
    for stream in fleet.streams:
        if stream.jobs and not fleet.pollers(stream.queue):
            yield (
                f"this deployment does not run {stream.job.name!r} jobs: their runs and polls "
                "are not included"
            )
