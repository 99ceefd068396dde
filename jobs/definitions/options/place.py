"""A job type's priority and retry policy, which a router's types have once it is included."""

from __future__ import annotations

from headgate.jobs.core.topology import Priority, PriorityName
from headgate.jobs.errors import ConfigurationError
from headgate.jobs.retry.policy import Retry


class Place:
    """A job type's priority and retry policy: its own, or those of its queue.

    Args:
        job_type: the type's name.
        queue: the name of its queue group.
        priority: the type's own; None takes the queue's default.
        retry: the type's own; None takes the queue's.
    """

    def __init__(
        self,
        job_type: str,
        queue: str,
        priority: Priority | PriorityName | None,
        retry: Retry | None,
    ) -> None:
        self._job_type = job_type
        self._queue = queue
        self.wanted = priority
        """The priority that the type asks for."""
        self._own_retry = retry
        self._settled: tuple[Priority, Retry] | None = None

    def __str__(self) -> str:
        return f"{self._queue}/{self._settled[0]}" if self._settled else self._queue

    @property
    def priority(self) -> Priority:
        """The priority of its jobs.

        Raises:
            ConfigurationError: the type is not on a queue yet.
        """
        return self._known()[0]

    @property
    def retry(self) -> Retry:
        """The retry policy of its jobs; raises as `priority` does."""
        return self._known()[1]

    def _known(self) -> tuple[Priority, Retry]:
        if self._settled is None:
            raise ConfigurationError(
                f"the type {self._job_type!r} was declared on a router that is not included in an "
                "app: write app.include(router)"
            )
        return self._settled

    def settle(self, priority: Priority, retry: Retry) -> None:
        """Set priority and retry policy, as the type joins a queue.

        Args:
            priority: the priority of its jobs.
            retry: the queue's policy, for a type without its own.

        Raises:
            ConfigurationError: a queue of another app has set them otherwise.
        """
        settled = (priority, self._own_retry or retry)
        if self._settled not in (None, settled):
            raise ConfigurationError(
                f"the type {self._job_type!r} is in two apps, whose queues {self._queue!r} give it "
                "different priorities or retry policies: write priority= and retry= on the type, "
                "or make a router for each app"
            )
        self._settled = settled
