"""The travel platform's app: ``headgate dev examples.travel.app:app``.

Queues and job types are declared in modules of their own, which know nothing of the app.
"""

from __future__ import annotations

from collections.abc import Iterator

from examples.travel import local
from examples.travel.bank import Bank
from examples.travel.channels import channels
from examples.travel.inventory import Inventory
from examples.travel.partners import Partners
from examples.travel.payments import payments
from headgate import App

app = App("travel")
app.include(channels, payments)


@app.resource
def partners() -> Iterator[Partners]:
    yield local.partners()


@app.resource
def inventory() -> Iterator[Inventory]:
    yield local.inventory()


@app.resource
def bank() -> Iterator[Bank]:
    yield local.bank()
