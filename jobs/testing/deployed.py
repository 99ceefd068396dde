"""The schedules that a deployment would have made, and the isolation that no test's process has."""

from __future__ import annotations

from headgate.jobs.definitions.app import App
from headgate.jobs.errors import ConfigurationError
from headgate.jobs.schedules.declared_schedules import declared_schedules
from headgate.jobs.testing.memory.scheduler import MemoryScheduler


def deploy_schedules(app: App, scheduler: MemoryScheduler) -> None:
    """Have a scheduler hold the schedules of the types declared by now.

    Raises:
        ConfigurationError, PayloadInvalid: one is wrong; see `declared_schedules`.
    """
    for schedule in declared_schedules(app):
        scheduler.deploy(schedule)


def allows_isolation(isolation: str | None) -> bool:
    """Return True if a harness runs handlers in the test's process that are isolated elsewhere.

    Raises:
        ConfigurationError: the harness was given something else than ``"worker"`` or None.
    """
    if isolation not in (None, "worker"):
        raise ConfigurationError(
            f"Harness(isolation={isolation!r}): a harness has no child processes: write "
            "isolation='worker' to run such handlers in the test's own process"
        )
    return isolation == "worker"


def check_isolation(app: App, job_type: str, *, allowed: bool) -> None:
    """Refuse a handler that runs in a process of its own, unless it is allowed here.

    Raises:
        ConfigurationError: the type is declared with ``isolation="process"``.
    """
    declared = app.types.get(job_type)
    if declared is not None and declared.isolation == "process" and not allowed:
        raise ConfigurationError(
            f"the type {job_type!r} has isolation='process', and a harness runs handlers in the "
            "test's own process, which one that crashes would end: write Harness(app, "
            "isolation='worker') to run it there all the same, and a fixture `jobs` of your own "
            "that returns it, or try it under headgate dev, which has child processes"
        )
