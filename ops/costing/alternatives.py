"""Alternative costs of the same month: the decisions that matter most, each made the other way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime

from headgate.jobs.core.topology import MAX_BATCH
from headgate.jobs.definitions.app import App
from headgate.jobs.deployment.deployment import Deployment
from headgate.ops.costing.estimate import Estimate, estimate
from headgate.ops.costing.load import Load
from headgate.ops.costing.standby import Standby

_WORTH_SAYING_USD = 1.0


def alternatives(
    app: App,
    deployment: Deployment,
    load: Load,
    *,
    now: datetime,
    free_tier: bool = False,
    standby: Standby | None = None,
) -> dict[str, float]:
    """Return USD of the month by alternative, for those that differ by a dollar or more.

    What changes in the deployment changes in its standby, too. The arguments are those of
    `ops.costing.estimate.estimate`, and so are the errors.
    """

    def priced(change: _Change, load: Load, free_tier: bool) -> Estimate:
        there = standby and standby.changed(change)
        return estimate(app, change(deployment), load, now=now, free_tier=free_tier, standby=there)

    now_usd = priced(_unchanged, load, free_tier).bill.usd
    others = {what: priced(*other).bill.usd for what, other in _others(deployment, load, free_tier)}
    return {what: usd for what, usd in others.items() if abs(usd - now_usd) >= _WORTH_SAYING_USD}


_Change = Callable[[Deployment], Deployment]
_Other = tuple[str, tuple[_Change, Load, bool]]


def _unchanged(deployment: Deployment) -> Deployment:
    return deployment


def _others(deployment: Deployment, load: Load, free_tier: bool) -> Iterator[_Other]:
    one_by_one = load.together == 1
    together = replace(load, together=float(MAX_BATCH) if one_by_one else 1.0)
    yield (
        "jobs in bulk, ten messages to a request" if one_by_one else "jobs that come one by one",
        (_unchanged, together, free_tier),
    )
    if deployment.network == "endpoints":
        yield 'network="public": an address for each task', (_public, load, free_tier)
    else:
        yield 'network="endpoints": no internet access', (_closed, load, free_tier)
    if deployment.endpoint_zones == 1:
        yield "endpoint_zones=2: a zone may fail", (_in_both_zones, load, free_tier)
    yield "spot=True for all workers", (_on_spot, load, free_tier)
    if not free_tier:
        yield "an account whose free tier nothing else uses", (_unchanged, load, True)


def _public(deployment: Deployment) -> Deployment:
    return replace(deployment, network="public")


def _closed(deployment: Deployment) -> Deployment:
    return replace(deployment, network="endpoints")


def _in_both_zones(deployment: Deployment) -> Deployment:
    return replace(deployment, endpoint_zones=2)


def _on_spot(deployment: Deployment) -> Deployment:
    workers = tuple(replace(group, spot=True) for group in deployment.workers)
    return replace(deployment, workers=workers)
