"""The app of the fixture ``jobs``, on partners, rooms and a bank of each test's own."""

from datetime import date

import pytest

from examples.travel.app import app
from examples.travel.bank import Bank, LocalBank
from examples.travel.inventory import Inventory, LocalInventory, Room
from examples.travel.partners import LocalPartner, Partners, Rules
from examples.travel.pricing import Rates
from headgate import App

FIRST = date(2027, 6, 1)


@pytest.fixture
def headgate_app() -> App:
    return app


@pytest.fixture
def partner() -> LocalPartner:
    rules = Rules(commission_per_cent=20, longest_title=20, amenities={"wifi": "WF"})
    return LocalPartner("stayhub", rules)


@pytest.fixture
def bank() -> LocalBank:
    return LocalBank()


@pytest.fixture
def room() -> Room:
    return Room(
        name="suite",
        hotel="seaview",
        version=1,
        free={FIRST: 2},
        rates=Rates(base_cents=10_000),
        title="A suite with a view of the sea",
        description="Two rooms.",
        amenities=frozenset({"wifi", "balcony"}),
    )


@pytest.fixture
def headgate_resources(partner: LocalPartner, bank: LocalBank, room: Room) -> dict[type, object]:
    return {
        Partners: Partners({"stayhub": partner, "roomfinder": LocalPartner("roomfinder")}),
        Inventory: LocalInventory(room),
        Bank: bank,
    }
