"""Slows submitters while their spool is being emptied, so that it gets empty.

A submission that goes into the file costs less than a request to SQS. Submitters who are faster
than what sends would fill it, though SQS takes all it is sent. So while jobs of a queue are being
sent, one may come in for every two that leave.
"""

from __future__ import annotations

from headgate.jobs.client.spool.policy import Answer

LONGEST_S = 1.0
"""The longest that a submission is held back."""

_SHARE = 0.5
_MOST = 1_000.0
"""Jobs that may come in at once after a quiet time, and that may have come in too many."""


class Inflow:
    """The jobs of each queue that may come in. Its user guards it, and does the waiting."""

    def __init__(self) -> None:
        self._credit: dict[str, float] = {}
        """By the queues that jobs are being sent from."""

    def admits(self, queue: str) -> bool:
        """True if a job may come in now: always while none are sent, as in an outage."""
        return self._credit.get(queue, 1) > 0

    def came(self, queue: str, jobs: int) -> None:
        """So many have come in."""
        if queue in self._credit:
            self._credit[queue] = max(self._credit[queue] - jobs, -_MOST)

    def noted(self, queue: str, answer: Answer) -> None:
        """So much has become of a queue's jobs. If it fails, nobody has anything to wait for."""
        if answer.error is not None:
            self._credit.pop(queue, None)
        elif answer.sent:
            credit = self._credit.get(queue, 0) + _SHARE * len(answer.sent)
            self._credit[queue] = min(credit, _MOST)

    def ended(self) -> None:
        """Nothing is sent any longer."""
        self._credit.clear()
