"""Fixtures for tests with real workers; imported by conftests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.environment import with_test_credentials
from tests.support.stage import Stage, stage_on

__all__ = ["bare_stage", "server", "stage"]


@pytest.fixture(scope="session")
def server(ministack: str) -> str:
    """Return the endpoint of the MiniStack that all tests share."""
    return ministack


@pytest.fixture
async def bare_stage(
    server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> AsyncIterator[Stage]:
    """Yield a stage whose queues do not exist yet."""
    with_test_credentials(monkeypatch, tmp_path)
    async with stage_on(server, tmp_path) as made:
        yield made


@pytest.fixture
async def stage(bare_stage: Stage) -> Stage:
    """Return a stage with its queues."""
    await bare_stage.provision()
    return bare_stage
