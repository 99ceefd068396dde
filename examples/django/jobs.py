"""The contracts of the jobs, which web processes and workers import."""

from __future__ import annotations

from pydantic import BaseModel

from headgate import App
from headgate.contrib.django.tasks import task_router

app = App(
    "bookshop",
    handlers=["headgate.contrib.django.setup", "examples.django.handlers"],
)
app.include(task_router(other_priorities=["high"]))


class Confirmation(BaseModel):
    """The payload: an order to confirm."""

    order: int


confirm = app.define("confirm-order", Confirmation, returns=str)
