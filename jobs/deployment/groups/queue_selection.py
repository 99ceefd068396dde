"""The queues that a group serves."""

from __future__ import annotations

from headgate.jobs.core.topology import Priority, QueueSpec, Topology
from headgate.jobs.errors import ConfigurationError
from headgate.jobs.values.light_dataclass import frozen_dataclass


@frozen_dataclass(frozen=True, slots=True, kw_only=True)
class QueueSelection:
    """A selection of queues by group and priority: those that match both."""

    queues: tuple[str, ...] | None = None
    """The queue groups; None: all of the app's."""
    priorities: tuple[Priority, ...] | None = None
    """The priorities within these groups; None: all that they have."""

    def of(self, topology: Topology) -> tuple[QueueSpec, ...]:
        """Return the selected queues of a topology.

        Raises:
            UnknownQueue: a group is not one of the app's.
            ConfigurationError: no queue matches both, or the app has none at all.
        """
        found = tuple(
            spec
            for spec in topology.select(self.queues)
            if self.priorities is None or spec.priority in self.priorities
        )
        if not topology.queues:
            raise ConfigurationError(
                f"the app {topology.app!r} has no queue to work on: declare job types, or import "
                "the modules that do"
            )
        if not found:
            raise ConfigurationError(
                f"none of the queues {', '.join(self.queues or topology.groups)} has the priority "
                f"{' or '.join(self.priorities or ())}"
            )
        return found
