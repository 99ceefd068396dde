"""The console's pages, and a browser that opens them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from playwright.sync_api import Browser, Page, expect, sync_playwright

Scheme = Literal["light", "dark"]

_PATIENCE_MS = 180_000
"""The longest wait for a page: the machine may be busy."""

DESKTOP, PHONE = (1280, 800), (390, 844)


@dataclass(frozen=True, slots=True)
class Stage:
    """The stage, as `tests.browser.stage` describes it."""

    browser: str
    """The path of Chromium."""
    shown: Mapping[str, str]

    @classmethod
    def of_arguments(cls) -> Stage:
        """Return the stage that the command line describes."""
        browser, shown = sys.argv[1:]
        return cls(browser, json.loads(shown))

    @property
    def paths(self) -> dict[str, str]:
        """The pages' paths, by the names of their pictures."""
        see = self.shown
        return {
            "overview": "/",
            "jobs": "/jobs",
            "job": f"/jobs/{see['dead_job']}",
            "job-running": f"/jobs/{see['running_job']}",
            "dead": "/dead",
            "dead-letters": "/dead?type=capture-payment",
            "dead-letter": f"/dead/{see['letter']}",
            "replays": "/replays",
            "replay": f"/replays/{see['replay']}",
            "queues": "/queues",
            "queue": "/queues/notifications",
            "schedules": "/schedules",
            "schedule": "/schedules/daily-report",
            "workers": "/workers",
            "audit": "/audit",
            "retries": "/plan",
            "retry-plan": "/plan/notify-warehouse",
        }


@contextmanager
def browser_of(stage: Stage) -> Iterator[Browser]:
    """Start the browser, headless."""
    expect.set_options(timeout=_PATIENCE_MS)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=stage.browser)
        try:
            yield browser
        finally:
            browser.close()


def new_page(
    browser: Browser,
    stage: Stage,
    *,
    size: tuple[int, int] = DESKTOP,
    scheme: Scheme = "light",
    scale: float = 1,
) -> Page:
    """Return a page on which the console's paths can be opened.

    Args:
        browser: the browser.
        stage: the stage.
        size: width and height in pixels of CSS.
        scheme: the colours that the user prefers.
        scale: pixels of the screen for each of these.
    """
    width, height = size
    context = browser.new_context(
        base_url=stage.shown["console"],
        viewport={"width": width, "height": height},
        color_scheme=scheme,
        device_scale_factor=scale,
        is_mobile=size == PHONE,
        locale="en-GB",
    )
    context.set_default_timeout(_PATIENCE_MS)
    return context.new_page()
