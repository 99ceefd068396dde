"""The queue of channel jobs: calendars, prices and listings, kept in step with each partner."""

from __future__ import annotations

from datetime import date, timedelta

from pydantic import BaseModel, ConfigDict, Field

from examples.travel.inventory import Inventory, Room
from examples.travel.partners import Listing, Partner, Partners, Rules, UnknownPartner
from examples.travel.pricing import Rates, grossed_up, nightly, stays
from headgate import (
    Backoff,
    Concurrency,
    Discard,
    JobContext,
    NewJob,
    Priority,
    Queue,
    RateLimit,
    Retry,
    cron,
)


class Update(BaseModel):
    """A room's state at a version, for one partner."""

    model_config = ConfigDict(frozen=True)

    partner: str
    room: str
    version: int = Field(ge=1)


class Availability(Update):
    """The rooms that are left, by night."""

    free: dict[date, int]


class Prices(Update):
    """A room's rates, and the rooms left by night, on which they depend."""

    rates: Rates
    free: dict[date, int]


class ListingUpdate(Update):
    """A room's texts and amenities."""

    title: str
    description: str = ""
    amenities: frozenset[str] = frozenset()


class Resync(BaseModel):
    """The partners to send everything to."""

    partners: tuple[str, ...]


def by_partner(payload: Update | Resync) -> str | None:
    """Return the partner by which limits count; None for jobs that call no partner."""
    return payload.partner if isinstance(payload, Update) else None


channels = Queue(
    "channels",
    priorities=[Priority.HIGH, Priority.NORMAL, Priority.LOW],
    retry=Retry(
        max_attempts=5,
        backoff=Backoff.exponential(base=1, cap=60, jitter="full"),
        never_on=(UnknownPartner,),
    ),
    # Each partner counts all calls of the platform, whichever worker makes them.
    concurrency=Concurrency(5, key=by_partner, scope="fleet"),
    rate_limit=RateLimit(100, per=60, key=by_partner, scope="fleet"),
)


@channels.job("sync-availability", priority=Priority.HIGH, timeout=timedelta(seconds=30))
async def sync_availability(update: Availability, partners: Partners) -> int:
    """Send the nights that differ from what the partner has; return how many do."""
    partner = partners.find(update.partner)
    await _refuse_stale(partner, update, "free")
    known = await partner.free(update.room)
    changed = {night: left for night, left in update.free.items() if known.get(night) != left}
    if changed:
        await partner.put_free(update.room, update.version, stays(changed))
    return len(changed)


@channels.job("sync-prices", priority=Priority.NORMAL, timeout=timedelta(seconds=30))
async def sync_prices(update: Prices, partners: Partners) -> int:
    """Send the price of each night, as the partner has to show it; return how many ranges."""
    partner = partners.find(update.partner)
    await _refuse_stale(partner, update, "prices")
    shown = {
        night: grossed_up(cents, partner.rules.commission_per_cent)
        for night, cents in nightly(update.rates, update.free).items()
    }
    ranges = stays(shown)
    await partner.put_prices(update.room, update.version, ranges)
    return len(ranges)


@channels.job("sync-listing", priority=Priority.LOW, timeout=timedelta(minutes=1))
async def sync_listing(update: ListingUpdate, partners: Partners, ctx: JobContext) -> None:
    """Send a room's texts, cut and coded as the partner wants them."""
    partner = partners.find(update.partner)
    await _refuse_stale(partner, update, "listing")
    if unknown := update.amenities - partner.rules.amenities.keys():
        ctx.log.warning("%s has no code for %s", update.partner, ", ".join(sorted(unknown)))
    await partner.put_listing(update.room, update.version, fitted(update, partner.rules))


@channels.job(
    "resync-channels",
    priority=Priority.LOW,
    timeout=timedelta(minutes=5),
    schedule=cron("30 3 * * ? *"),
    schedule_payload=Resync(partners=("roomfinder", "stayhub")),
)
async def resync_channels(resync: Resync, inventory: Inventory, ctx: JobContext) -> int:
    """Submit every room anew, for what was lost on a partner's side; return how many jobs."""
    rooms = [*inventory.rooms().values()]
    pairs = [(partner, room) for partner in resync.partners for room in rooms]
    for done, (partner, room) in enumerate(pairs, start=1):
        for job in jobs_of(partner, room):
            await ctx.submit(job)
        await ctx.progress(100 * done / len(pairs), f"{partner}: {room.name}")
    return 3 * len(pairs)


# Its feed has lost updates before: by day it gets every room again every six hours.
resync_channels.add_schedule(
    "roomfinder", Resync(partners=("roomfinder",)), schedule=cron("0 6,12,18 * * ? *")
)


def jobs_of(partner: str, room: Room) -> tuple[NewJob[int], NewJob[int], NewJob[None]]:
    """Return the jobs that bring one partner up to date with one room."""
    free = dict(room.free)
    availability = Availability(partner=partner, room=room.name, version=room.version, free=free)
    prices = Prices(
        partner=partner, room=room.name, version=room.version, rates=room.rates, free=free
    )
    listing = ListingUpdate(
        partner=partner,
        room=room.name,
        version=room.version,
        title=room.title,
        description=room.description,
        amenities=room.amenities,
    )
    return (
        sync_availability.new(availability, tenant=room.hotel),
        sync_prices.new(prices, tenant=room.hotel),
        sync_listing.new(listing, tenant=room.hotel),
    )


def fitted(update: ListingUpdate, rules: Rules) -> Listing:
    """Return a room's texts as a partner takes them: the title cut between words."""
    title = update.title
    if len(title) > rules.longest_title:
        title = title[: rules.longest_title].rsplit(" ", 1)[0] + "…"
    codes = sorted(rules.amenities[name] for name in update.amenities & rules.amenities.keys())
    return Listing(title=title, description=update.description, amenities=tuple(codes))


async def _refuse_stale(partner: Partner, update: Update, part: str) -> None:
    if await partner.version(update.room, part) > update.version:
        raise Discard(f"{update.partner} has a newer version of {update.room}")
