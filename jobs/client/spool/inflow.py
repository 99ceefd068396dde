"""Backpressure on submitters while their spool is drained, so that it gets empty.

Putting a submission into the file costs less than a request to SQS. So submitters could fill the
file faster than it is drained, even though SQS takes every job that it is sent. So while jobs of a
queue are being sent, one may come in for every two that leave.
"""

from __future__ import annotations

from headgate.jobs.client.spool.policy import Answer

LONGEST_S = 1.0
"""Longest delay of a submission, in seconds."""

_SHARE = 0.5
_MOST = 1_000.0
"""Bound of the credit, in jobs, and of the debt: the largest burst after a quiet time."""


class Inflow:
    """A credit of jobs that may come in, for each queue. The user provides locking and waiting."""

    def __init__(self) -> None:
        self._credit: dict[str, float] = {}
        """The credit, by the queues that jobs are being sent from."""

    def admits(self, queue: str) -> bool:
        """Return True if a job may come in now; always while none are sent, as in an outage."""
        return self._credit.get(queue, 1) > 0

    def came(self, queue: str, jobs: int) -> None:
        """Note the jobs that have come in."""
        if queue in self._credit:
            self._credit[queue] = max(self._credit[queue] - jobs, -_MOST)

    def noted(self, queue: str, answer: Answer) -> None:
        """Note the ends of a queue's jobs. After a failure submissions are no longer delayed."""
        if answer.error is not None:
            self._credit.pop(queue, None)
        elif answer.sent:
            credit = self._credit.get(queue, 0) + _SHARE * len(answer.sent)
            self._credit[queue] = min(credit, _MOST)

    def ended(self) -> None:
        """Note that no jobs are being sent any longer."""
        self._credit.clear()
