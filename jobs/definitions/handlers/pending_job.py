"""The result of a handler's `submit`: a job on its way to SQS."""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRef(Generic[R]):
    """A submitted job's id and type; `Client.handle` makes a handle of the id. ``R`` is the type
    that its handler returns."""

    id: str
    type: str
    is_duplicate: bool = False
    """True if an earlier call submitted the same job; ``id`` is then that job's."""


@runtime_checkable
class Taken(Protocol):
    """A job that SQS has, such as a `jobs.submission.prepare.Submission`."""

    @property
    def id(self) -> str: ...

    @property
    def is_duplicate(self) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingJob(JobRef[R]):
    """A job on its way to SQS, whose id is known at once; awaiting it waits until SQS has the job.

    Awaiting it raises `TransportError` or `PartlySubmitted` if SQS didn't take the job.
    """

    taken: Awaitable[object] = field(repr=False, compare=False)
    """Returns the job as `Taken`, or something else where duplicates aren't told."""

    def __await__(self) -> Generator[Any, Any, JobRef[R]]:
        sent = yield from self.taken.__await__()
        if isinstance(sent, Taken) and sent.is_duplicate:
            return replace(self, id=sent.id, is_duplicate=True)
        return self
