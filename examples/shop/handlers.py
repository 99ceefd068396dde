"""The handlers of the shop's jobs. Only a worker imports this.

A job may run more than once, so each handler can be repeated: its writes have keys.
"""

from __future__ import annotations

import asyncio

from examples.shop import gateway, store
from examples.shop.contracts import (
    AbandonedCarts,
    Analytics,
    Attachment,
    Cart,
    Email,
    InventorySync,
    Notification,
    Order,
    OrderStatus,
    Payment,
    Report,
    abandoned_cart_reminder,
    aggregate_analytics,
    capture_payment,
    generate_report,
    process_order,
    remind_of_cart,
    send_email,
    send_notification,
    sync_inventory,
    update_order_status,
)
from examples.shop.reports import MEDIA_TYPES, write_report
from headgate import Discard, DoNotRetry, JobContext


@send_email.handler
async def _send_email(email: Email, ctx: JobContext) -> None:
    await gateway.call(email.to)
    await asyncio.to_thread(
        store.current().add_message,
        ctx.id,
        kind="email",
        to=email.to,
        text=email.subject,
        attachments={each.name: each.data for each in email.attachments},
    )
    ctx.log.info("sent to %s", email.to)


@send_notification.handler
async def _send_notification(notification: Notification, ctx: JobContext) -> None:
    await gateway.call(notification.user)
    await asyncio.to_thread(
        store.current().add_message,
        ctx.id,
        kind=notification.channel,
        to=notification.user,
        text=notification.text,
    )


@process_order.handler
async def _process_order(order: Order, ctx: JobContext) -> None:
    if order.order_id.startswith("cancelled-"):
        raise Discard("the customer cancelled the order")
    await gateway.call(order.order_id)
    await asyncio.to_thread(
        store.current().take_order,
        order.order_id,
        sku=order.sku,
        quantity=order.quantity,
        amount_cents=order.amount_cents,
        customer=order.customer,
        tenant=ctx.tenant.org if ctx.tenant else None,
    )


@capture_payment.handler
async def _capture_payment(payment: Payment, ctx: JobContext) -> str:
    try:
        await gateway.call(payment.order_id)
    except gateway.CardDeclined as error:
        raise DoNotRetry("the bank declined the card") from error
    ctx.log.info("captured at attempt %d of %d", ctx.attempt, ctx.max_attempts)
    return await asyncio.to_thread(
        store.current().add_payment, payment.order_id, payment.amount_cents, payment.currency
    )


@update_order_status.handler
def _update_order_status(params: OrderStatus) -> int:
    return store.current().ship_paid_orders(params.order_id)


@sync_inventory.handler
def _sync_inventory(params: InventorySync) -> int:
    gateway.call_blocking(params.supplier)
    return store.current().restock()


@generate_report.handler
def _generate_report(report: Report, ctx: JobContext) -> str:
    path = write_report(store.current(), report)
    attachment = Attachment.of(path.name, MEDIA_TYPES[report.format], path.read_bytes())
    for recipient in report.recipients:
        subject = f"The {report.name} {report.kind} report"
        _ = ctx.submit(send_email, Email(to=recipient, subject=subject, attachments=(attachment,)))
    return str(path)


@abandoned_cart_reminder.handler
def _abandoned_cart_reminder(carts: AbandonedCarts, ctx: JobContext) -> int:
    reminded = store.current().remind_of_carts(carts.idle_hours)
    ctx.log.info("reminded %d customers", reminded)
    return reminded


@remind_of_cart.handler
def _remind_of_cart(cart: Cart) -> bool:
    return store.current().remind_of_cart(cart.customer)


@aggregate_analytics.handler
def _aggregate_analytics(params: Analytics) -> int:
    return store.current().aggregate(params.metric)
