"""The tenant of a job, as submissions and messages name it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """The owner of a job: SQS's fair queues keep one tenant's flood from delaying other tenants."""

    org: Annotated[str, Field(min_length=1, max_length=128)]
    """Limited to the length of SQS's MessageGroupId."""
    workspace: str | None = None
