"""The pace of the garbage collector in a worker's process."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from headgate import App
from headgate.workers.configuration import WorkerSettings
from headgate.workers.process import entry
from headgate.workers.process.garbage import ALLOCATIONS, collected_seldom
from headgate.workers.shutdown import Report


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_a_worker_s_process_collects_seldom_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, ...]] = []

    async def work(*_args: Any, **_settings: Any) -> Report:
        seen.append(gc.get_threshold())
        return Report()

    monkeypatch.setattr(entry, "work", work)
    gc.set_threshold(700, 10, 10)
    assert entry.run(App("shop"), WorkerSettings()) == 0
    assert seen == [(ALLOCATIONS, 10, 10)]
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("own", [0, ALLOCATIONS + 1])
def test_an_app_that_collects_still_less_often_keeps_what_it_has_set(own: int) -> None:
    gc.set_threshold(own, 10, 10)
    with collected_seldom():
        assert gc.get_threshold() == (own, 10, 10)
