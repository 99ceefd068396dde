"""Calendars, prices and listings reach each partner, whatever happens on the way."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

from examples.travel.channels import (
    Availability,
    ListingUpdate,
    Resync,
    channels,
    jobs_of,
    resync_channels,
    sync_availability,
    sync_listing,
    sync_prices,
)
from examples.travel.inventory import Room
from examples.travel.partners import LocalPartner
from headgate import Backoff, Concurrency, DeadLetterFilter, JobType, RateLimit
from headgate.events import JobDiscarded, JobRetryScheduled
from headgate.testing import Harness

FIRST = date(2027, 6, 1)


def update(version: int, free: int, *, partner: str = "stayhub") -> Availability:
    return Availability(partner=partner, room="suite", version=version, free={FIRST: free})


def test_each_partner_has_limits_of_its_own_across_the_fleet() -> None:
    limits = channels.limits
    assert isinstance(limits.concurrency, Concurrency)
    assert isinstance(limits.rate_limit, RateLimit)
    assert (limits.concurrency.limit, limits.concurrency.scope) == (5, "fleet")
    assert (limits.rate_limit.limit, limits.rate_limit.per) == (100, timedelta(minutes=1))
    assert callable(key := limits.rate_limit.key)
    assert key(update(1, 2)) == "stayhub"
    assert key(Resync(partners=("stayhub",))) is None


def test_a_partner_has_five_attempts_with_full_jitter_from_one_second_to_a_minute() -> None:
    assert channels.retry.max_attempts == 5
    assert channels.retry.backoff == Backoff.exponential(base=1, cap=60, jitter="full")


def test_only_the_nights_that_changed_are_sent(jobs: Harness, partner: LocalPartner) -> None:
    partner.calendar["suite"] = {FIRST: 2, FIRST + timedelta(days=1): 2}
    wanted = {FIRST: 2, FIRST + timedelta(days=1): 1}
    sent = Availability(partner="stayhub", room="suite", version=2, free=wanted)
    handle = jobs.client.submit(sync_availability, sent)
    jobs.drain()
    assert handle.result() == 1
    assert partner.calendar["suite"] == wanted


def test_an_older_state_that_comes_late_changes_nothing(
    jobs: Harness, partner: LocalPartner
) -> None:
    jobs.client.submit_many(sync_availability, [update(3, 0), update(2, 5), update(3, 0)])
    jobs.drain()
    assert partner.calendar["suite"] == {FIRST: 0}
    [discarded] = [event for event in jobs.events if isinstance(event, JobDiscarded)]
    assert discarded.reason == "stayhub has a newer version of suite"


def test_a_price_includes_the_partner_s_commission(
    jobs: Harness, partner: LocalPartner, room: Room
) -> None:
    _, prices, _ = jobs_of("stayhub", room)
    jobs.client.submit(prices)
    jobs.drain()
    assert partner.prices == {"suite": {FIRST: 12_500}}


def test_a_listing_is_cut_and_coded_as_the_partner_wants_it(
    jobs: Harness, partner: LocalPartner, room: Room
) -> None:
    *_, listing = jobs_of("stayhub", room)
    jobs.client.submit(listing)
    jobs.drain()
    assert partner.listings["suite"].title == "A suite with a view…"
    assert partner.listings["suite"].amenities == ("WF",)


def test_a_listing_that_the_partner_refuses_is_dead_at_once_and_says_why(jobs: Harness) -> None:
    bare = ListingUpdate(partner="stayhub", room="suite", version=1, title="Suite")
    jobs.client.submit(sync_listing, bare)
    jobs.drain()
    [letter] = jobs.dead_letters(sync_listing)
    assert letter.attributes["Reason"] == "permanent-error"
    assert "a listing needs a description" in letter.attributes["ErrorMessage"]


def test_a_partner_that_nobody_knows_is_not_looked_for_again(jobs: Harness) -> None:
    jobs.client.submit(sync_availability, update(1, 2, partner="nobody"))
    jobs.drain()
    [letter] = jobs.dead_letters(sync_availability)
    assert (letter.attributes["ErrorType"], letter.attributes["Attempts"]) == (
        "UnknownPartner",
        "1",
    )


def test_a_short_outage_is_ridden_out(jobs: Harness, partner: LocalPartner) -> None:
    partner.is_down = True
    jobs.client.submit(sync_availability, update(1, 2))
    jobs.clock.advance(timedelta(seconds=1))
    outcome = jobs.run(sync_availability, update(1, 2))
    assert type(outcome).__name__ == "Failed"
    partner.is_down = False
    jobs.drain()
    assert len(jobs.completed(sync_availability)) == 1


def test_what_died_of_an_outage_is_replayed_and_the_newest_state_wins(
    jobs: Harness, partner: LocalPartner
) -> None:
    partner.is_down = True
    jobs.client.submit_many(sync_availability, [update(1, 5), update(2, 4)])
    jobs.drain()
    assert len(jobs.dead_lettered(sync_availability)) == 2
    delays = [event.delay_s for event in jobs.events if isinstance(event, JobRetryScheduled)]
    assert len(delays) == 2 * 4

    partner.is_down = False
    jobs.client.submit(sync_availability, update(3, 0))
    jobs.drain()
    outage = DeadLetterFilter(types=("sync-availability",), errors=("503",))
    assert jobs.client.dead_letters.replay(outage).sent == 2
    jobs.drain()
    assert partner.calendar["suite"] == {FIRST: 0}
    assert jobs.dead_letters() == []


def test_every_night_each_partner_gets_every_room(
    jobs: Harness, partner: LocalPartner, room: Room
) -> None:
    jobs.clock.advance(timedelta(hours=3, minutes=30))
    [nightly] = jobs.submitted(resync_channels)
    assert nightly.payload == Resync(partners=("roomfinder", "stayhub"))
    jobs.drain()
    assert partner.calendar == {"suite": room.free}
    synced: list[JobType[Any, Any]] = [sync_availability, sync_prices, sync_listing]
    for job in synced:
        assert [each.payload.partner for each in jobs.completed(job)] == ["roomfinder", "stayhub"]


def test_by_day_the_partner_that_loses_updates_gets_every_room_three_times(jobs: Harness) -> None:
    jobs.clock.advance(timedelta(hours=23))
    wanted = [("roomfinder", "stayhub"), *[("roomfinder",)] * 3]
    assert [each.payload.partners for each in jobs.submitted(resync_channels)] == wanted
