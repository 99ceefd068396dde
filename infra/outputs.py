"""The outputs of a stack, for people and scripts after a deployment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import CfnOutput, Stack

from headgate.jobs.core.topology import QueueSpec
from headgate.jobs.deployment.resource_names import output_key

if TYPE_CHECKING:
    from aws_cdk import aws_sqs as sqs

    from headgate.infra.job_system import JobSystem

_QUEUES_WITH_OUTPUTS = 80
"""Queues whose two outputs leave room for those of 20 groups of workers and functions."""


def add_outputs(stack: Stack, system: JobSystem) -> None:
    """Give a stack outputs, under stable keys; nothing is exported to other stacks."""
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
    if system.console is not None:
        leads = "The console's load balancer, which its domain has to lead to"
        found["Console"] = (leads, system.console.load_balancer.load_balancer_dns_name)
    parts = _of_bridge(system) | _of_workers(system) | _of_consumers(system)
    return found | parts | _of_existing(system) | queue_outputs(system)


def queue_outputs(system: JobSystem) -> dict[str, tuple[str, str]]:
    """Return the URL and the ARN of each queue, and of its dead letters where there is room.

    A template has 200 outputs at most. ``headgate queues list`` knows the queues of any app.
    https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html
    """
    specs = system.app.topology.queues
    found: dict[str, tuple[str, str]] = {}
    if len(specs) <= _QUEUES_WITH_OUTPUTS:
        for spec in specs:
            queue = system.queue(spec.group, spec.priority)
            found |= _of_queue("Queue", f"{spec.priority} jobs of {spec.group}", spec, queue)
    if 2 * len(specs) <= _QUEUES_WITH_OUTPUTS:
        for spec in specs:
            dead = system.dead_letter_queue(spec.group, spec.priority)
            found |= _of_queue("DeadLetters", f"Dead letters of {spec.group}", spec, dead)
    return found


def _of_queue(
    kind: str, about: str, spec: QueueSpec, queue: sqs.IQueue
) -> dict[str, tuple[str, str]]:
    key = f"{kind}{output_key(spec.group)}{output_key(spec.priority)}"
    return {f"{key}Url": (about, queue.queue_url), f"{key}Arn": (about, queue.queue_arn)}


def _of_existing(system: JobSystem) -> dict[str, tuple[str, str]]:
    """Return the variable by which other processes find what exists."""
    existing = system.app.existing
    told = "HEADGATE_EXISTING of what submits jobs from elsewhere"
    return {"Existing": (told, existing.to_text())} if existing else {}


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
        f"Workers{output_key(name)}": (f"The ECS service of the group {name}", service.service_name)
        for name, service in system.services.items()
    }
    for service in system.services.values():
        found["Cluster"] = ("Where the workers run", service.cluster.cluster_name)
    return found


def _of_consumers(system: JobSystem) -> dict[str, tuple[str, str]]:
    return {
        f"Consumer{output_key(name)}": (f"The function of {name}", consumer.function.function_name)
        for name, consumer in system.consumers.items()
    }
