"""A finished job whose message Lambda hands over again and again has not crashed."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headgate import App, Backoff, JobContext, Keep, Priority, Retry
from headgate.events import JobCompleted, JobCrashed, JobDeadLettered, JobQuarantined
from headgate.jobs.core.events import JobAlreadyDone
from headgate.jobs.core.retention import RecordsLevel
from headgate.jobs.errors import ServiceUnavailable
from tests.support.functions import Function, Note, submitted
from tests.support.undeleting import undelete
from tests.unit.lambdas.test_consume_deaths import QUARANTINE, function_of


@pytest.mark.parametrize(
    ("level", "keep_s"),
    [("off", 0), ("failures", 86_400), ("outcomes", 0), ("outcomes", 86_400), ("full", 0)],
)
@pytest.mark.parametrize("undeletes", [2, 3, 5])
@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_finished_job_that_is_handed_over_again_has_not_crashed(
    level: RecordsLevel, keep_s: float, undeletes: int, once: bool, is_killed: bool
) -> None:
    """If ``is_killed``, the environment ends after the first delivery."""
    app = App("shop", records=level, keep=Keep(timedelta(seconds=keep_s)))
    retry = Retry(max_attempts=10, backoff=Backoff.fixed(1))
    queue = app.queue("mail", priorities=[Priority.NORMAL], retry=retry)
    runs = 0

    @queue.job("send", once=once)
    async def send(_note: Note) -> str:
        nonlocal runs
        runs += 1
        return "sent"

    function = Function(app, app.topology.queues[-1].name)
    undelete(function.sqs, undeletes)
    try:
        function.submit(send, Note())
        function.invoke()
        if is_killed:
            function.die()
        function.drain()
    finally:
        function.close()
    ends = function.heard(JobCompleted) + function.heard(JobAlreadyDone)
    assert ends == undeletes + 1
    assert [*map(function.heard, (JobCrashed, JobQuarantined, JobDeadLettered))] == [0, 0, 0]
    assert runs == (1 if once else undeletes + 1)


def test_an_environment_knows_how_a_delivery_ended_before_the_table_does() -> None:
    seen: list[int] = []

    async def send(_note: Note, ctx: JobContext) -> None:
        seen.append(ctx.attempt)
        if len(seen) < 5:
            if len(seen) > 1:  # its start is written
                deployed.table.faults.raise_on("put", ServiceUnavailable("busy"), times=10**6)
            raise ConnectionError("down")

    with function_of(send) as deployed:
        submitted(deployed, "a")
        while deployed.messages():
            deployed.invoke()
            deployed.table.faults.clear()
            deployed.clock.advance(301)
        assert deployed.messages(QUARANTINE) == []
        assert deployed.heard(JobCrashed) == 0
    assert seen == [1, 2, 3, 4, 5]
