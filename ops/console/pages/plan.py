"""``/plan`` and ``/plan/{type}``: when the attempts of a failing job come."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headgate.jobs.deployment.checks.retry_rules import has_long_delays
from headgate.jobs.deployment.retry_timeline import timeline
from headgate.ops.console.figures.charts import LINE_WIDTH, MOST_SHOWN, bands, ticks
from headgate.ops.console.forms import Fields, query_of, refuse
from headgate.ops.console.rendering import console_of, render

_JOBS, _MOST_JOBS = 1_000, 10_000


def plans(request: Request) -> Response:
    """List the job types with their attempts."""
    types = sorted(console_of(request).app.types.values(), key=lambda each: each.name)
    return render(request, "plans.html", title="Retries", active="/plan", types=types)


def plan(request: Request) -> Response:
    """Show the attempts of one job type."""
    app, name = console_of(request).app, request.path_params["type"]
    if (job := app.types.get(name)) is None:
        refuse(f"The app has no job type {name!r}.", 404)
    jobs = _jobs(query_of(request))
    planned = timeline(job, long_delays=has_long_delays(app, job))
    queue = app.topology.queue(job.queue, job.priority)
    return render(
        request,
        "plan.html",
        title=name,
        active="/plan",
        job=job,
        planned=planned,
        bands=bands(job, planned, jobs),
        ticks=ticks(planned),
        width=LINE_WIDTH,
        most_shown=MOST_SHOWN,
        jobs=jobs,
        most_jobs=_MOST_JOBS,
        queue=queue,
        crashes=app.crash_limit.crashes,
        crash_window=app.crash_limit.window(queue.lane.visibility),
    )


def _jobs(query: Fields) -> int:
    text = query.text("jobs", most=20) or str(_JOBS)
    if not text.isdecimal() or not 1 <= int(text) <= _MOST_JOBS:
        refuse(f"jobs is a whole number from 1 to {_MOST_JOBS:,}, got {text!r}")
    return int(text)


ROUTES = [Route("/plan", plans), Route("/plan/{type}", plan)]
