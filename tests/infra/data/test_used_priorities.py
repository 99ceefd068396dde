"""Which priorities' queues an app has with ``priorities="all"``, and once that is left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate import App, Priority
from headgate.jobs.deployment.removals import removals
from tests.infra.conftest import Params
from tests.infra.templates import resources, synthesized

QUEUE = "AWS::SQS::Queue"


def shop(**options: Any) -> App:
    app = App("shop", stage="prod", **options)
    app.define("send-email", Params, priority=Priority.HIGH, other_priorities=["critical"])
    app.queue("mail").define("send-letter", Params)
    return app


def queues(template: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a template says of each queue, by its logical id."""
    return {
        logical_id: resource
        for logical_id, resource in template["Resources"].items()
        if resource["Type"] == QUEUE
    }


def test_an_app_that_no_longer_says_all_loses_only_unused_queues_and_moves_no_other() -> None:
    before, after = synthesized(shop(priorities="all")), synthesized(shop())
    gone = {f"shop-prod-jobs-{each}" for each in ("normal", "low")}
    gone |= {f"shop-prod-mail-{each}" for each in ("critical", "high", "low")}
    told = removals(before, after)
    assert {each.name for each in told} == gone | {f"{name}-dlq" for name in gone}
    assert all(each.kept for each in told), "this stage keeps its data"
    had, has = queues(before), queues(after)
    assert has.items() <= had.items(), "each that remains is what it was, under its logical id"


def test_an_app_that_says_all_has_four_queues_of_each_group() -> None:
    template = synthesized(shop(priorities="all"))
    names = {each["QueueName"] for each in resources(template, QUEUE).values()}
    every = {f"shop-prod-{group}-{each}" for group in ("jobs", "mail") for each in Priority}
    assert every | {f"{name}-dlq" for name in every} <= names
