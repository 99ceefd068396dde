"""Checked runs: what passes, fails and waits; and the examples' stories, in virtual time."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest
from rich.console import Console

from examples.assistant import demo as assistant
from examples.assistant import local as assistant_local
from examples.assistant.app import app as assistant_app
from examples.shop import demo as shop
from examples.shop.contracts import app as shop_app
from examples.shop.store import using
from examples.travel import demo as travel
from examples.travel import local
from examples.travel.app import app as travel_app
from headgate import App, AsyncClient
from headgate.jobs.core.events import Events
from headgate.jobs.definitions.policies import load_handlers
from headgate.jobs.testing import LoopClock, MemoryBackend
from headgate.jobs.testing.deployed import deploy_schedules
from headgate.ops.demo.trial import Trial
from headgate.workers.configuration import WorkerSettings
from headgate.workers.worker import Worker

pytestmark = pytest.mark.looptime


async def _played(app: App, story: Callable[[Trial], Awaitable[None]]) -> tuple[Trial, str]:
    """Run a story on AWS in memory; return its trial, and what it printed."""
    backend = MemoryBackend(app, clock=LoopClock())
    deploy_schedules(app, backend.scheduler)
    load_handlers(app)
    printed = io.StringIO()
    async with AsyncClient(app, backend=backend) as client:
        trial = Trial(client, Console(file=printed, width=100))
        worker = Worker(app, backend, WorkerSettings(), events=Events(trial.record))
        working = asyncio.create_task(worker.run())
        await story(trial)
        worker.stop()
        await working
    return trial, printed.getvalue()


async def test_a_check_that_fails_is_counted_and_says_what_was_found() -> None:
    async def story(trial: Trial) -> None:
        trial.check("two and two", 2 + 2, 4)
        trial.check("the sky", "grey", "blue")

    trial, printed = await _played(travel_app, story)
    assert trial.failed == 1
    assert printed.splitlines() == [
        "      ok  two and two",
        "  FAILED  the sky: expected 'blue', found 'grey'",
    ]


async def test_a_story_can_wait_for_jobs_that_another_job_submits() -> None:
    app = App("nested")

    @app.job("inner")
    async def inner(_text: str) -> None:
        await asyncio.sleep(5)

    async def story(trial: Trial) -> None:
        await trial.client.submit_many(inner, ["a", "b"])
        await trial.completed(inner, 2)
        trial.check("both are done", len(trial.events) > 1)

    trial, _ = await _played(app, story)
    assert trial.failed == 0


async def test_the_shop_s_story_holds(tmp_path: Path) -> None:
    with using(tmp_path) as books:
        trial, printed = await _played(shop_app, lambda trial: shop.story(trial, books))
    assert trial.failed == 0, printed
    assert printed.count("   ok  ") == 9


async def test_the_travel_platform_s_story_holds() -> None:
    _anew(local.roomfinder, local.stayhub, local.partners, local.bank, local.inventory)
    trial, printed = await _played(travel_app, travel.story)
    assert trial.failed == 0, printed
    assert printed.count("   ok  ") == 10


async def test_the_assistant_s_story_holds_but_for_real_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _anew(assistant_local.store, assistant_local.embedder)
    monkeypatch.setattr(assistant, "_a_webhook_is_signed_and_retried", AsyncMock())
    trial, printed = await _played(assistant_app, assistant.story)
    assert trial.failed == 0, printed
    assert printed.count("   ok  ") == 6


def _anew(*stand_ins: Any) -> None:
    """Have a process's stand-ins made anew."""
    for stand_in in stand_ins:
        stand_in.cache_clear()
