"""The shop on a local AWS, checked: ``python -m examples.shop.demo``."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from examples.shop.contracts import (
    Order,
    Payment,
    Report,
    app,
    capture_payment,
    generate_report,
    process_order,
    send_email,
    update_order_status,
)
from examples.shop.store import Store, using
from headgate import Priority
from headgate.events import JobStarted
from headgate.ops.demo.trial import Trial, run_trial

_PATIENCE_S = 120  # a machine may be busy


async def story(trial: Trial, books: Store) -> None:
    await _an_order_is_paid_and_shipped(trial, books)
    await _a_declined_card_is_a_dead_letter(trial)
    await _a_report_is_mailed(trial, books)


async def _an_order_is_paid_and_shipped(trial: Trial, books: Store) -> None:
    order = Order(order_id="order-1", sku="lamp", quantity=2, amount_cents=5_000)
    payment = Payment(order_id=order.order_id, amount_cents=order.amount_cents)
    placed = await trial.client.submit(process_order, order, tenant="aurora")
    paid = await trial.client.submit(capture_payment, payment, tenant="aurora")
    trial.check("the order is booked", await placed.wait(_PATIENCE_S), "completed")
    trial.check("its payment has a receipt", await paid.result(_PATIENCE_S), "receipt-order-1")
    shipped = await trial.client.schedules.run_now(update_order_status.name)
    trial.check("the schedule's job ships it", await shipped.result(_PATIENCE_S), 1)
    found = books.rows("SELECT id, tenant, status FROM orders")
    trial.check("the books have one order, shipped", found, [("order-1", "aurora", "shipped")])


async def _a_declined_card_is_a_dead_letter(trial: Trial) -> None:
    declined = Payment(order_id="declined-2", amount_cents=1)
    job = await trial.client.submit(capture_payment, declined)
    trial.check("a declined payment is not retried", await job.wait(_PATIENCE_S), "dead")
    page = await trial.client.dead_letters.list()
    found = [(each.job_type, each.reason) for each in page.letters]
    trial.check("its letter says why", found, [("capture-payment", "do-not-retry")])


async def _a_report_is_mailed(trial: Trial, books: Store) -> None:
    report = Report(name="today", format="html", recipients=("owner@shop.example",))
    job = await trial.client.submit(generate_report, report, priority=Priority.HIGH)
    trial.check("the report is written", Path(await job.result(_PATIENCE_S)).name, "today.html")
    await trial.completed(send_email)
    found = books.rows("SELECT recipient, name FROM messages JOIN attachments ON id = message_id")
    trial.check("and attached to a mail", found, [("owner@shop.example", "today.html")])
    starts = [each for each in trial.events if isinstance(each, JobStarted)]
    critical = {each.job_type for each in starts if each.priority is Priority.CRITICAL}
    trial.check("payments alone ran as critical", critical, {"capture-payment"})


def main() -> int:
    """Run the demo; returns the exit code."""
    with tempfile.TemporaryDirectory() as directory, using(Path(directory)) as books:
        return run_trial(app, lambda trial: story(trial, books))


if __name__ == "__main__":
    sys.exit(main())
