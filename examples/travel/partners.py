"""Booking partners as the platform sees them, and one in memory that can be taken down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from http import HTTPStatus
from typing import Protocol

from examples.travel.pricing import expanded

Range = tuple[date, date, int]
"""The first night, the last night, and the value of each."""


class UnknownPartner(LookupError):
    """No partner has that name, and another attempt won't find one."""


class PartnerError(Exception):
    """A partner answered with an error; its status tells whether another attempt may help."""

    def __init__(self, partner: str, status: HTTPStatus, reason: str) -> None:
        self.status_code = status
        super().__init__(f"{partner} answered {status.value}: {reason}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """A partner's rules for its listings, and its share of a booking."""

    commission_per_cent: int = 15
    longest_title: int = 60
    amenities: Mapping[str, str] = field(default_factory=dict)
    """Its own code of each amenity that it knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A room as a partner shows it."""

    title: str
    description: str
    amenities: tuple[str, ...]


class Partner(Protocol):
    """The calls that the platform makes. Each may raise a `PartnerError`.

    A partner keeps the version of what it has, so that jobs may come late, twice and in any order.
    """

    rules: Rules

    async def version(self, room: str, part: str) -> int:
        """Return the version of one part of a room (its calendar, its prices...); 0 for none."""
        ...

    async def free(self, room: str) -> Mapping[date, int]:
        """Return the rooms that it has to sell, by night."""
        ...

    async def put_free(self, room: str, version: int, changes: Sequence[Range]) -> None: ...

    async def put_prices(self, room: str, version: int, prices: Sequence[Range]) -> None: ...

    async def put_listing(self, room: str, version: int, listing: Listing) -> None: ...


class Partners:
    """The partners by name."""

    def __init__(self, known: Mapping[str, Partner]) -> None:
        self._known = known

    def find(self, name: str) -> Partner:
        """Return a partner.

        Raises:
            UnknownPartner: none has that name.
        """
        if name not in self._known:
            raise UnknownPartner(f"{name!r} is not one of {', '.join(sorted(self._known))}")
        return self._known[name]


class LocalPartner:
    """A `Partner` in this process's memory, whose service can be taken down."""

    def __init__(self, name: str, rules: Rules | None = None) -> None:
        self.name = name
        self.rules = rules or Rules()
        self.is_down = False
        self.calls = 0
        self.calendar: dict[str, dict[date, int]] = {}
        self.prices: dict[str, dict[date, int]] = {}
        self.listings: dict[str, Listing] = {}
        self._versions: dict[tuple[str, str], int] = {}

    async def version(self, room: str, part: str) -> int:
        self._answer()
        return self._versions.get((room, part), 0)

    async def free(self, room: str) -> Mapping[date, int]:
        self._answer()
        return dict(self.calendar.get(room, {}))

    async def put_free(self, room: str, version: int, changes: Sequence[Range]) -> None:
        self._take(room, "free", version)
        self.calendar.setdefault(room, {}).update(expanded(changes))

    async def put_prices(self, room: str, version: int, prices: Sequence[Range]) -> None:
        self._take(room, "prices", version)
        self.prices[room] = expanded(prices)

    async def put_listing(self, room: str, version: int, listing: Listing) -> None:
        if not listing.description:
            self._refuse(HTTPStatus.UNPROCESSABLE_ENTITY, "a listing needs a description")
        self._take(room, "listing", version)
        self.listings[room] = listing

    def _take(self, room: str, part: str, version: int) -> None:
        self._answer()
        if version < self._versions.get((room, part), 0):
            self._refuse(HTTPStatus.CONFLICT, "there is a newer version")
        self._versions[room, part] = version

    def _answer(self) -> None:
        self.calls += 1
        if self.is_down:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "down for maintenance")

    def _refuse(self, status: HTTPStatus, reason: str) -> None:
        raise PartnerError(self.name, status, reason)
