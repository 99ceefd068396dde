"""The web shop's side: what a request submits. It imports contracts, and never a handler."""

from __future__ import annotations

from datetime import timedelta

from examples.shop.contracts import (
    Cart,
    Email,
    Order,
    Payment,
    capture_payment,
    process_order,
    remind_of_cart,
    send_email,
)
from headgate import Client, JobHandle, Unique

REMIND_AFTER = timedelta(hours=1)
"""Time after a customer's last change of a cart until the reminder."""


def place_order(client: Client, order: Order) -> JobHandle[str]:
    """Submit an order's jobs; returns the payment's handle."""
    confirmation = Email(to=order.customer, subject=f"Your order {order.order_id}")
    client.submit(process_order, order)
    client.submit(send_email, confirmation, priority="critical")
    payment = Payment(order_id=order.order_id, amount_cents=order.amount_cents)
    return client.submit(capture_payment, payment)


def cart_changed(client: Client, customer: str) -> None:
    """Remind a customer of a full cart an hour from now; a later change postpones it."""
    client.submit(
        remind_of_cart,
        Cart(customer=customer),
        delay=REMIND_AFTER,
        unique=Unique(within=2 * REMIND_AFTER, key=customer, keep="last"),
    )
