"""The tenant of a job, as submissions and messages name it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic_core import CoreSchema, core_schema

from headgate.jobs.values.light_dataclass import frozen_dataclass


class _GroupId:
    """The length of SQS's MessageGroupId. ``Field`` would take a sixth of the import of an app."""

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, _handler: Any) -> CoreSchema:
        return core_schema.str_schema(min_length=1, max_length=128)


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """The owner of a job: SQS's fair queues keep one tenant's flood from delaying other tenants."""

    org: Annotated[str, _GroupId]
    """Limited to the length of SQS's MessageGroupId."""
    workspace: str | None = None
