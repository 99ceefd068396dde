"""Short rounds of the trials. `make trials` runs longer ones; docs/evidence.md has figures."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.crash.trials.answers import submitter_meets, worker_meets
from tests.crash.trials.app import FIXTURE
from tests.crash.trials.catalogue import AT_ONCE, Weather
from tests.crash.trials.cuts import Cuts
from tests.crash.trials.letters import LetterCuts
from tests.crash.trials.messages import feed
from tests.crash.trials.mixed import Mixed
from tests.support.environment import with_test_credentials
from tests.support.proxy import Proxy
from tests.support.stage import Stage, stage_on


@pytest.fixture
async def stage(
    server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> AsyncIterator[Stage]:
    with_test_credentials(monkeypatch, tmp_path)
    async with stage_on(server, tmp_path, FIXTURE) as made:
        await made.provision()
        yield made


def chance() -> random.Random:
    return random.Random(1)  # noqa: S311 - chooses faults and moments


async def test_odd_answers_end_no_worker_and_lose_no_job(stage: Stage) -> None:
    weather = Weather(chance())
    found = await worker_meets(stage, weather, groups=[AT_ONCE], jobs=60)
    assert found.broken == []
    assert weather.drawn, "no request was answered oddly: the test shows nothing"


async def test_a_submitter_with_a_spool_keeps_what_odd_answers_refuse(
    stage: Stage, tmp_path: Path
) -> None:
    weather = Weather(chance())
    found = await submitter_meets(stage, weather, tmp_path, groups=[AT_ONCE], jobs=10)
    assert found.broken == []
    assert weather.drawn, "no request was answered oddly: the test shows nothing"


async def test_workers_cut_off_at_random_moments_lose_nothing(stage: Stage) -> None:
    cuts = Cuts(stage, chance())
    await cuts.stops(2)
    await cuts.kills(5, at_once=2)
    found = await cuts.finish()
    assert found.broken == []
    assert found.figures["begun again after kills"], "no kill hit anything: the test shows nothing"


async def test_a_replay_and_a_purge_that_are_killed_lose_no_letter(stage: Stage) -> None:
    async with Proxy(stage.endpoint_url) as proxy:
        cuts = LetterCuts(stage, proxy)
        await cuts.at_first("replay", "SendMessageBatch", "after")
        await cuts.at_first("purge", "DeleteMessageBatch", "before")
    found = cuts.told()
    assert found.broken == []
    assert found.figures["kills"] == 2


async def test_faults_of_all_kinds_at_once_lose_nothing(stage: Stage, tmp_path: Path) -> None:
    async with Proxy(stage.endpoint_url) as proxy:
        found = await Mixed(stage, proxy, tmp_path, chance()).run(5)
    assert found.broken == []


def test_random_bodies_are_run_or_parked_and_never_quoted() -> None:
    assert feed(1, 1_000).broken == []
