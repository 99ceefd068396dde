"""A shop whose jobs complete, fail, retry, die, and go on for long."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta

from pydantic import BaseModel

from headgate import (
    App,
    Backoff,
    Breaker,
    DoNotRetry,
    JobContext,
    Priority,
    RateLimit,
    Retry,
    Schedule,
    cron,
)

app = App("ecommerce", stage="prod", records="full")

payments = app.queue(
    "payments",
    priorities=[Priority.CRITICAL, Priority.HIGH],
    rate_limit=RateLimit(20, per=1, scope="fleet"),
)
notifications = app.queue(
    "notifications", priorities=[Priority.HIGH, Priority.LOW], breaker=Breaker(0.5, min_runs=10)
)

_rng = random.Random(7)  # noqa: S311 - spreads what the handlers take


class Email(BaseModel):
    to: str
    subject: str = "Your order"


class Payment(BaseModel):
    order_id: str
    amount_cents: int = 4_990


class Image(BaseModel):
    sku: str


class Catalogue(BaseModel):
    supplier: str
    pages: int = 900


class Campaign(BaseModel):
    name: str


class Bank:
    """The shop's bank, as its handlers find it."""

    def __init__(self) -> None:
        self.is_down = True

    def charge(self, payment: Payment) -> str:
        """Charge a card; return the receipt's number."""
        if payment.order_id.startswith("declined"):
            raise DoNotRetry("the bank declined the card")
        if self.is_down:
            raise ConnectionError("bank.example:443 refused the connection")
        return f"receipt of {payment.order_id}"


BANK = Bank()


@app.job("send-email", priority="high", retry=Retry(max_attempts=1))
async def send_email(email: Email) -> None:
    """Send an e-mail, unless its address is none."""
    await asyncio.sleep(_rng.uniform(0.2, 2))
    if email.to.startswith("nobody"):
        raise DoNotRetry(f"550 5.1.1 {email.to}: no such mailbox")


@app.job("resize-image", priority="low")
async def resize_image(image: Image) -> None:
    """Resize a picture, for a second or more."""
    del image
    await asyncio.sleep(_rng.uniform(1, 4))


@app.job("import-catalogue", timeout=timedelta(hours=1))
async def import_catalogue(catalogue: Catalogue, ctx: JobContext) -> None:
    """Import a supplier's pages, one a second, with a child for each tenth."""
    for page in range(1, catalogue.pages + 1):
        if page % 10 == 1:
            await ctx.submit(resize_image, Image(sku=f"{catalogue.supplier}-{page}"))
        note = f"page {page} of {catalogue.pages}"
        await ctx.progress(100 * page / catalogue.pages, note)
        await asyncio.sleep(1)


@payments.job(
    "capture-payment",
    priority="critical",
    retry=Retry(max_attempts=2, backoff=Backoff.fixed(0.2)),
)
async def capture_payment(payment: Payment) -> str:
    """Charge a card."""
    await asyncio.sleep(_rng.uniform(0.1, 0.5))
    return BANK.charge(payment)


@payments.job("pay-supplier", priority="high")
async def pay_supplier(payment: Payment) -> None:
    """Pay a bill."""
    del payment
    await asyncio.sleep(_rng.uniform(0.2, 1))


@notifications.job(
    "notify-warehouse",
    priority="high",
    retry=Retry(max_attempts=12, backoff=Backoff.exponential(base=30)),
)
async def notify_warehouse(payment: Payment) -> None:
    """Tell the warehouse, which does not listen."""
    await asyncio.sleep(_rng.uniform(0.1, 0.3))
    raise TimeoutError(f"warehouse.example took more than 5 s over {payment.order_id}")


@notifications.job("push-campaign", priority="high")
async def push_campaign(campaign: Campaign) -> None:
    """Push a message to many phones, which takes half a minute."""
    del campaign
    await asyncio.sleep(_rng.uniform(20, 40))


@notifications.job("send-sms", priority="low")
async def send_sms(email: Email) -> None:
    """Send a text message."""
    del email
    await asyncio.sleep(_rng.uniform(0.1, 0.3))


@app.job("daily-report", schedule=cron("0 8 * * ? *", timezone="Europe/Berlin"))
async def daily_report() -> None:
    """Add up the day's orders."""
    await asyncio.sleep(1)


@app.job("sync-stock", schedule=Schedule.rate(timedelta(minutes=15)))
async def sync_stock() -> None:
    """Ask the supplier for its stock."""
    await asyncio.sleep(1)
