"""Routers: job types of one queue, declared in a module that knows neither the queue nor the app.

router = Router(queue="payments")             # shop/refunds.py

@router.job("refund")
async def refund(order: Order) -> None: ...

app.include(router)                           # shop/app.py
"""

from __future__ import annotations

from typing import Any

from headgate.jobs.core.naming import check_name
from headgate.jobs.definitions.declares import Declares
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.definitions.queue import DEFAULT_QUEUE, Queue, duplicate
from headgate.jobs.errors import ConfigurationError


class Router(Declares):
    """Job types that join a queue of an app when the router is included; see `App.include`.

    A queue may have several routers. Types that are declared after the inclusion join at once. A
    router may be included in several apps if their queues give its types the same priorities and
    retry policies.

    Args:
        queue: the name of the queue group; by default the app's default one.

    Raises:
        ConfigurationError: ``queue`` is not a valid name.
    """

    def __init__(self, queue: str = DEFAULT_QUEUE) -> None:
        self.queue = _checked_name(queue)
        self._types: dict[str, JobType[Any, Any]] = {}
        self._joined: list[Queue] = []

    def __repr__(self) -> str:
        return f"<Router for {self.queue}: {', '.join(self._types) or 'no job types'}>"

    @property
    def _queue_name(self) -> str:
        return self.queue

    def _adopt(self, declared: JobType[Any, Any]) -> None:
        if (other := self._types.get(declared.name)) is not None:
            raise duplicate(other, declared)
        for queue in self._joined:
            queue.adopt(declared)
        self._types[declared.name] = declared

    def join(self, queue: Queue) -> None:
        """Add this router's types, present and future, to a queue.

        Raises:
            ConfigurationError: it is part of that queue already, or a type doesn't fit the queue.
            DuplicateJobType: the queue or its app has a type with the name of one of them.
        """
        if queue in self._joined:
            raise ConfigurationError(f"{self!r} is included twice: once is enough")
        for declared in self._types.values():
            queue.adopt(declared)
        self._joined.append(queue)


def _checked_name(queue: object) -> str:
    if isinstance(queue, Queue):
        raise ConfigurationError(
            f"Router(queue=...) takes the name of a queue, got {queue!r}, on which types are "
            f"declared directly: write @{queue.name}.job(...), or Router(queue={queue.name!r})"
        )
    return check_name("the router's queue", queue)
