"""The advice of `headgate check` to an app with all priorities: the queues that no type uses."""

from __future__ import annotations

from typing import Any

import pytest

from headgate import App, Existing, ExistingQueue, Priority
from headgate.jobs.deployment.alarms.thresholds import Thresholds
from headgate.jobs.deployment.deployment import Deployment
from headgate.ops.advice import advice, unused_queues

ELSEWHERE = Deployment(workers=())


def shop(**options: Any) -> App:
    app = App("shop", stage="test", **{"priorities": "all", **options})
    app.define("send-email", dict, priority=Priority.HIGH)
    return app


def test_an_app_that_has_only_the_priorities_of_its_types_is_told_nothing() -> None:
    assert [*advice(shop(priorities="used"), ELSEWHERE)] == []


def test_an_app_that_says_all_is_told_of_the_queues_without_a_type() -> None:
    [told] = advice(shop(), ELSEWHERE)
    assert (told.rule, told.severity) == ("unused-priorities", "advice")
    assert "3 of its 4 queues (jobs-critical, jobs-normal, jobs-low)" in told.what
    assert 'leave out App(..., priorities="all")' in told.instead


def test_it_is_told_what_their_alarms_cost_in_a_month() -> None:
    [told] = advice(shop(), ELSEWHERE)
    # depth 1, oldest 3, late 3, failing 2, dead 1, and noisy tenants in two of them
    assert "cost 4.20 USD a month" in told.why
    [told] = advice(shop(), Deployment(workers=(), alarms=Thresholds(by_tenant=False)))
    assert "cost 3.00 USD a month" in told.why


def test_without_alarms_they_cost_nothing() -> None:
    [told] = advice(shop(), Deployment(workers=(), alarms=None))
    assert "0.00 USD" in told.why


@pytest.mark.parametrize("listed", [list(Priority), ["used"], [Priority.HIGH, Priority.LOW]])
def test_a_group_that_lists_its_priorities_is_as_it_was_meant(listed: Any) -> None:
    app = shop(priorities="used")
    app.queue("mail", priorities=listed)
    assert unused_queues(app) == []
    assert [*advice(app, ELSEWHERE)] == []


def test_a_priority_that_submissions_may_take_is_used() -> None:
    app = App("shop", stage="test", priorities="all")
    others = [Priority.CRITICAL, Priority.HIGH, Priority.LOW]
    app.define("send-email", dict, other_priorities=others)
    assert unused_queues(app) == []


def test_a_queue_that_something_else_created_is_meant_to_be_used() -> None:
    theirs = ExistingQueue(queue="their-low")
    app = shop(existing=Existing(queues={"jobs": {"low": theirs}}))
    assert [spec.priority for spec in unused_queues(app)] == [Priority.CRITICAL, Priority.NORMAL]
