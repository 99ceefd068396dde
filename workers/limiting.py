"""What may start now, by the limits of the app, its queues and its types."""

from __future__ import annotations

from jobs.delivery import Job
from jobs.outcome import Outcome
from jobs.settlement import RetryAfter


class Gate:
    """Open, as long as no limit is enforced."""

    def block(self, job: Job) -> None:
        """Nothing holds it back."""

    def start(self, job: Job) -> object:
        """It starts."""
        return job

    def end(self, ticket: object, outcome: Outcome, *, retryable: bool) -> None:
        """It has ended."""

    def retry(self, job: Job, action: RetryAfter) -> RetryAfter:  # noqa: ARG002 - the interface
        """What becomes of its retry."""
        return action
