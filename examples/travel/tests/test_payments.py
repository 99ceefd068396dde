"""Deposits and refunds."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from examples.travel.bank import LocalBank, Transfer
from examples.travel.payments import (
    Cancellation,
    Deposit,
    capture_deposit,
    payments,
    refund_booking,
    refund_cents,
)
from headgate import Priority
from headgate.testing import Failed, Harness

DEPOSIT = Deposit(booking="b-1", card="4111", cents=20_000)
ARRIVAL = date(2027, 6, 30)


def cancelled(days_before: int) -> Cancellation:
    on = ARRIVAL - timedelta(days=days_before)
    return Cancellation(booking="b-1", paid_cents=20_001, arrival=ARRIVAL, cancelled_on=on)


def test_payments_start_before_everything_else_and_people_hear_of_dead_ones() -> None:
    assert payments.lanes.keys() == {Priority.CRITICAL}
    assert capture_deposit.alert_at_once
    assert refund_booking.alert_at_once


def test_a_deposit_is_taken_once_however_often_it_is_delivered(
    jobs: Harness, bank: LocalBank
) -> None:
    handle = jobs.client.submit(capture_deposit, DEPOSIT)
    jobs.drain()
    assert handle.result() == "receipt-1"
    assert [*bank.transfers.values()] == [Transfer(booking="b-1", cents=20_000)]


def test_a_bank_that_is_down_is_asked_again(jobs: Harness, bank: LocalBank) -> None:
    bank.is_down = True
    assert isinstance(jobs.run(capture_deposit, DEPOSIT), Failed)
    jobs.client.submit(capture_deposit, DEPOSIT)
    bank.is_down = False
    jobs.drain()
    assert len(bank.transfers) == 1


def test_a_declined_card_is_dead_at_once(jobs: Harness) -> None:
    jobs.client.submit(capture_deposit, DEPOSIT.model_copy(update={"card": "0000"}))
    jobs.drain()
    [letter] = jobs.dead_letters(capture_deposit)
    assert (letter.attributes["Reason"], letter.attributes["Attempts"]) == ("do-not-retry", "1")


@pytest.mark.parametrize(
    ("days_before", "cents"), [(40, 20_001), (14, 20_001), (13, 10_000), (3, 10_000), (2, 0)]
)
def test_a_refund_follows_the_terms(days_before: int, cents: int) -> None:
    assert refund_cents(cancelled(days_before)) == cents


def test_a_refund_is_made_or_discarded(jobs: Harness, bank: LocalBank) -> None:
    early = jobs.client.submit(refund_booking, cancelled(20))
    late = jobs.client.submit(refund_booking, cancelled(1))
    jobs.drain()
    assert (early.state(), late.state()) == ("completed", "discarded")
    assert [each.cents for each in bank.transfers.values()] == [-20_001]
