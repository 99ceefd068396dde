"""Batches: jobs that were submitted one by one, and are run by one call of their handler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY
from datetime import timedelta
from typing import Any, Literal

from headgate.jobs.core.tenant import Tenant
from headgate.jobs.errors import ConfigurationError, SettingsInvalid
from headgate.jobs.values.durations import DurationField
from headgate.jobs.values.kinds import check_kind
from headgate.jobs.values.light_dataclass import frozen_dataclass

MOST_JOBS = 1_000
"""The most jobs that one call may take. A worker holds them all, and its heartbeat extends them."""

LONGEST_WAIT = timedelta(minutes=5)
"""The longest time for which a job may be held for others to join it."""

BatchGroup = Literal["tenant"] | Callable[[Any], str] | None
"""The property that the jobs of one call share: ``"tenant"`` is the organisation that they were
submitted for, a function gets the payload. None (the default) puts all jobs of a type together."""


@frozen_dataclass(frozen=True)
class Batch:
    """Up to ``size`` jobs in one call: ``Batch(size=100, wait=timedelta(seconds=2))``.

    The first job of a batch waits for others for up to ``wait``, seconds or a timedelta, and no
    longer; a full batch waits no more. With ``wait=0`` a call takes the jobs that are there.

    With ``group_by`` a call gets jobs of one group only: of one tenant, or of one value that a
    function makes of the payload: ``Batch(size=50, group_by=lambda webhook: webhook.endpoint)``.

    Raises:
        SettingsInvalid: a value is out of range.
    """

    size: int
    _: KW_ONLY
    wait: DurationField = DurationField(1)
    group_by: BatchGroup = None

    def __post_init__(self) -> None:
        size: object = self.size
        if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= MOST_JOBS:
            raise SettingsInvalid(f"Batch(size=...) must lie between 1 and {MOST_JOBS}, got {size}")
        if self.wait > LONGEST_WAIT:
            raise SettingsInvalid(f"Batch(wait=...) is {LONGEST_WAIT} at most, got {self.wait}")
        if self.group_by not in (None, "tenant") and not callable(self.group_by):
            raise SettingsInvalid(
                'Batch(group_by=...) takes "tenant", or a function of the payload, got '
                f"{self.group_by!r}"
            )

    @property
    def reads_payloads(self) -> bool:
        """True if a job's payload decides which jobs run together with it."""
        return callable(self.group_by)

    def group_of(self, payload: Any, tenant: Tenant | None) -> str | None:
        """Return the group of a job, or None if all jobs go together.

        Raises:
            Exception: whatever the ``group_by`` function raises.
        """
        if self.group_by is None:
            return None
        if isinstance(self.group_by, str):
            return tenant.org if tenant is not None else ""
        return str(self.group_by(payload))


def check_batch(
    job_type: str, batch: Batch | None, payload: object, isolation: str
) -> Batch | None:
    """Return a type's batch, checked against its other options.

    Args:
        job_type: the type's name.
        batch: the batch, if it has one.
        payload: the type of its payload; None if it has none.
        isolation: its isolation.

    Raises:
        ConfigurationError: ``batch`` is not a `Batch`, or its jobs can't run in batches.
    """
    if batch is None:
        return None
    where = f"the type {job_type!r}"
    check_kind(f"{where}: batch", batch, Batch)
    if payload is None:
        raise ConfigurationError(
            f"{where} has no payload, so that a batch would be a list of nothing: leave out batch="
        )
    if isolation == "process":
        raise ConfigurationError(
            f"{where} has isolation='process', where each job has a process of its own, and "
            "batch=, where many share a call: leave out one of them"
        )
    return batch
