"""Settlement of one invocation's messages, which Lambda itself deletes.

If SQS doesn't carry out a request in time, the message stays and is delivered again.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable, Sequence

from headgate.jobs.core.batcher import Pacing
from headgate.jobs.core.batching import in_batches
from headgate.jobs.core.events import SettlementFlushed
from headgate.jobs.core.ports.scheduler import AsyncScheduler
from headgate.jobs.core.ports.transport import AsyncTransport, VisibilityChange
from headgate.jobs.errors import TransportError
from headgate.jobs.execution.calling.means import Means
from headgate.jobs.execution.delivery import Delivery
from headgate.jobs.execution.run import Run
from headgate.jobs.execution.settling.delayed_retry import Asked
from headgate.jobs.execution.settling.settler import Settler
from headgate.jobs.values.light_dataclass import light_dataclass
from headgate.jobs.values.own_log import OwnLog

_log = OwnLog("headgate.consume")

_PACING = Pacing(tries=2, patient=False)

_LINGER_S = 0.01

_PARALLEL = 16
"""Maximum number of concurrent requests while a surplus is given back."""


@light_dataclass(frozen=True, slots=True)
class Invocation:
    """The keeper of one invocation's messages: it insists on nothing, since its time is short."""

    ends_at: float | None
    """Deadline on the event loop's time; a request not answered by then has failed."""

    def deletes(self, kept: Run) -> bool:
        """Return False: Lambda deletes."""
        del kept
        return False

    def lost(self, kept: Run) -> bool:
        """Return False: nothing extends a receipt, so none is found to be lost."""
        del kept
        return False

    async def insists(self, kept: Run, refusals: int) -> bool:
        """Return False: the message is delivered again, and settled without running its job."""
        del kept, refusals
        return False

    def waiting(self, kept: Run) -> None:
        """Do nothing: what waits takes no room from others."""

    def deleting(self, kept: Run) -> None:
        """Do nothing: Lambda deletes."""

    async def showing(self, kept: Run) -> None:
        """Do nothing: no heartbeat could undo it."""


def settler_of(
    means: Means,
    transport: AsyncTransport,
    *,
    ends_at: float,
    eager: Callable[[], bool],
    scheduler: AsyncScheduler | None,
    asked: Asked | None,
) -> Settler[Run]:
    """Return the settler of one invocation.

    Args:
        means: the app, its clock and its store.
        transport: sends the requests.
        ends_at: deadline on the event loop's time.
        eager: returns True when nothing else runs, so that batching would only delay requests.
        scheduler: holds jobs that have to wait longer than SQS can; without one they are sent anew.
        asked: tells of cancellations; None: there are none.
    """
    return Settler(
        Invocation(ends_at),
        transport,
        means.app.topology,
        clock=means.clock,
        events=means.events,
        linger_s=lambda: 0.0 if eager() else _LINGER_S,
        rng=random.Random(),  # noqa: S311 - spreads pauses, guards no secret
        pacing=_PACING,
        scheduler=scheduler,
        asked=asked,
        store=means.store,
        keyring=means.keyring,
    )


class Surplus:
    """Gives back messages that have not been started.

    Args:
        means: the clock, and the receiver of an event for each request.
        transport: sends the requests.
        ends_at: deadline on the event loop's time.
    """

    def __init__(self, means: Means, transport: AsyncTransport, *, ends_at: float) -> None:
        self._means = means
        self._transport = transport
        self._ends_at = ends_at
        self._requests = asyncio.Semaphore(_PARALLEL)

    async def give_back(self, unstarted: Sequence[tuple[Delivery, int]]) -> None:
        """Release messages, each with its delay in seconds.

        Messages that there is no time for show again when their visibility timeout ends.
        """
        changes: defaultdict[str, list[VisibilityChange]] = defaultdict(list)
        now = self._means.clock.monotonic()
        for delivery, delay_s in unstarted:
            timeout_s = min(delay_s, delivery.hides_s(now))
            change = VisibilityChange(receipt=delivery.message.receipt, timeout_s=timeout_s)
            changes[delivery.queue.name].append(change)
        failed = await asyncio.gather(
            *(
                self._failures(queue, batch)
                for queue, of_queue in changes.items()
                for batch in in_batches(of_queue, lambda _change: 0)
            )
        )
        if left := sum(failed):
            _log.warning(
                "%d messages that were not started show again only when their visibility timeout "
                "ends: SQS did not take their return in time",
                left,
            )

    async def _failures(self, queue: str, changes: Sequence[VisibilityChange]) -> int:
        """Carry out some changes; return the number of failures."""
        try:
            async with asyncio.timeout_at(self._ends_at), self._requests:
                failures = await self._transport.change_visibility(queue, changes)
        except (TransportError, TimeoutError):
            return len(changes)
        self._means.events.emit(
            SettlementFlushed(
                at=self._means.clock.now(),
                queue=queue,
                action="change_visibility",
                entries=len(changes),
            )
        )
        return len(failures)
