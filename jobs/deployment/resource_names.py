"""The names of an app's ECS services and Lambda functions, and the functions of Headgate's own."""

from __future__ import annotations

from headgate.jobs.core.naming import MAX_SCHEDULER_NAME
from headgate.jobs.core.topology import Topology
from headgate.jobs.errors import ConfigurationError

OWN_FUNCTIONS = ("bridge", "sweep", "demand")
"""The names of Headgate's own functions, which no consumer may have."""

FUNCTION_MEMORY_MB = 256
"""Memory of each of Headgate's own functions."""


def worker_service_name(topology: Topology, group: str) -> str:
    """Return the name of a worker group's ECS service: app, stage and name."""
    return _named(topology, group)


def function_name(topology: Topology, name: str) -> str:
    """Return the name of one of the app's Lambda functions: app, stage and name.

    Raises:
        ConfigurationError: it is longer than AWS allows.
    """
    return _named(topology, name)


def output_key(name: str) -> str:
    """Return a name as a part of the key of an output, which may have only letters and digits.

    Names that differ by the hyphen before a digit have the same; `check` refuses such groups.
    """
    return "".join(part.capitalize() for part in name.split("-"))


def _named(topology: Topology, name: str) -> str:
    whole = "-".join(part for part in (topology.app, topology.stage, name) if part)
    if len(whole) > MAX_SCHEDULER_NAME:
        raise ConfigurationError(
            f"the name {whole!r} has {len(whole)} characters; AWS allows {MAX_SCHEDULER_NAME}: "
            "shorten the name of the app, the stage or the group"
        )
    return whole
