"""The shop's job types: their names, payloads, queues and retry policies.

A web service imports this to submit. It never imports the handlers or their dependencies.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from datetime import timedelta
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from headgate import App, Backoff, Priority, RateLimit, Retry, Schedule, cron

# --- queues --------------------------------------------------------------------------------------

# What a service takes, it takes of the whole fleet: scope="fleet" leaves no share to multiply by
# the number of workers.

app = App(
    "ecommerce",
    handlers=["examples.shop.handlers"],
    # One team deploys this shop's submitters and workers at once, so a message that no worker
    # knows is parked after seconds. Where deploys roll, keep the default: about 16 minutes.
    parking=Retry(max_attempts=3, backoff=Backoff.fixed(2)),
)

orders = app.queue(
    "orders",
    priorities=[Priority.HIGH, Priority.NORMAL],
    retry=Retry(max_attempts=5, backoff=Backoff.exponential(base=3)),
    rate_limit=RateLimit(50, per=1, scope="fleet"),
)

payments = app.queue(
    "payments",
    priorities=[Priority.CRITICAL],
    retry=Retry(max_attempts=3, backoff=Backoff.exponential(base=5)),
    rate_limit=RateLimit(20, per=1, scope="fleet"),
)

inventory = app.queue(
    "inventory",
    priorities=[Priority.HIGH],
    retry=Retry(max_attempts=3, backoff=Backoff.exponential(base=2)),
    rate_limit=RateLimit(100, per=1, scope="fleet"),
)

notifications = app.queue(
    "notifications",
    priorities=[Priority.HIGH, Priority.LOW],
    retry=Retry(max_attempts=3, backoff=Backoff.fixed(5)),
    rate_limit=RateLimit(200, per=1, scope="fleet"),
)


# --- payloads ------------------------------------------------------------------------------------


class _Payload(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Attachment(_Payload):
    """A file of an e-mail. Messages are JSON, so its bytes are base64."""

    name: str
    media_type: str
    content: str

    @classmethod
    def of(cls, name: str, media_type: str, data: bytes) -> Self:
        """Return an attachment with these bytes."""
        return cls(name=name, media_type=media_type, content=b64encode(data).decode())

    @property
    def data(self) -> bytes:
        """Its bytes."""
        return b64decode(self.content)


class Email(_Payload):
    """One e-mail to a customer."""

    to: str
    subject: str
    body: str = ""
    attachments: tuple[Attachment, ...] = ()


class Notification(_Payload):
    """One message to a customer's phone or browser."""

    user: str
    text: str
    channel: Literal["push", "sms"] = "push"


class Order(_Payload):
    """An order as placed at checkout."""

    order_id: str
    sku: str
    quantity: int = Field(ge=1)
    amount_cents: int = Field(ge=0)
    customer: str = ""


class Payment(_Payload):
    """A payment to take for an order."""

    order_id: str
    amount_cents: int = Field(gt=0)
    currency: Literal["EUR", "USD"] = "EUR"


class OrderStatus(_Payload):
    """The order to move on; None: all paid orders, as the schedule submits it."""

    order_id: str | None = None


class InventorySync(_Payload):
    """The supplier whose stock levels to import."""

    supplier: str = "main"


class Report(_Payload):
    """A report on the orders so far: a file, and a copy of it for each recipient."""

    name: str = "daily"
    kind: Literal["sales", "stock"] = "sales"
    format: Literal["csv", "json", "html"] = "csv"
    skus: tuple[str, ...] = ()
    """The products to report on; all, if empty."""
    recipients: tuple[str, ...] = ()


class AbandonedCarts(_Payload):
    """Carts left alone for this long, whose owners to remind."""

    idle_hours: int = Field(default=4, ge=1)


class Cart(_Payload):
    """The cart that one customer has left."""

    customer: str


class Analytics(_Payload):
    """The metric to add up."""

    metric: Literal["revenue", "units"] = "revenue"


# --- job types -----------------------------------------------------------------------------------

send_email = app.define(
    "send-email",
    Email,
    priority=Priority.HIGH,
    other_priorities=[Priority.CRITICAL],  # confirmations of orders
    timeout=timedelta(seconds=30),
)
generate_report = app.define(
    "generate-report",
    Report,
    returns=str,
    priority=Priority.NORMAL,
    timeout=timedelta(minutes=5),
    schedule=cron("0 8 * * ? *"),
    schedule_payload=Report(format="html"),
)
abandoned_cart_reminder = app.define(
    "abandoned-cart-reminder",
    AbandonedCarts,
    returns=int,
    priority=Priority.NORMAL,
    timeout=timedelta(minutes=5),
    schedule=Schedule.rate(timedelta(hours=1)),
)
remind_of_cart = app.define(
    "remind-of-cart",
    Cart,
    returns=bool,
    priority=Priority.NORMAL,
    timeout=timedelta(seconds=30),
)
aggregate_analytics = app.define(
    "aggregate-analytics",
    Analytics,
    returns=int,
    priority=Priority.LOW,
    timeout=timedelta(minutes=30),
    schedule=cron("0 0 * * ? *"),
)

process_order = orders.define(
    "process-order", Order, priority=Priority.HIGH, timeout=timedelta(seconds=30)
)
update_order_status = orders.define(
    "update-order-status",
    OrderStatus,
    returns=int,
    priority=Priority.HIGH,
    timeout=timedelta(minutes=1),
    schedule=Schedule.rate(timedelta(minutes=5)),
)

capture_payment = payments.define(
    "capture-payment", Payment, returns=str, timeout=timedelta(seconds=15), alert_at_once=True
)

sync_inventory = inventory.define(
    "sync-inventory",
    InventorySync,
    returns=int,
    timeout=timedelta(minutes=2),
    schedule=Schedule.rate(timedelta(minutes=15)),
)

send_notification = notifications.define(
    "send-notification", Notification, priority=Priority.HIGH, timeout=timedelta(seconds=10)
)
