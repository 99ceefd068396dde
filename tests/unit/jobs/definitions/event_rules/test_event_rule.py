"""An EventBridge event becomes one job that a worker can run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from headgate import App, Priority
from headgate.jobs.definitions.event_rules.event_rule import Occurrence, event_input, rule_name
from headgate.jobs.errors import ConfigurationError, MessageUnreadable, QueueMissing
from headgate.jobs.messages.envelope import parse
from headgate.jobs.messages.job_ids import derived_job_id
from headgate.jobs.schedules.bridging import Bridge
from headgate.jobs.schedules.inputs import parse_input
from headgate.jobs.schedules.routes import Routes
from headgate.jobs.testing import MemorySqs, VirtualClock
from headgate.lambdas import bridge
from tests.support.lambda_context import lambda_context

AT = datetime(2026, 3, 1, 8, tzinfo=UTC)
PATTERN = {"source": ["shop"], "detail-type": ["OrderPlaced"]}
EVENT: dict[str, Any] = {
    "version": "0",
    "id": "6a7e8feb-b491-4cf7-a9f1-bf3703467718",
    "detail-type": "OrderPlaced",
    "source": "shop",
    "account": "111122223333",
    "time": "2026-03-01T08:00:00Z",
    "region": "eu-central-1",
    "resources": [],
    "detail": {"order_id": 7, "customer": {"name": "hunter2"}},
}


class Order(BaseModel):
    order: int
    customer: str = ""


@pytest.fixture
def app() -> App:
    app = App("shop", stage="test")
    confirm = app.define("confirm-order", Order, priority=Priority.HIGH, schema=3)
    ledger = app.queue("ledger", priorities=[Priority.NORMAL], fifo=True)
    book = ledger.define("book-order", Order, group_by=lambda order: order.customer)
    app.event_rule(
        "order-placed",
        pattern=PATTERN,
        job=confirm,
        fields={"order": "$.detail.order_id", "customer": "$.detail.customer.name"},
    )
    app.event_rule("raw", pattern=PATTERN, job=confirm)
    app.event_rule(
        "booked", pattern=PATTERN, job=book, group="$.detail.customer.name", bus="orders"
    )
    app.event_rule("in-line", pattern=PATTERN, job=book)
    return app


def matched(app: App, name: str, **changed: Any) -> dict[str, Any]:
    """Return the bridge's input when an event matches the rule."""
    template = event_input(app.topology, app.event_rules[name])
    filled = template.replace("<aws.events.event.json>", json.dumps(EVENT | changed))
    event: dict[str, Any] = json.loads(filled)
    return event


@pytest.fixture
def sqs(app: App) -> MemorySqs:
    sqs = MemorySqs(VirtualClock(AT))
    sqs.provision(app.topology)
    return sqs


@pytest.fixture
def on_lambda(app: App, monkeypatch: pytest.MonkeyPatch, sqs: MemorySqs) -> Iterator[None]:
    """Set the function's environment, with SQS in memory."""
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "shop-test-events")
    submitting = Bridge(sqs.sync, None, lambda: AT, routes=Routes.of(app))
    monkeypatch.setattr(bridge, "_bridge", lambda: submitting)
    bridge._logger.cache_clear()
    yield
    bridge._logger.cache_clear()


def test_an_event_becomes_a_job_with_the_fields_that_its_rule_maps(app: App) -> None:
    occurrence = Occurrence.model_validate(matched(app, "order-placed"))
    now = AT + timedelta(seconds=1)

    envelope = parse(occurrence.message(now).body)

    assert envelope.payload == {"order": 7, "customer": "hunter2"}
    assert envelope.source == "event:order-placed"
    assert (envelope.type, envelope.schema_) == ("confirm-order", 3)
    assert (envelope.queue, envelope.priority) == ("jobs", Priority.HIGH)
    assert envelope.submitted_at == now
    assert occurrence.queue_name == "shop-test-jobs-high"
    assert occurrence.message(now).attributes["JobType"] == "confirm-order"


def test_without_a_map_the_detail_is_the_payload(app: App) -> None:
    envelope = parse(Occurrence.model_validate(matched(app, "raw")).message(AT).body)

    assert envelope.payload == EVENT["detail"]


def test_a_field_that_the_event_lacks_is_left_to_the_model(app: App) -> None:
    occurrence = Occurrence.model_validate(matched(app, "order-placed", detail={"order_id": 7}))

    assert parse(occurrence.message(AT).body).payload == {"order": 7}


def test_an_event_that_is_delivered_again_submits_the_same_job(app: App) -> None:
    first = Occurrence.model_validate(matched(app, "order-placed"))
    again = Occurrence.model_validate(
        matched(app, "order-placed", time="2026-03-01T09:00:00+01:00")
    )

    assert first.job_id == again.job_id == derived_job_id(AT, "event", "order-placed", EVENT["id"])


@pytest.mark.parametrize(
    ("name", "changed"),
    [("order-placed", {"id": "other"}), ("raw", {})],
    ids=["another event", "another rule"],
)
def test_another_event_or_rule_is_another_job(app: App, name: str, changed: Any) -> None:
    first = Occurrence.model_validate(matched(app, "order-placed"))

    assert Occurrence.model_validate(matched(app, name, **changed)).job_id != first.job_id


def test_a_fifo_job_keeps_the_order_of_the_group_that_its_event_names(app: App) -> None:
    booked = Occurrence.model_validate(matched(app, "booked")).message(AT)
    nameless = Occurrence.model_validate(matched(app, "booked", detail={})).message(AT)
    in_line = Occurrence.model_validate(matched(app, "in-line")).message(AT)

    assert (booked.group, nameless.group, in_line.group) == ("hunter2", "booked", "in-line")
    assert booked.deduplication_id is not None


@pytest.mark.parametrize("name", ["Ada Lovelace", "", "ä", "x" * 129, {"first": "Ada"}])
def test_a_fifo_group_that_sqs_would_refuse_is_named_by_its_path(app: App, name: Any) -> None:
    booked = Occurrence.model_validate(matched(app, "booked", detail={"customer": {"name": name}}))

    with pytest.raises(
        MessageUnreadable, match=r"at \$\.detail\.customer\.name can't be"
    ) as refused:
        booked.message(AT)
    assert "Ada" not in str(refused.value)


def test_a_rule_keeps_its_pattern_whatever_becomes_of_what_it_was_made_of(app: App) -> None:
    sources = ["shop"]
    app.event_rule("kept", pattern={"source": sources}, job=app.types["confirm-order"])

    sources.append("elsewhere")

    assert app.event_rules["kept"].pattern == {"source": ["shop"]}


@pytest.mark.usefixtures("on_lambda")
def test_the_bridge_submits_the_job_of_an_event_and_logs_no_payload(
    app: App, sqs: MemorySqs, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = bridge.handler(matched(app, "order-placed"), lambda_context())

    [stored] = sqs.messages("shop-test-jobs-high")
    assert answer == {"job_id": str(parse(stored.body).id)}
    line = json.loads(capsys.readouterr().out)
    assert line["event_rule"] == "order-placed"
    assert line["event_id"] == EVENT["id"]
    assert line["job_id"] == answer["job_id"]
    assert "hunter2" not in json.dumps(line)


def test_a_missing_queue_fails_the_invocation(app: App) -> None:
    nothing = MemorySqs(VirtualClock(AT)).sync
    nowhere = Bridge(nothing, None, lambda: AT, routes=Routes.of(app))

    with pytest.raises(QueueMissing, match="shop-test-jobs-high"):
        nowhere.submit(Occurrence.model_validate(matched(app, "raw")))


def test_an_input_that_no_rule_made_is_refused_without_its_values() -> None:
    with pytest.raises(MessageUnreadable, match="job: Field required") as refused:
        parse_input({"kind": "event", "event": {"id": "", "detail": "hunter2"}})
    assert "hunter2" not in str(refused.value)
    assert refused.value.__context__ is None


def test_nothing_of_a_rule_is_taken_for_a_variable_of_eventbridge_s(app: App) -> None:
    odd = app.define("odd", dict[str, Any])
    app.event_rule("odd", pattern=PATTERN, job=odd, fields={"<order>": "$.detail.<id>"})

    template = event_input(app.topology, app.event_rules["odd"])

    assert template.count("<") == 1
    occurrence = Occurrence.model_validate(matched(app, "odd", detail={"<id>": 7}))
    assert parse(occurrence.message(AT).body).payload == {"<order>": 7}


def test_a_rule_is_named_after_app_and_stage(app: App) -> None:
    assert rule_name(app.topology, app.event_rules["raw"]) == "shop-test-raw"
    app.event_rule("x" * 60, pattern=PATTERN, job=app.types["confirm-order"])
    with pytest.raises(ConfigurationError, match="EventBridge allows 64"):
        rule_name(app.topology, app.event_rules["x" * 60])


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"name": "Order Placed"}, "event rule 'Order Placed' must be lower-case"),
        ({"name": "order-placed"}, "two event rules 'order-placed'"),
        ({"pattern": {}}, "pattern must be an event pattern"),
        ({"pattern": {"source": "shop"}}, r"write {'source': \['shop'\]}"),
        ({"pattern": {"detail": {"state": "new"}}}, r"\['detail'\]: .*'state': 'new'"),
        ({"pattern": {"source": []}}, "a list of its possible values"),
        ({"job": "confirm-order"}, "job must be what @app.job or app.define returned"),
        ({"job": App("other").define("x", Order)}, "was not declared on the app 'shop'"),
        ({"fields": {"order": "detail.order"}}, r"fields\['order'\] must be a path"),
        ({"fields": {5: "$.detail.order"}}, "fields names those of the payload, got 5"),
        ({"fields": {"": "$.detail.order"}}, "fields names those of the payload, got ''"),
        ({"fields": {"order": "$.detail.\ud800"}}, r"fields\['order'\] must be a path"),
        ({"group": "customer"}, "group must be a path"),
        ({"group": 5}, "group must be a path"),
        ({"group": "$.detail.id"}, "orders the jobs of a FIFO queue, and 'jobs' is not one"),
        ({"bus": ""}, "bus must be the name of an event bus"),
        ({"bus": None}, "bus must be the name of an event bus"),
        ({"bus": "my orders"}, "bus must be the name of an event bus"),
        ({"name": 5}, "the event rule 5 must be lower-case"),
    ],
)
def test_a_rule_that_can_not_work_is_refused_where_it_is_declared(
    app: App, changed: dict[str, Any], complaint: str
) -> None:
    arguments: dict[str, Any] = {
        "name": "new",
        "pattern": PATTERN,
        "job": app.types["confirm-order"],
    } | changed
    name = arguments.pop("name")

    with pytest.raises(ConfigurationError, match=complaint):
        app.event_rule(name, **arguments)
