"""The console's pages, one module each."""

from __future__ import annotations

from headgate.ops.console.pages import (
    audit,
    dead,
    jobs,
    outcome,
    overview,
    plan,
    queue,
    queues,
    replays,
    schedules,
    workers,
)

ROUTES = [
    *overview.ROUTES,
    *jobs.ROUTES,
    *dead.ROUTES,
    *replays.ROUTES,
    *queues.ROUTES,
    *queue.ROUTES,
    *schedules.ROUTES,
    *workers.ROUTES,
    *plan.ROUTES,
    *audit.ROUTES,
    *outcome.ROUTES,
]
