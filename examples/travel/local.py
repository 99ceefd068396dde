"""The stand-ins of this process: two partners, a bank and two rooms."""

from __future__ import annotations

from datetime import date, timedelta
from functools import cache

from examples.travel.bank import LocalBank
from examples.travel.inventory import LocalInventory, Room
from examples.travel.partners import LocalPartner, Partners, Rules
from examples.travel.pricing import Rates, Season

FIRST_NIGHT = date(2027, 6, 1)


@cache
def roomfinder() -> LocalPartner:
    """Return a partner with codes for two amenities."""
    return LocalPartner("roomfinder", Rules(amenities={"wifi": "WF", "pool": "PL"}))


@cache
def stayhub() -> LocalPartner:
    """Return a partner that takes 20 %, and short titles."""
    return LocalPartner("stayhub", Rules(commission_per_cent=20, longest_title=24))


@cache
def partners() -> Partners:
    """Return both partners."""
    return Partners({"roomfinder": roomfinder(), "stayhub": stayhub()})


@cache
def bank() -> LocalBank:
    """Return the bank."""
    return LocalBank()


@cache
def inventory() -> LocalInventory:
    """Return two rooms of one hotel, for thirty nights."""
    return LocalInventory(_room("double", 12, 12_000), _room("suite", 3, 30_000))


def _room(name: str, rooms: int, base_cents: int) -> Room:
    summer = Season(first=date(2027, 6, 15), last=date(2027, 9, 15), per_cent=130)
    return Room(
        name=name,
        hotel="seaview",
        version=1,
        free={FIRST_NIGHT + timedelta(days=day): rooms for day in range(30)},
        rates=Rates(
            base_cents=base_cents,
            weekend_per_cent=120,
            seasons=(summer,),
            rooms=rooms,
            scarce_per_cent=110,
        ),
        title=f"Bright {name} with a view of the sea",
        description="Two minutes from the beach.",
        amenities=frozenset({"wifi", "balcony"}),
    )
