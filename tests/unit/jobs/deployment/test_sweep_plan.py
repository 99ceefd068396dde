"""The sweep's plan for an app: every queue that messages end in, and the critical ones."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

from headgate import App, Priority
from headgate.jobs.deployment.sweep_plan import plan_input, read_plan, sweep_plan
from headgate.jobs.errors import ConfigurationError, MessageUnreadable


class Order(BaseModel):
    number: int = 1


def make_app() -> App:
    app = App("shop", stage="test")
    app.define("send-email", Order)
    app.queue("payments", priorities=[Priority.CRITICAL]).define(
        "capture", Order, alert_at_once=True
    )
    return app


@pytest.mark.parametrize("has_bridge", [True, False])
def test_a_plan_is_read_back_as_it_was_rendered(has_bridge: bool) -> None:
    plan = sweep_plan(make_app(), has_bridge=has_bridge)
    assert read_plan(json.loads(json.dumps(plan_input(plan)))) == plan


def test_it_knows_where_the_console_is_only_if_there_is_one() -> None:
    url = "https://jobs.shop.example"
    with_one, without = (sweep_plan(make_app(), has_bridge=True, console=at) for at in (url, ""))
    assert read_plan(plan_input(with_one)).console == url
    assert "console" not in plan_input(without)


def test_it_has_every_queue_that_messages_end_in_and_where_these_come_from() -> None:
    app = make_app()
    topology = app.topology
    plan = sweep_plan(app, has_bridge=True)
    assert {queue.name: queue.home for queue in plan.queues} == {
        topology.quarantine_name: None,
        **{spec.dlq_name: spec.name for spec in topology.queues},
        topology.failed_firings_name: None,
    }
    assert plan.app == "shop-test"


def test_what_is_urgent_is_looked_into_first() -> None:
    first, second, *_ = sweep_plan(make_app(), has_bridge=True).queues
    assert first.kind == "quarantine"
    assert second.name.endswith("-critical-dlq")


def test_types_are_critical_where_they_say_so() -> None:
    app = make_app()
    assert not app.find_type("send-email").alert_at_once
    assert sweep_plan(app, has_bridge=True).critical == {"capture"}


def test_it_names_all_types_in_the_same_order_each_time() -> None:
    plan = sweep_plan(make_app(), has_bridge=True)
    assert plan_input(plan)["types"] == ["capture", "send-email"]


def test_a_schedules_input_of_an_earlier_version_names_none() -> None:
    given = plan_input(sweep_plan(make_app(), has_bridge=True))
    del given["types"]
    assert read_plan(given).types == set()


@pytest.mark.parametrize("critical", ["yes", 1, None])
def test_alert_at_once_is_true_or_false(critical: Any) -> None:
    with pytest.raises(ConfigurationError, match="alert_at_once must be True or False"):
        App("shop").define("capture", Order, alert_at_once=critical)


@pytest.mark.parametrize("event", [{}, {"app": "shop", "queues": [{"name": "a"}], "critical": []}])
def test_what_is_no_plan_is_refused_with_what_to_do(event: dict[str, Any]) -> None:
    with pytest.raises(MessageUnreadable, match="run `cdk deploy`"):
        read_plan(event)
