"""Requests of a real client and a real worker that SQS does not carry out, or only in part."""

from __future__ import annotations

import pytest

from headgate.jobs.aws.sqs.transport import AsyncSqsTransport
from headgate.jobs.client.async_client import AsyncClient
from tests.support.backends import async_over
from tests.support.fixture_app import Work
from tests.support.proxy import BROKEN, THROTTLED, Drop, FailEntries, Fault, Proxy
from tests.support.stage import Stage

BATCHES = ("SendMessageBatch", "DeleteMessageBatch", "ChangeMessageVisibilityBatch")


async def _submit(stage: Stage, proxy: Proxy, job_type: str, count: int) -> list[str]:
    declared = stage.app.find_type(job_type)
    async with (
        AsyncSqsTransport(endpoint_url=proxy.endpoint_url) as sqs,
        AsyncClient(stage.app, backend=async_over(sqs)) as client,
    ):
        return [job.id for job in await client.submit_many(declared, [Work()] * count)]


@pytest.mark.parametrize(
    "fault",
    [FailEntries(), FailEntries(every=1), THROTTLED, BROKEN, Drop(forward=False)],
    ids=["every other entry fails", "all entries fail", "throttled", "status 500", "dropped"],
)
async def test_sends_deletes_and_retries_that_fail_at_first_lose_and_repeat_nothing(
    stage: Stage, fault: Fault
) -> None:
    async with Proxy(stage.endpoint_url) as proxy:
        for action in BATCHES:
            proxy.inject(fault, actions=[action], times=2)
        quick = await _submit(stage, proxy, "steady-quick", 35)
        flaky = await _submit(stage, proxy, "steady-flaky", 15)
        failing = await _submit(stage, proxy, "steady-failing", 2)
        proxy.inject(fault, actions=["SendMessageBatch"], times=2)  # for the dead letters
        worker = await stage.worker("steady", endpoint_url=proxy.endpoint_url)
        await worker.logged("job.dead_lettered", times=2)
        await stage.journal.until(lambda: stage.journal.count("done").keys() == {*quick, *flaky})
        await stage.empties("steady")
        assert proxy.faults == {action: 4 if action == BATCHES[0] else 2 for action in BATCHES}
    starts = dict.fromkeys(quick, 1) | dict.fromkeys([*flaky, *failing], 2)
    assert stage.journal.count("start") == starts
    assert await stage.dead("steady") == 2
    assert "settlement.failed" not in worker.log


async def test_answers_that_get_lost_lose_no_job(stage: Stage) -> None:
    async with Proxy(stage.endpoint_url) as proxy:
        for action in BATCHES:
            proxy.inject(Drop(forward=True), actions=[action], times=2)
        quick = await _submit(stage, proxy, "steady-quick", 35)
        flaky = await _submit(stage, proxy, "steady-flaky", 15)
        worker = await stage.worker("steady", endpoint_url=proxy.endpoint_url)
        await stage.journal.until(lambda: stage.journal.count("done").keys() == {*quick, *flaky})
        await stage.empties("steady")
        assert proxy.faults == dict.fromkeys(BATCHES, 2)
        assert worker.alive
    assert await stage.dead("steady") == 0
