"""The travel platform on a local AWS, checked: ``python -m examples.travel.demo``."""

from __future__ import annotations

import sys
from datetime import date

from examples.travel import local
from examples.travel.app import app
from examples.travel.channels import jobs_of, resync_channels, sync_availability
from examples.travel.payments import Cancellation, Deposit, capture_deposit, refund_booking
from headgate import DeadLetterFilter
from headgate.ops.demo.trial import Trial, run_trial

_PATIENCE_S = 120  # a machine may be busy


async def story(trial: Trial) -> None:
    await _a_nightly_resync_brings_partners_up_to_date(trial)
    await _a_partner_s_outage_is_replayed(trial)
    await _payments_are_made_once(trial)


async def _a_nightly_resync_brings_partners_up_to_date(trial: Trial) -> None:
    job = await trial.client.schedules.run_now(resync_channels.name)
    trial.check("the nightly schedule submits each room", await job.result(_PATIENCE_S), 12)
    await trial.completed(sync_availability, 4)
    rooms = local.inventory().rooms()
    for partner in (local.roomfinder(), local.stayhub()):
        found = {name: partner.calendar.get(name) for name in rooms}
        wanted = {name: room.free for name, room in rooms.items()}
        trial.check(f"{partner.name} has each room's calendar", found, wanted)


async def _a_partner_s_outage_is_replayed(trial: Trial) -> None:
    partner, room = local.roomfinder(), local.inventory().rooms()["suite"]
    partner.is_down = True
    room.version, room.free[local.FIRST_NIGHT] = 2, 0
    availability, *_ = jobs_of(partner.name, room)
    # All five attempts would take too long to watch.
    lost = await trial.client.submit(sync_availability, availability.payload, max_attempts=2)
    trial.check("an outage uses the attempts up", await lost.wait(_PATIENCE_S), "dead")
    partner.is_down = False
    outage = DeadLetterFilter(types=(sync_availability.name,), errors=("503",))
    report = await trial.client.dead_letters.replay(outage)
    trial.check("its letters are replayed by their error", report.sent, 1)
    await trial.completed(sync_availability, 5)
    trial.check("the partner is up to date", partner.calendar["suite"][local.FIRST_NIGHT], 0)
    left = await trial.client.dead_letters.count()
    trial.check("no letter is left", left.total, 0)


async def _payments_are_made_once(trial: Trial) -> None:
    deposit = Deposit(booking="b-1", card="4111", cents=20_000)
    paid = await trial.client.submit(capture_deposit, deposit)
    trial.check("a deposit has a receipt", await paid.result(_PATIENCE_S), "receipt-1")
    late = Cancellation(
        booking="b-1", paid_cents=20_000, arrival=date(2027, 6, 8), cancelled_on=date(2027, 6, 1)
    )
    refunded = await trial.client.submit(refund_booking, late)
    trial.check(
        "a late guest gets half of it back", await refunded.result(_PATIENCE_S), "receipt-2"
    )
    moved = [each.cents for each in local.bank().transfers.values()]
    trial.check("the bank has both, once", moved, [20_000, -10_000])


def main() -> int:
    """Run the demo; returns the exit code."""
    return run_trial(app, story)


if __name__ == "__main__":
    sys.exit(main())
