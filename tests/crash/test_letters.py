"""Replays and purges killed before each of their requests, and carried on by another process.

They are commands in real processes, against a real server. ``make trials`` also kills them before
each answer comes, and starts each from nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.crash.trials.app import FIXTURE
from tests.crash.trials.letters import KINDS, LETTERS, Kind, LetterCuts
from tests.support.environment import with_test_credentials
from tests.support.forked_commands import forking_commands
from tests.support.proxy import Proxy
from tests.support.stage import stage_on
from tests.support.workers import environment

LANES = 6
"""Number of stages in which commands are killed side by side: they wait for most of their time."""

IMPORTED = ("boto3", "headgate.jobs.client.dead_letters.desks", "headgate.ops.cli.main")
"""The modules whose imports take most of a command's first second."""

CHANGING = {
    "replay": {"SendMessageBatch", "BatchWriteItem", "DeleteMessageBatch", "PutItem"},
    "purge": {"DeleteMessageBatch", "PutItem"},
}
"""The requests by which a command changes something, its copies in S3 apart."""


@pytest.fixture
async def lanes(
    server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> AsyncIterator[list[LetterCuts]]:
    with_test_credentials(monkeypatch, tmp_path)
    async with AsyncExitStack() as owned:
        env = environment(server, "none", tmp_path)
        forks = await owned.enter_async_context(forking_commands(*IMPORTED, env=env))
        made = []
        for number in range(LANES):
            directory = tmp_path / str(number)
            directory.mkdir()
            stage = await owned.enter_async_context(stage_on(server, directory, FIXTURE))
            await stage.provision()
            proxy = await owned.enter_async_context(Proxy(server))
            made.append(LetterCuts(stage, proxy, forks.started))
        yield made


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", KINDS)
async def test_killed_before_any_of_its_requests_it_loses_no_letter(
    lanes: list[LetterCuts], kind: Kind
) -> None:
    asked = await lanes[0].requests_of(kind)
    assert set(asked) > CHANGING[kind]
    async with asyncio.TaskGroup() as tasks:
        for first, lane in enumerate(lanes):
            tasks.create_task(lane.at(kind, range(first, len(asked), LANES)))
    assert [broken for lane in lanes for broken in lane.told().broken] == []
    killed_at = {where.split()[-1] for lane in lanes for where in lane.kills}
    assert killed_at > CHANGING[kind]
    # A lane's last look may need a request less than the first one's.
    assert sum(lane.kills.total() for lane in lanes) >= len(asked) - LANES
    sent_twice = {where: times for lane in lanes for where, times in lane.twice.items()}
    expected = {"replay before BatchWriteItem": LETTERS} if kind == "replay" else {}
    assert sent_twice == expected
