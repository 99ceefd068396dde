"""The interface between a settler (`jobs.execution.settling.settler`) and its messages' host."""

from __future__ import annotations

from typing import Protocol, TypeVar

from headgate.jobs.execution.delivery import Delivery


class Kept(Protocol):
    """A message that a worker or a function keeps until it is settled."""

    @property
    def delivery(self) -> Delivery:
        """The message, as received."""
        ...


_K_contra = TypeVar("_K_contra", bound=Kept, contravariant=True)


class Keeper(Protocol[_K_contra]):
    """The keeper of the messages that are settled: `workers.running.settler.HoldSettler`, or
    `lambdas.settling.Invocation`."""

    def deletes(self, kept: _K_contra) -> bool:
        """Return False if a settled message is deleted elsewhere, as by Lambda, or is gone."""
        ...

    @property
    def ends_at(self) -> float | None:
        """Deadline on the event loop's time; a request not answered by then has failed."""
        ...

    def lost(self, kept: _K_contra) -> bool:
        """Return True if a message's receipt is lost, so that another worker may have it."""
        ...

    async def insists(self, kept: _K_contra, refusals: int) -> bool:
        """Return True, possibly after a pause, if a request should be tried again.

        Args:
            kept: the message.
            refusals: the number of times that this request has failed.
        """
        ...

    def waiting(self, kept: _K_contra) -> None:
        """Note that a job of a bundle waits until the others have ended, too."""
        ...

    def deleting(self, kept: _K_contra) -> None:
        """Note that a message is about to be deleted."""
        ...

    async def showing(self, kept: _K_contra) -> None:
        """Note that a message's visibility is about to be set for the last time; wait for
        requests that would undo that."""
        ...
