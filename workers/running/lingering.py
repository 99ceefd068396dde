"""The time for which settlements wait for others, so that up to ten share a request.

No caller waits for a settlement. Deletes may wait long: the job has ended, and the heartbeat keeps
its message hidden. But a worker that is killed meanwhile leaves the message to be delivered again,
so a delete waits long only if others are about to come, at most nine of a queue at a time.
"""

from __future__ import annotations

from headgate.jobs.core.topology import QueueSpec
from headgate.workers.receiving.demand import Demand

_LINGER_S = 0.01

_PAUSES = 4
"""Number of the lane's pauses (`jobs.core.topology.Lane.gather`) for which a delete waits."""

_COMPANY = 2
"""Number of jobs, its own counted, that have to end in that time for a delete to wait so long."""


class Lingering:
    """The time for which each settlement of a worker waits for others.

    Args:
        demand: knows how many jobs run and end.
    """

    def __init__(self, demand: Demand) -> None:
        self._demand = demand
        self._hurried = False

    def hurry(self) -> None:
        """Let no delete wait long from now on: the worker is stopping."""
        self._hurried = True

    def linger_s(self) -> float:
        """Return the seconds that a settlement waits; 0 if no job runs, so that none could come."""
        return _LINGER_S if self._demand.busy else 0.0

    def deletes_linger_s(self, queue: QueueSpec) -> float:
        """Return the seconds that a delete from a queue waits."""
        gather_s = _PAUSES * queue.gather_s
        may_wait = gather_s and not self._hurried and self._demand.is_calm
        if may_wait and self._demand.ending(gather_s) >= _COMPANY:
            return max(gather_s, _LINGER_S)
        return self.linger_s()
