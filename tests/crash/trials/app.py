"""The trials' app: short jobs of five kinds on one queue, with attempts counted by records."""

from __future__ import annotations

from datetime import timedelta

from headgate import App, Backoff, CrashLimit, Lane, Priority, Retry
from tests.support.fixture_app import Fixture, blocking, flaky, quick, slow

QUEUE = "trial"

VISIBILITY = timedelta(seconds=6)
"""The time for which a killed worker's messages stay hidden."""

MOST_ATTEMPTS = 30
"""More attempts than a job can use up by failing once and by the workers killed while they run it.

No job here does any harm, so none may be parked.
"""

ONCE = "once"
"""The type with ``once=True``, which is claimed in the table."""

KINDS = ("quick", "slow", "blocking", "flaky", ONCE)
"""The job types; ``flaky`` fails at first."""


def make_app(stage: str | None = None) -> App:
    """Return the app, in a stage of its own for each trial; None takes the environment's."""
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
