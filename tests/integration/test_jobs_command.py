"""``headgate submit --wait`` and ``headgate jobs`` as a user runs them, with a real worker."""

from __future__ import annotations

import asyncio
import json

from headgate.jobs.aws.dynamo.table import AsyncDynamoTable
from headgate.jobs.client.async_client import AsyncClient
from headgate.ops.views.job import EXIT_FAILED, EXIT_UNFINISHED, EXIT_UNKNOWN
from tests.support.backends import async_over
from tests.support.fixture_app import APP_PATH
from tests.support.journal import GENEROUS_S
from tests.support.stage import Stage
from tests.support.workers import Finished, command

NOBODY = "0196a2b4-0000-7000-8000-000000000001"


async def headgate(stage: Stage, *words: str) -> Finished:
    return await command("-A", APP_PATH, *words, env=stage.environment())


async def submitted(stage: Stage, job_type: str, *options: str) -> Finished:
    return await headgate(stage, "submit", job_type, "{}", "--wait", *options)


async def shown_of(stage: Stage, job_id: str, *options: str) -> Finished:
    return await headgate(stage, "jobs", "show", job_id, *options)


async def test_submit_wait_follows_a_job_to_its_end(stage: Stage) -> None:
    stage.records = "outcomes"
    await stage.worker("steady")

    done = await submitted(stage, "steady-quick")
    failed = await submitted(stage, "steady-failing")

    job_id, result = done.out.splitlines()
    assert (done.code, result, done.err) == (0, "null", "")
    assert failed.code == EXIT_FAILED
    assert "is dead: attempts-exhausted; RuntimeError: it fails every time" in failed.err

    shown = await shown_of(stage, job_id)
    assert (shown.code, shown.err) == (0, "")
    assert f"{job_id}  steady-quick: completed" in shown.out
    told = await shown_of(stage, failed.out.strip(), "--json")
    record = json.loads(told.out)
    assert (told.code, record["state"]) == (EXIT_FAILED, "dead")
    assert [each["outcome"] for each in record["attempts"]] == ["failed", "failed"]
    assert "it fails every time" in record["attempts"][0]["traceback"]


async def test_unfinished_and_unknown_jobs_have_their_own_exit_codes(
    stage: Stage,
) -> None:
    stage.records = "full"
    waiting = await submitted(stage, "steady-quick", "--timeout", "0s")
    assert waiting.code == EXIT_UNFINISHED
    assert "its state is waiting" in waiting.err
    assert (await shown_of(stage, waiting.out.strip())).code == EXIT_UNFINISHED
    assert (await shown_of(stage, NOBODY)).code == EXIT_UNKNOWN


async def test_a_job_that_is_cancelled_while_a_worker_process_runs_it_ends(stage: Stage) -> None:
    stage.records = "outcomes"
    await stage.worker("steady")
    [job_id] = await stage.submit("steady-gated")
    await stage.journal.until(lambda: stage.journal.count("start")[job_id] == 1)
    app = stage.app
    app.records = "outcomes"
    async with (
        AsyncDynamoTable(app.topology.table_name, endpoint_url=stage.endpoint_url) as table,
        AsyncClient(app, backend=async_over(stage.sqs, table=table)) as client,
    ):
        cancelled = await headgate(stage, "jobs", "cancel", job_id, "--reason", "a mistake")
        assert cancelled.code == 0, cancelled.err
        async with asyncio.timeout(GENEROUS_S):
            assert await client.handle(job_id).wait() == "cancelled"
    await stage.empties("steady")
    assert stage.journal.count("done")[job_id] == 0
    assert stage.journal.count("start")[job_id] == 1


async def test_the_queues_are_listed_with_their_messages(stage: Stage) -> None:
    await stage.submit("steady-quick", 3)
    listed = await headgate(stage, "queues", "list", "--json")
    assert (listed.code, listed.err) == (0, "")
    waiting = {each["name"]: each["waiting"] for each in json.loads(listed.out)["queues"]}
    assert waiting.pop(stage.queue("steady").name) == 3
    assert not any(waiting.values())
