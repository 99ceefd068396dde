"""The price of a night, and nights of one price as ranges."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from examples.travel.pricing import Rates, Season, expanded, grossed_up, nightly, stays

TUESDAY, FRIDAY = date(2027, 6, 1), date(2027, 6, 4)
SUMMER = Season(first=date(2027, 6, 3), last=date(2027, 8, 31), per_cent=150)


def test_season_weekend_and_scarcity_multiply() -> None:
    rates = Rates(
        base_cents=10_000,
        weekend_per_cent=120,
        seasons=(SUMMER,),
        rooms=20,
        scarce_per_cent=110,
    )
    assert rates.night(TUESDAY, free=20) == 10_000
    assert rates.night(TUESDAY, free=2) == 11_000
    assert rates.night(FRIDAY, free=20) == 18_000
    assert rates.night(FRIDAY, free=2) == 19_800


def test_a_price_is_whole_and_never_below_its_floor() -> None:
    assert Rates(base_cents=9_950).night(TUESDAY, free=9) == 10_000
    assert Rates(base_cents=5_000, floor_cents=8_000).night(TUESDAY, free=9) == 8_000


@pytest.mark.parametrize(("commission", "shown"), [(0, 10_000), (20, 12_500), (15, 11_800)])
def test_a_shown_price_leaves_the_platform_s_own_after_the_commission(
    commission: int, shown: int
) -> None:
    assert grossed_up(10_000, commission) == shown


def test_a_commission_of_everything_is_refused() -> None:
    with pytest.raises(ValueError, match="0 to 99 %"):
        grossed_up(10_000, 100)


def test_nights_of_one_price_become_ranges_and_ranges_nights_again() -> None:
    free = {TUESDAY + timedelta(days=day): 5 for day in range(7)}
    prices = nightly(Rates(base_cents=10_000, weekend_per_cent=150, rooms=5), free)
    saturday = FRIDAY + timedelta(days=1)
    assert stays(prices) == [
        (TUESDAY, date(2027, 6, 3), 10_000),
        (FRIDAY, saturday, 15_000),
        (date(2027, 6, 6), date(2027, 6, 7), 10_000),
    ]
    assert expanded(stays(prices)) == prices


def test_a_gap_ends_a_range() -> None:
    assert stays({TUESDAY: 1, FRIDAY: 1}) == [(TUESDAY, TUESDAY, 1), (FRIDAY, FRIDAY, 1)]
