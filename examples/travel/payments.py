"""The queue of payments: deposits and refunds, each carried out once."""

from __future__ import annotations

from datetime import date, timedelta

from pydantic import BaseModel, ConfigDict, Field

from examples.travel.bank import Bank, CardDeclined
from headgate import Backoff, Discard, DoNotRetry, JobContext, Priority, Queue, RateLimit, Retry

payments = Queue(
    "payments",
    priorities=[Priority.CRITICAL],
    retry=Retry(max_attempts=5, backoff=Backoff.exponential(base=1, cap=60, jitter="full")),
    rate_limit=RateLimit(20, per=1, scope="fleet"),
)


class Deposit(BaseModel):
    """The money to take for a booking."""

    model_config = ConfigDict(frozen=True)

    booking: str
    card: str
    cents: int = Field(gt=0)


class Cancellation(BaseModel):
    """A booking that its guest has cancelled."""

    model_config = ConfigDict(frozen=True)

    booking: str
    paid_cents: int = Field(ge=0)
    arrival: date
    cancelled_on: date


@payments.job("capture-deposit", once=True, alert_at_once=True, timeout=timedelta(seconds=15))
async def capture_deposit(deposit: Deposit, bank: Bank, ctx: JobContext) -> str:
    """Take a deposit; return the receipt's number."""
    try:
        return await bank.charge(ctx.id, deposit.booking, deposit.card, deposit.cents)
    except CardDeclined as error:
        raise DoNotRetry("the bank declined the card") from error


@payments.job("refund-booking", once=True, alert_at_once=True, timeout=timedelta(seconds=15))
async def refund_booking(cancelled: Cancellation, bank: Bank, ctx: JobContext) -> str:
    """Give back what the terms grant; return the receipt's number."""
    cents = refund_cents(cancelled)
    if not cents:
        raise Discard("cancelled too late for a refund")
    return await bank.refund(ctx.id, cancelled.booking, cents)


_TERMS = ((14, 100), (3, 50))
"""Days before the arrival, and the percentage that a guest gets back who cancels by then."""


def refund_cents(cancelled: Cancellation) -> int:
    """Return what a guest gets back: all until 14 days before, half until 3, then nothing."""
    days = (cancelled.arrival - cancelled.cancelled_on).days
    per_cent = next((share for least, share in _TERMS if days >= least), 0)
    return cancelled.paid_cents * per_cent // 100
