"""What a person or a script asks a stack for after it was deployed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import CfnOutput, Stack

if TYPE_CHECKING:
    from infra.stack import JobSystem


def add_outputs(stack: Stack, system: JobSystem) -> None:
    """Give a stack outputs, under keys that stay; nothing is exported to other stacks.

    Queues have none: their names follow from the app's, and ``headgate queues`` lists them.
    """
    for key, (description, value) in _outputs(system).items():
        CfnOutput(stack, key, description=description, value=value)


def _outputs(system: JobSystem) -> dict[str, tuple[str, str]]:
    found = {
        "Table": ("The records of jobs", system.table.table_name),
        "Bucket": ("Payloads and results too large for messages", system.bucket.bucket_name),
        "QuarantineUrl": ("Jobs that killed their workers", system.quarantine.queue_url),
    }
    if system.bridge is not None:
        found["BridgeFunction"] = (
            "Submits scheduled and delayed jobs, and those of events",
            system.bridge.function_name,
        )
    if system.failed_firings is not None:
        found["FailedFiringsUrl"] = (
            "Firings and events that could not become jobs",
            system.failed_firings.queue_url,
        )
    return found
