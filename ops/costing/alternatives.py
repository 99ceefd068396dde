"""Alternative costs of the same month: the decisions that matter most, each made the other way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from headgate.jobs.core.topology import MAX_BATCH
from headgate.jobs.definitions.app import App
from headgate.jobs.deployment.deployment import Deployment
from headgate.ops.costing.estimate import Estimate, estimate
from headgate.ops.costing.load import Load

_WORTH_SAYING_USD = 1.0


def alternatives(
    app: App, deployment: Deployment, load: Load, *, now: datetime, free_tier: bool = False
) -> dict[str, float]:
    """Return USD of the month by alternative, for those that differ by a dollar or more.

    Raises:
        HeadgateError: as `ops.costing.estimate.estimate`.
    """

    def priced(deployment: Deployment, load: Load, free_tier: bool) -> Estimate:
        return estimate(app, deployment, load, now=now, free_tier=free_tier)

    now_usd = priced(deployment, load, free_tier).bill.usd
    others = {what: priced(*other).bill.usd for what, other in _others(deployment, load, free_tier)}
    return {what: usd for what, usd in others.items() if abs(usd - now_usd) >= _WORTH_SAYING_USD}


_Other = tuple[str, tuple[Deployment, Load, bool]]


def _others(deployment: Deployment, load: Load, free_tier: bool) -> Iterator[_Other]:
    one_by_one = load.together == 1
    together = replace(load, together=float(MAX_BATCH) if one_by_one else 1.0)
    yield (
        "jobs in bulk, ten messages to a request" if one_by_one else "jobs that come one by one",
        (deployment, together, free_tier),
    )
    if deployment.network == "endpoints":
        public = replace(deployment, network="public")
        yield 'network="public": an address for each task', (public, load, free_tier)
    else:
        closed = replace(deployment, network="endpoints")
        yield 'network="endpoints": no internet access', (closed, load, free_tier)
    if deployment.endpoint_zones == 1:
        both = replace(deployment, endpoint_zones=2)
        yield "endpoint_zones=2: a zone may fail", (both, load, free_tier)
    spot = tuple(replace(group, spot=True) for group in deployment.workers)
    yield "spot=True for all workers", (replace(deployment, workers=spot), load, free_tier)
    if not free_tier:
        yield "an account whose free tier nothing else uses", (deployment, load, True)
