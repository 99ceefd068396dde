"""The trials' app: short jobs of five kinds on one queue, whose attempts the records count."""

from __future__ import annotations

from datetime import timedelta

from headgate import App, Backoff, CrashLimit, Lane, Priority, Retry
from tests.support.fixture_app import Fixture, blocking, flaky, quick, slow

QUEUE = "trial"

VISIBILITY = timedelta(seconds=6)
"""The time that a killed worker's messages stay hidden."""

MOST_ATTEMPTS = 30
"""More than a job can use up by failing once and by the workers that are killed under it: no job
here does any harm, so none is to be parked."""

ONCE = "once"
"""The type with ``once=True``, which is claimed in the table."""

KINDS = ("quick", "slow", "blocking", "flaky", ONCE)
"""The job types; ``flaky`` fails at first."""


def make_app(stage: str | None = None) -> App:
    """The app, in a stage of its own for each trial; None takes what the environment says."""
    limit = CrashLimit(crashes=MOST_ATTEMPTS)
    app = App("trials", stage=stage, records="outcomes", crash_limit=limit)
    lane = Lane(visibility=VISIBILITY, start_within=timedelta(minutes=1), share=0.0)
    queue = app.queue(
        QUEUE,
        priorities=[Priority.NORMAL],
        lanes={Priority.NORMAL: lane},
        retry=Retry(max_attempts=MOST_ATTEMPTS, backoff=Backoff.fixed(1)),
    )
    for behaviour in (quick, slow, flaky):
        queue.job(behaviour.__name__)(behaviour)
    queue.job("blocking")(blocking)
    queue.job(ONCE, once=True)(quick)
    return app


app = make_app()

FIXTURE = Fixture("tests.crash.trials.app:app", make_app)
