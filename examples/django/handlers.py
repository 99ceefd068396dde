"""The handlers, which only workers import."""

from __future__ import annotations

from examples.django.jobs import Confirmation, app, confirm
from headgate.contrib.django import manage_connections

manage_connections(app)


@confirm.handler
def _(confirmation: Confirmation) -> str:
    return f"order {confirmation.order} is confirmed"
