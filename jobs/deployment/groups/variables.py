"""Environment variables that the deployment sets where an app's jobs run."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.jobs.definitions.app import App
from headgate.jobs.deployment.groups.consumer_group import ConsumerGroup


def app_variables(app: App, *, bucket: str, account: str) -> dict[str, str]:
    """Return the environment variables that the app reads wherever its jobs run."""
    found = {
        "HEADGATE_STAGE": app.stage,
        # Both would otherwise take a request to STS, which the workers' own network doesn't reach.
        "HEADGATE_BUCKET": bucket,
        "HEADGATE_ACCOUNT": account,
        "HEADGATE_EXISTING": app.existing.to_text() if app.existing else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def function_variables(
    group: ConsumerGroup, name: str, environment: Mapping[str, str]
) -> dict[str, str]:
    """Return all variables of a group's function.

    Args:
        group: the group.
        name: the function's name.
        environment: those of the app and of the deployment.
    """
    return {
        "POWERTOOLS_SERVICE_NAME": name,
        "HEADGATE_EMF": "1",
        "HEADGATE_CONCURRENCY": str(group.concurrency),
        **environment,
    }
