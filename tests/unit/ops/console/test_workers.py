"""The page of workers."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from headgate.jobs.records.fleet.worker_status import status_item
from tests.support.console import MARKUP, Browser
from tests.support.statuses import JOB, NOW, STATUS
from tests.unit.ops.console.conftest import Shop


def put(shop: Shop, *workers: object) -> None:
    shop.harness.clock.advance(NOW - shop.harness.clock.now())
    shop.harness.table.sync.put([status_item(each) for each in workers])  # type: ignore[arg-type]


def test_workers_tell_what_they_run_and_since_when(shop: Shop, browser: Browser) -> None:
    put(shop, STATUS)
    text = browser.get("/workers").text
    assert STATUS.name in text
    assert "1/50" in text
    assert JOB.id in text
    assert "1m 30s" in text


def test_several_versions_and_silent_workers_are_pointed_out(shop: Shop, browser: Browser) -> None:
    silent = replace(STATUS, name="gone", seen_at=NOW - timedelta(minutes=5))
    put(shop, STATUS, replace(STATUS, name="other", app_version=MARKUP), silent)
    text = browser.get("/workers").text
    assert "2 versions run at once" in text
    assert "Silent" in text
    assert "<script>" not in text


def test_an_app_without_workers_is_told_how_to_start_one(browser: Browser) -> None:
    assert "No worker lives" in browser.get("/workers").text
