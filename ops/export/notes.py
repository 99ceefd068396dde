"""Remarks on what an export leaves out, or leaves to whoever deploys it."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.jobs.definitions.app import App
from headgate.jobs.deployment.deployment import Deployment
from headgate.ops.export.target import Target


def worker_notes(target: Target) -> Iterator[str]:
    """Yield notes about exported workers: functions that run jobs, and secrets."""
    yield from _consumers(target.deployment)
    for group in target.groups:
        for name, source in target.secrets(group).items():
            yield f"{target.service(group)} needs {name}, which ECS would read from {source}."


def systemd_notes(target: Target) -> Iterator[str]:
    """Yield notes about exported units, which run workers alone."""
    yield from worker_notes(target)
    for group in target.groups:
        if group.sidecars:
            names = ", ".join(each.name for each in group.sidecars)
            yield f"Left out: sidecars of {target.service(group)} ({names}), which are containers."


def infrastructure_notes(app: App, deployment: Deployment) -> Iterator[str]:
    """Yield notes about exported queues and functions: what CDK alone deploys, and the key."""
    yield "Left out: workers, the console, alarms, the dashboard and the budget."
    yield from _consumers(deployment)
    if app.signing is not None and app.signing.secret is None:
        name = app.topology.signing_secret_name
        yield f"In Terraform the secret {name} is made without a value: put a random one there."


def _consumers(deployment: Deployment) -> Iterator[str]:
    if deployment.consumers:
        names = ", ".join(each.name for each in deployment.consumers)
        yield f"Left out: functions that run jobs ({names}), which CDK alone deploys."
