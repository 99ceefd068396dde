"""The pages of jobs: their list, one of them, and what is done with them."""

from __future__ import annotations

from headgate.ops.console.pages.jobs import acting, job, listing

ROUTES = [*listing.ROUTES, *acting.ROUTES, *job.ROUTES]
