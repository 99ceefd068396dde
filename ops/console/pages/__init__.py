"""The console's pages, one module each."""

from __future__ import annotations

from headgate.ops.console.pages import overview, queue, queues, workers

ROUTES = [*overview.ROUTES, *queues.ROUTES, *queue.ROUTES, *workers.ROUTES]
