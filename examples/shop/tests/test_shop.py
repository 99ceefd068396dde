"""The example shop: every type does its work, and the declarations are as intended."""

from __future__ import annotations

import csv
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from examples.shop import contracts as shop
from examples.shop.checkout import cart_changed, place_order
from examples.shop.store import RESTOCK_LEVEL, Store, current
from headgate import Backoff, JobType, Priority, RateLimit, Retry
from headgate.events import JobDeferred, JobDiscarded, JobRetryScheduled
from headgate.testing import Harness

ORDER = shop.Order(order_id="order-1", sku="sku-1", quantity=3, amount_cents=1500)


def _run(jobs: Harness, declared: JobType[Any, Any], *payloads: Any, tenant: str = "org-1") -> None:
    for payload in payloads:
        jobs.client.submit(declared, payload, tenant=tenant)
    jobs.drain()


def _retries(jobs: Harness) -> list[int]:
    return [event.delay_s for event in jobs.events if isinstance(event, JobRetryScheduled)]


# --- declarations --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "retry", "limit"),
    [
        ("process-order", Retry(max_attempts=5, backoff=Backoff.exponential(base=3)), 50),
        ("capture-payment", Retry(max_attempts=3, backoff=Backoff.exponential(base=5)), 20),
        ("sync-inventory", Retry(max_attempts=3, backoff=Backoff.exponential(base=2)), 100),
        ("send-notification", Retry(max_attempts=3, backoff=Backoff.fixed(5)), 200),
    ],
)
def test_a_queue_has_the_policy_and_the_rate_that_the_shop_needs(
    name: str, retry: Retry, limit: int
) -> None:
    declared = shop.app.types[name]
    queues = (shop.orders, shop.payments, shop.inventory, shop.notifications)
    [queue] = [queue for queue in queues if queue.name == declared.queue]
    assert declared.retry == retry
    assert queue.limits.rate_limit == RateLimit(limit, per=1, scope="fleet")


def test_the_shop_has_ten_queues_and_no_priority_that_is_not_used() -> None:
    assert [spec.name for spec in shop.app.topology.queues] == [
        "ecommerce-jobs-critical",
        "ecommerce-jobs-high",
        "ecommerce-jobs-normal",
        "ecommerce-jobs-low",
        "ecommerce-orders-high",
        "ecommerce-orders-normal",
        "ecommerce-payments-critical",
        "ecommerce-inventory-high",
        "ecommerce-notifications-high",
        "ecommerce-notifications-low",
    ]


def test_every_type_has_a_timeout_and_goes_where_it_should() -> None:
    assert {name: (each.queue, each.priority) for name, each in shop.app.types.items()} == {
        "send-email": ("jobs", Priority.HIGH),
        "generate-report": ("jobs", Priority.NORMAL),
        "abandoned-cart-reminder": ("jobs", Priority.NORMAL),
        "remind-of-cart": ("jobs", Priority.NORMAL),
        "aggregate-analytics": ("jobs", Priority.LOW),
        "process-order": ("orders", Priority.HIGH),
        "update-order-status": ("orders", Priority.HIGH),
        "capture-payment": ("payments", Priority.CRITICAL),
        "sync-inventory": ("inventory", Priority.HIGH),
        "send-notification": ("notifications", Priority.HIGH),
    }
    timeouts = [each.timeout for each in shop.app.types.values() if each.timeout]
    assert len(timeouts) == len(shop.app.types)
    assert max(timeouts) == timedelta(minutes=30)


def test_people_hear_at_once_of_a_payment_that_was_given_up_and_of_nothing_else() -> None:
    assert [each.name for each in shop.app.types.values() if each.alert_at_once] == [
        "capture-payment"
    ]


def test_five_types_are_scheduled() -> None:
    schedules = {name: each.schedule for name, each in shop.app.types.items() if each.schedule}
    assert {name: schedule.expression for name, schedule in schedules.items()} == {
        "generate-report": "cron(0 8 * * ? *)",
        "sync-inventory": "rate(15 minutes)",
        "abandoned-cart-reminder": "rate(1 hour)",
        "update-order-status": "rate(5 minutes)",
        "aggregate-analytics": "cron(0 0 * * ? *)",
    }
    assert {schedule.timezone for schedule in schedules.values()} == {"UTC"}


# --- the jobs' work ------------------------------------------------------------------------------


def test_an_email_and_a_notification_are_put_into_the_outbox(jobs: Harness, books: Store) -> None:
    _run(jobs, shop.send_email, shop.Email(to="ada@example.com", subject="Hello"))
    _run(jobs, shop.send_notification, shop.Notification(user="ada", text="Hi", channel="sms"))
    assert books.rows("SELECT kind, recipient, text FROM messages ORDER BY kind") == [
        ("email", "ada@example.com", "Hello"),
        ("sms", "ada", "Hi"),
    ]


def test_an_order_is_booked_for_its_tenant_once_and_leaves_the_stock(
    jobs: Harness, books: Store
) -> None:
    _run(jobs, shop.process_order, ORDER, ORDER)
    assert len(jobs.completed(shop.process_order)) == 2
    assert books.rows("SELECT id, tenant, status FROM orders") == [("order-1", "org-1", "open")]
    assert books.rows("SELECT pieces FROM stock") == [(RESTOCK_LEVEL - 3,)]


def test_a_cancelled_order_is_discarded(jobs: Harness, books: Store) -> None:
    _run(jobs, shop.process_order, ORDER.model_copy(update={"order_id": "cancelled-1"}))
    assert [event.reason for event in jobs.events if isinstance(event, JobDiscarded)] == [
        "the customer cancelled the order"
    ]
    assert books.sales() == []


def test_a_payment_is_booked_and_its_order_is_shipped(jobs: Harness, books: Store) -> None:
    unpaid = ORDER.model_copy(update={"order_id": "order-2"})
    _run(jobs, shop.process_order, ORDER, unpaid)
    _run(jobs, shop.capture_payment, shop.Payment(order_id="order-1", amount_cents=1500))
    _run(jobs, shop.update_order_status, shop.OrderStatus())
    assert books.rows("SELECT id, status FROM orders ORDER BY id") == [
        ("order-1", "shipped"),
        ("order-2", "open"),
    ]


def test_a_sync_fills_the_stock_up(jobs: Harness, books: Store) -> None:
    _run(jobs, shop.process_order, ORDER)
    _run(jobs, shop.sync_inventory, shop.InventorySync())
    assert books.rows("SELECT pieces FROM stock") == [(RESTOCK_LEVEL,)]


@pytest.mark.usefixtures("books")
def test_a_report_adds_the_orders_up_by_product(jobs: Harness, tmp_path: Path) -> None:
    other = ORDER.model_copy(update={"order_id": "order-2"})
    _run(jobs, shop.process_order, ORDER, other)
    _run(jobs, shop.generate_report, shop.Report(), shop.Report(name="day", format="json"))
    row: dict[str, Any] = {"sku": "sku-1", "orders": 2, "units": 6, "revenue_cents": 3000}
    assert json.loads((tmp_path / "reports" / "day.json").read_text()) == [row]
    with (tmp_path / "reports" / "daily.csv").open() as file:
        assert list(csv.DictReader(file)) == [{name: str(value) for name, value in row.items()}]
    assert len(list((tmp_path / "reports").iterdir())) == 2


def test_a_report_is_of_the_chosen_products_and_mailed_to_its_recipients(
    jobs: Harness, books: Store
) -> None:
    other = ORDER.model_copy(update={"order_id": "order-2", "sku": "<b>"})
    _run(jobs, shop.process_order, ORDER, other)
    owners = ("ada@example.com", "bob@example.com")
    report = shop.Report(
        name="scarce", kind="stock", format="html", skus=("<b>",), recipients=owners
    )
    _run(jobs, shop.generate_report, report)
    found = books.rows(
        "SELECT recipient, name, content FROM messages JOIN attachments ON id = message_id"
        " ORDER BY recipient"
    )
    assert [(to, name) for to, name, _ in found] == [(to, "scarce.html") for to in owners]
    assert b"<td>&lt;b&gt;</td><td>9997</td>" in found[0][2]
    assert b"sku-1" not in found[0][2]


def test_the_daily_report_is_the_one_that_its_schedule_asks_for(
    jobs: Harness, books: Store
) -> None:
    jobs.client.schedules.run_now("generate-report")
    [daily] = jobs.submitted(shop.generate_report)
    assert daily.payload == shop.Report(format="html")
    jobs.drain()
    assert (books.directory / "reports" / "daily.html").exists()


def test_a_large_attachment_goes_beside_its_message(jobs: Harness, books: Store) -> None:
    catalogue = shop.Attachment.of("catalogue.pdf", "application/pdf", bytes(range(256)) * 2_000)
    mail = shop.Email(to="ada@example.com", subject="Catalogue", attachments=(catalogue,))
    _run(jobs, shop.send_email, mail)
    assert books.rows("SELECT length(content) FROM attachments") == [(512_000,)]


@pytest.mark.usefixtures("books")
def test_a_report_can_not_be_written_elsewhere(jobs: Harness, tmp_path: Path) -> None:
    _run(jobs, shop.generate_report, shop.Report(name="../../escaped"))
    assert [path.name for path in (tmp_path / "reports").iterdir()] == ["escaped.csv"]


def test_an_idle_cart_is_reminded_of_once(jobs: Harness, books: Store) -> None:
    books.leave_cart("ada@example.com", idle_hours=5)
    books.leave_cart("bob@example.com", idle_hours=1)
    _run(jobs, shop.abandoned_cart_reminder, shop.AbandonedCarts(), shop.AbandonedCarts())
    assert books.rows("SELECT recipient FROM messages") == [("ada@example.com",)]


def test_a_cart_is_reminded_of_an_hour_after_its_last_change(jobs: Harness, books: Store) -> None:
    books.leave_cart("ada@example.com", idle_hours=0)
    cart_changed(jobs.client, "ada@example.com")
    jobs.clock.advance(timedelta(minutes=40))
    cart_changed(jobs.client, "ada@example.com")
    began = jobs.clock.now()
    jobs.drain()
    assert books.rows("SELECT recipient FROM messages") == [("ada@example.com",)]
    assert len(jobs.completed(shop.remind_of_cart)) == 1
    assert timedelta(0) <= jobs.clock.now() - began - timedelta(hours=1) < timedelta(minutes=2)


def test_a_cart_that_was_bought_meanwhile_is_not_reminded_of(jobs: Harness, books: Store) -> None:
    books.leave_cart("ada@example.com", idle_hours=0)
    cart_changed(jobs.client, "ada@example.com")
    order = ORDER.model_copy(update={"customer": "ada@example.com"})
    receipt = place_order(jobs.client, order)
    jobs.drain()
    assert receipt.result() == "receipt-order-1"
    assert books.rows("SELECT text FROM messages") == [("Your order order-1",)]


def test_analytics_keep_the_totals(jobs: Harness, books: Store) -> None:
    _run(jobs, shop.process_order, ORDER)
    _run(jobs, shop.aggregate_analytics, shop.Analytics(), shop.Analytics(metric="units"))
    assert books.rows("SELECT * FROM analytics ORDER BY metric") == [
        ("revenue", 1500),
        ("units", 3),
    ]


# --- failures ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("books")
@pytest.mark.parametrize(("word", "delays"), [("flaky", {5}), ("busy", {2})])
def test_a_transient_fault_is_retried_by_the_policy_or_when_the_server_says(
    jobs: Harness, word: str, delays: set[int]
) -> None:
    _run(jobs, shop.send_notification, shop.Notification(user=f"{word}-1", text="Hi"))
    assert set(_retries(jobs)) == delays
    assert len(jobs.completed(shop.send_notification)) == 1


@pytest.mark.usefixtures("books")
def test_a_service_that_is_down_uses_all_attempts_up(jobs: Harness) -> None:
    _run(jobs, shop.process_order, ORDER.model_copy(update={"order_id": "down-1"}))
    [letter] = jobs.dead_letters()
    assert letter.attributes["Reason"] == "attempts-exhausted"
    assert letter.attributes["Attempts"] == "5"


@pytest.mark.usefixtures("books")
@pytest.mark.parametrize(
    ("declared", "payload", "reason", "error"),
    [
        (
            shop.send_email,
            shop.Email(to="unknown-1@example.com", subject="Hello"),
            "permanent-error",
            "GatewayError",
        ),
        (
            shop.capture_payment,
            shop.Payment(order_id="declined-1", amount_cents=1),
            "do-not-retry",
            "DoNotRetry",
        ),
    ],
)
def test_a_permanent_fault_is_not_retried(
    jobs: Harness,
    declared: JobType[Any, Any],
    payload: Any,
    reason: str,
    error: str,
) -> None:
    _run(jobs, declared, payload)
    [letter] = jobs.dead_letters(declared)
    assert (letter.attributes["Reason"], letter.attributes["ErrorType"]) == (reason, error)
    assert _retries(jobs) == []
    assert not any(isinstance(event, JobDeferred) for event in jobs.events)


def test_the_books_lie_where_shop_data_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from examples.shop import store

    monkeypatch.setenv("SHOP_DATA", str(tmp_path / "data"))
    store._of_process.cache_clear()
    try:
        assert current().directory == tmp_path / "data"
        current().close()
    finally:
        store._of_process.cache_clear()
