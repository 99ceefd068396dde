"""Strange texts in the console: whatever is stored, each page is shown, and shows texts alone."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.ops.console.access.rules import LOOPBACK_HOSTS, everybody
from headgate.ops.console.app import console
from tests.hostile.examples import EXAMPLES
from tests.hostile.spoiled_shop import OBEYED, Shop
from tests.support.console import Browser

PAGES = (
    *("/", "/queues", "/queues/mail", "/workers", "/audit", "/plan", "/plan/send"),
    *("/jobs", "/jobs?state=dead", "/jobs/{job}", "/jobs/{dead}"),
    *("/dead", "/dead/{dead}", "/replays", "/replays/{replay}"),
    *("/schedules", "/schedules/nightly", "/schedules/send"),
)


@settings(max_examples=max(3, EXAMPLES // len(PAGES)))
@pytest.mark.timeout(max(300, EXAMPLES))
@given(seed=st.integers(0, 2**32))
def test_whatever_is_stored_no_page_breaks_or_takes_a_text_for_markup(seed: int) -> None:
    shop = Shop()
    shop.spoil(random.Random(seed))  # noqa: S311 - spoils texts
    served = console(
        shop.app,
        access=everybody("ada@laptop"),
        hosts=LOOPBACK_HOSTS,
        client=shop.jobs.client,
        clock=shop.jobs.clock,
    )
    browser = Browser(served)
    for page in PAGES:
        path = page.format(job=shop.job, dead=shop.dead, replay=shop.replay)
        answer = browser.get(path)
        assert answer.status < 500, path
        assert "<script>alert" not in answer.text, path
        assert not OBEYED.search(answer.text), path
