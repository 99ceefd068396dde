"""The key that equal submissions share, and the claim on it."""

from __future__ import annotations

import hashlib
from typing import Any

from headgate.jobs.core.naming import UNIQUE
from headgate.jobs.core.ports.table import Item
from headgate.jobs.core.tenant import Tenant
from headgate.jobs.definitions.options.uniqueness import Kept, Unique, UniqueKey
from headgate.jobs.errors import OptionInvalid
from headgate.jobs.messages.envelope import UniqueBy, UniqueMode
from headgate.jobs.submission.set_order import canonical

_MODES: dict[Kept, UniqueMode] = {"first": "first", "last": "replace"}
"""The values of ``keep`` as messages have them."""


def unique_by(
    unique: Unique, job_type: str, payload: Any, dumped: Any, tenant: Tenant | None
) -> UniqueBy:
    """Return the uniqueness of a job as its message has it.

    Args:
        unique: the option.
        job_type: the type's name.
        payload: the payload as submitted.
        dumped: the payload as JSON values, with its sets in order.
        tenant: the job's tenant.

    Raises:
        OptionInvalid: the function for keys didn't return a non-empty text.
    """
    mode = _MODES[unique.keep]
    parts = [job_type, tenant.org if tenant else None, *_sameness(unique.key, payload, dumped)]
    return UniqueBy(
        key=hashlib.sha256(canonical([mode, *parts])).hexdigest()[:40],
        for_s=unique.within.total_seconds(),
        mode=mode,
    )


def _sameness(key: UniqueKey | None, payload: Any, dumped: Any) -> list[Any]:
    if key is None:
        return ["payload", dumped]
    found: Any = key(payload) if callable(key) else key
    if not isinstance(found, str) or not found:
        raise OptionInvalid(
            f"the function Unique(key=...) must return a non-empty string, got {found!r}"
        )
    return ["key", found]


def place(by: UniqueBy) -> Item:
    """Return the table item, without data, that holds the claim on a key."""
    return Item(pk=f"{UNIQUE}{by.key}", sk="claim")
