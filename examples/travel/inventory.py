"""The platform's own rooms: what there is to sell, and at which price."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Protocol

from examples.travel.pricing import Rates


@dataclass(slots=True, kw_only=True)
class Room:
    """A kind of room of one property, as it is now."""

    name: str
    hotel: str
    version: int
    """Increases with every change, so that an older state can be told from a newer one."""
    free: dict[date, int] = field(default_factory=dict)
    """Rooms that are left, by night."""
    rates: Rates
    title: str
    description: str = ""
    amenities: frozenset[str] = frozenset()


class Inventory(Protocol):
    """The rooms of the platform."""

    def rooms(self) -> Mapping[str, Room]:
        """Return all rooms by their names."""
        ...


class LocalInventory:
    """An `Inventory` in this process's memory."""

    def __init__(self, *rooms: Room) -> None:
        self._rooms = {room.name: room for room in rooms}

    def rooms(self) -> Mapping[str, Room]:
        return self._rooms
