"""The outputs of a stack, for people and scripts after a deployment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import CfnOutput, Stack

if TYPE_CHECKING:
    from headgate.infra.job_system import JobSystem


def add_outputs(stack: Stack, system: JobSystem) -> None:
    """Give a stack outputs, under stable keys; nothing is exported to other stacks.

    Queues have none: their names follow from the app's, and ``headgate queues list`` has them.
    """
    for key, (description, value) in _outputs(system).items():
        CfnOutput(stack, key, description=description, value=value)


def _outputs(system: JobSystem) -> dict[str, tuple[str, str]]:
    """Return descriptions and values, by key."""
    found = {
        "AlertsTopic": ("Tells people: subscribe who should know", system.alerts.topic_arn),
        "TicketsTopic": ("Each alarm, and what can wait", system.tickets.topic_arn),
        "Bucket": ("Payloads and results too large for messages", system.bucket.bucket_name),
        "DashboardUrl": ("How the queues and workers are", _dashboard_url(system)),
        "QuarantineUrl": ("Jobs that killed their workers", system.quarantine.queue_url),
        "Table": ("The records of jobs", system.table.table_name),
    }
    return found | _of_bridge(system) | _of_workers(system) | _of_consumers(system)


def _dashboard_url(system: JobSystem) -> str:
    region = Stack.of(system).region
    console = f"https://{region}.console.aws.amazon.com/cloudwatch/home?region={region}"
    return f"{console}#dashboards/dashboard/{system.dashboard.dashboard_name}"


def _of_bridge(system: JobSystem) -> dict[str, tuple[str, str]]:
    found = {}
    if system.bridge is not None:
        submits = "Submits scheduled and delayed jobs, and those of events"
        found["BridgeFunction"] = (submits, system.bridge.function_name)
    if system.failed_firings is not None:
        kept = "Firings and events that could not become jobs"
        found["FailedFiringsUrl"] = (kept, system.failed_firings.queue_url)
    return found


def _of_workers(system: JobSystem) -> dict[str, tuple[str, str]]:
    """Return outputs named ``Workers`` and the group's name; the cluster is the same for all."""
    found = {
        f"Workers{_key(name)}": (f"The ECS service of the group {name}", service.service_name)
        for name, service in system.services.items()
    }
    for service in system.services.values():
        found["Cluster"] = ("Where the workers run", service.cluster.cluster_name)
    return found


def _of_consumers(system: JobSystem) -> dict[str, tuple[str, str]]:
    return {
        f"Consumer{_key(name)}": (f"The function of {name}", consumer.function.function_name)
        for name, consumer in system.consumers.items()
    }


def _key(name: str) -> str:
    """Return a group's name as a part of a key, which may have only letters and digits."""
    return "".join(part.capitalize() for part in name.split("-"))
