"""The tenant of a job, as submissions and messages name it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """Whose job it is: SQS's fair queues keep one organisation's flood from delaying others."""

    org: Annotated[str, Field(min_length=1, max_length=128)]
    """Limited to the length of SQS's MessageGroupId."""
    workspace: str | None = None
