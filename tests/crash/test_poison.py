"""A job that kills every process that runs it, among harmless jobs."""

from __future__ import annotations

import random
import signal

from tests.support.stage import Stage
from tests.support.workers import STOPPING

NEIGHBOURS = 200


async def test_a_job_that_kills_its_workers_is_quarantined_and_others_complete(
    stage: Stage,
) -> None:
    stage.records = "failures"  # without records its deaths can't be told from other deliveries
    rng = random.Random(7)  # noqa: S311 - where the poison stands
    before = rng.randrange(NEIGHBOURS)
    ids = await stage.submit("brief-slow", before, seconds=0.05)
    [poison] = await stage.submit("brief-poisonous")
    ids += await stage.submit("brief-slow", NEIGHBOURS - before, seconds=0.05)
    # The supervisor replaces the workers that the poison job kills.
    worker = await stage.worker("brief", "--concurrency", "10", "--processes", "2")
    await stage.journal.until(lambda: stage.journal.count("done").keys() == set(ids))
    await stage.journal.until(lambda: stage.journal.count("start")[poison] == 3)
    await worker.logged("job.quarantined")  # once its last worker has been silent for long enough
    await stage.empties("brief")
    deaths = stage.journal.count("start")[poison]
    assert deaths == 3
    assert await stage.quarantined() == 1
    assert await stage.dead("brief") == 0
    starts = stage.journal.count("start")
    again = sum(starts[each] - 1 for each in ids)
    assert again <= deaths * 2 * 10, "nothing ran again but what died with the poison"
    worker.send(signal.SIGTERM)
    await worker.logged(STOPPING)
    worker.send(signal.SIGTERM)
    await worker.ended()
