"""The price of a night: base, season, weekend and demand; and what a partner has to show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Decimal

from pydantic import BaseModel, ConfigDict, Field

_FRIDAY, _SATURDAY = 4, 5
_STEP = 100
"""Prices are shown in whole units of the currency: 100 cents."""


class Season(BaseModel):
    """A time of the year with prices of its own."""

    model_config = ConfigDict(frozen=True)

    first: date
    last: date
    per_cent: int = Field(gt=0)
    """Of the base price."""


class Rates(BaseModel):
    """A room's prices. The parts multiply, and ``floor_cents`` bounds the product."""

    model_config = ConfigDict(frozen=True)

    base_cents: int = Field(gt=0)
    weekend_per_cent: int = Field(default=100, gt=0)
    """Of Friday's and Saturday's nights."""
    seasons: tuple[Season, ...] = ()
    """The first that includes a night applies."""
    rooms: int = Field(default=1, gt=0)
    """Number of rooms of this kind."""
    scarce_per_cent: int = Field(default=100, gt=0)
    """Of a night with the last tenth of the rooms left, rounded up."""
    floor_cents: int = Field(default=0, ge=0)

    def night(self, night: date, free: int) -> int:
        """Return the price of a night in cents, while ``free`` rooms are left."""
        factors = [self._season(night)]
        if night.weekday() in (_FRIDAY, _SATURDAY):
            factors.append(self.weekend_per_cent)
        if free <= -(-self.rooms // 10):
            factors.append(self.scarce_per_cent)
        cents = Decimal(self.base_cents)
        for per_cent in factors:
            cents = cents * per_cent / 100
        return max(self.floor_cents, whole(cents))

    def _season(self, night: date) -> int:
        found = (each for each in self.seasons if each.first <= night <= each.last)
        return next((each.per_cent for each in found), 100)


def nightly(rates: Rates, free: Mapping[date, int]) -> dict[date, int]:
    """Return the price in cents of each night, for the rooms that are left."""
    return {night: rates.night(night, left) for night, left in sorted(free.items())}


def grossed_up(cents: int, commission_per_cent: int) -> int:
    """Return the price to show, so that ``cents`` remain after a partner's commission.

    Raises:
        ValueError: the commission leaves nothing.
    """
    if not 0 <= commission_per_cent < 100:
        raise ValueError(f"a commission must be 0 to 99 %, got {commission_per_cent}")
    return whole(Decimal(cents) * 100 / (100 - commission_per_cent))


def whole(cents: Decimal) -> int:
    """Round to whole units, half up."""
    return int((cents / _STEP).quantize(Decimal(1), ROUND_HALF_UP)) * _STEP


def stays(prices: Mapping[date, int]) -> list[tuple[date, date, int]]:
    """Return nights of equal price that follow one another: first night, last night, cents.

    Partners take ranges, and a year of one price is one line instead of 365.
    """
    found: list[tuple[date, date, int]] = []
    for night in sorted(prices):
        if found and (night - found[-1][1], prices[night]) == (timedelta(days=1), found[-1][2]):
            found[-1] = (found[-1][0], night, prices[night])
        else:
            found.append((night, night, prices[night]))
    return found


def expanded(ranges: Iterable[tuple[date, date, int]]) -> dict[date, int]:
    """Return the value of each night, from ranges as `stays` makes them."""
    return {
        first + timedelta(days=day): value
        for first, last, value in ranges
        for day in range((last - first).days + 1)
    }
