"""Charges and their totals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.ops.prices import Price


@light_dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """Billed units of one price in a month."""

    price: Price
    units: float
    job_type: str | None = None
    """The job type that causes it; None: a fixed charge, independent of the jobs."""


@light_dataclass(frozen=True, slots=True, kw_only=True)
class BillItem:
    """A line of the bill."""

    service: str
    what: str
    units: float
    unit: str
    usd: float


class Bill:
    """A month's charges.

    Args:
        charges: the charges of all parts of the system.
        free_tier: leave out units within the free tier. AWS grants it once per account, for all
            stacks together, so this holds where no other stack uses it up.
    """

    def __init__(self, charges: Iterable[Charge], *, free_tier: bool = False) -> None:
        self.charges = [charge for charge in charges if charge.units]
        self.free_tier = free_tier
        self._paid = self._paid_parts() if free_tier else {}

    @property
    def usd(self) -> float:
        """Total in USD."""
        return sum(map(self._usd_of, self.charges))

    @property
    def items(self) -> list[BillItem]:
        """Totals by price, the most expensive first."""
        units: dict[Price, float] = defaultdict(float)
        usd: dict[Price, float] = defaultdict(float)
        for charge in self.charges:
            units[charge.price] += charge.units
            usd[charge.price] += self._usd_of(charge)
        found = [
            BillItem(
                service=price.service,
                what=price.what,
                units=units[price],
                unit=price.unit,
                usd=usd[price],
            )
            for price in units
        ]
        return sorted(found, key=lambda item: -item.usd)

    @property
    def by_service(self) -> Mapping[str, float]:
        """USD by service, the most expensive first."""
        usd: dict[str, float] = defaultdict(float)
        for charge in self.charges:
            usd[charge.price.service] += self._usd_of(charge)
        return dict(sorted(usd.items(), key=lambda each: -each[1]))

    @property
    def by_type(self) -> Mapping[str | None, Mapping[str, float]]:
        """USD by job type and service; the key None holds the fixed charges."""
        usd: dict[str | None, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        for charge in self.charges:
            usd[charge.job_type][charge.price.service] += self._usd_of(charge)
        return usd

    def _usd_of(self, charge: Charge) -> float:
        return charge.price.of(charge.units) * self._paid.get(charge.price, 1.0)

    def _paid_parts(self) -> dict[Price, float]:
        """Return, by price, the fraction of its units beyond the free tier.

        Prices with one allowance have its units together, each the same fraction of its own.
        """
        units: dict[Price | str, float] = defaultdict(float)
        for charge in self.charges:
            units[charge.price.allowance or charge.price] += charge.units
        prices = {charge.price for charge in self.charges}
        return {each: max(0.0, 1 - each.free / units[each.allowance or each]) for each in prices}
