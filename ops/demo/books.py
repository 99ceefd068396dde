"""What the shop's books say its jobs have done."""

from __future__ import annotations

from examples.shop.store import Store
from headgate.ops.demo.plan import PlannedJob

_EFFECTS = {
    "send-email": "SELECT id FROM messages WHERE kind = 'email' AND id NOT LIKE 'cart-%'",
    "send-notification": "SELECT id FROM messages WHERE kind != 'email'",
    "process-order": "SELECT id FROM orders",
    "capture-payment": "SELECT order_id FROM payments",
}
"""By job type, the keys under which its jobs' effects are booked."""


def read_effects(store: Store) -> dict[str, set[str]]:
    """By job type, the keys of what has been done."""
    return {name: {key for (key,) in store.rows(query)} for name, query in _EFFECTS.items()}


def effect_key(job_id: str, job: PlannedJob) -> str:
    """The key under which the job's effect is booked: its order's id, or else its own."""
    return str(getattr(job.payload, "order_id", job_id))
