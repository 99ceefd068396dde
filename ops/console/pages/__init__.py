"""The console's pages, one module each."""

from __future__ import annotations

from headgate.ops.console.pages import jobs, outcome, overview, queue, queues, workers

ROUTES = [
    *overview.ROUTES,
    *jobs.ROUTES,
    *queues.ROUTES,
    *queue.ROUTES,
    *workers.ROUTES,
    *outcome.ROUTES,
]
