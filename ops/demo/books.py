"""The effects of jobs, as recorded in the shop's books."""

from __future__ import annotations

from examples.shop.store import Store
from headgate.ops.demo.plan import PlannedJob

_EFFECTS = {
    "send-email": "SELECT id FROM messages WHERE kind = 'email' AND id NOT LIKE 'cart-%'",
    "send-notification": "SELECT id FROM messages WHERE kind != 'email'",
    "process-order": "SELECT id FROM orders",
    "capture-payment": "SELECT order_id FROM payments",
}
"""Queries for the keys of booked effects, by job type."""


def read_effects(store: Store) -> dict[str, set[str]]:
    """Return the keys of all booked effects, by job type."""
    return {name: {key for (key,) in store.rows(query)} for name, query in _EFFECTS.items()}


def effect_key(job_id: str, job: PlannedJob) -> str:
    """Return the key of the job's effect in the books: its order's id, or else its own."""
    return str(getattr(job.payload, "order_id", job_id))
