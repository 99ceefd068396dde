"""Names and ARNs of AWS resources."""

from __future__ import annotations

_FIFO = ".fifo"
_ARN = "arn:"


def is_fifo(queue: str) -> bool:
    """Return True for the name or ARN of a FIFO queue, which ends with ``.fifo``."""
    return queue.endswith(_FIFO)


def bare_name(resource: str) -> str:
    """Return the name of a queue, table or bucket by its name or ARN."""
    return resource.rpartition(":")[2].removeprefix("table/") if is_arn(resource) else resource


def is_arn(resource: str) -> bool:
    """Return True for an ARN."""
    return resource.startswith(_ARN)


def owner_of(resource: str) -> str | None:
    """Return the account of an ARN; None for a name, of what is in the caller's account."""
    return resource.split(":")[4] or None if is_arn(resource) else None


def region_of(resource: str) -> str | None:
    """Return the region of an ARN; None for a name, or for a bucket, whose ARN has none."""
    return resource.split(":")[3] or None if is_arn(resource) else None
