"""Helpers that several rules share."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from headgate.jobs.core.topology import QueueSpec
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.job_type import JobType
from headgate.jobs.definitions.options.job_options import LONGEST_TIMEOUT
from headgate.jobs.deployment.groups.consumer_group import ConsumerGroup
from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from headgate.jobs.errors import ConfigurationError, UnknownQueue


def place_of(job: JobType[Any, Any]) -> str:
    """Return the name of a job type in faults."""
    return f"type {job.name}"


def is_endless(timeout: timedelta) -> bool:
    """Return True for the timeout of a type that has none."""
    return timeout == LONGEST_TIMEOUT


def queues_of(app: App, group: ConsumerGroup | WorkerGroup) -> tuple[QueueSpec, ...]:
    """Return the queues of a group; none if it names one that the app doesn't have."""
    try:
        return group.selection.of(app.topology)
    except (ConfigurationError, UnknownQueue):
        return ()  # `deployment_unfit` reports it
