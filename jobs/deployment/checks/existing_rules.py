"""Rules for resources that something else created, as far as they can be told without AWS."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.jobs.core.existing.arns import is_arn
from headgate.jobs.definitions.app import App
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.errors import Fault, did_you_mean


def existing_of_no_queue(app: App, _deployment: Deployment) -> Iterator[Fault]:
    """An existing queue for a group or a priority that the app doesn't have."""
    declared = {f"{spec.group}/{spec.priority}" for spec in app.topology.queues}
    for group, queues in app.existing.queues.items():
        for priority, found in queues.items():
            if (named := f"{group}/{priority}") in declared:
                continue
            yield Fault(
                rule="existing-of-no-queue",
                where=f"app {app.name}",
                what=f"the existing queue {found.queue!r} stands for {named!r}, which the app "
                f"doesn't have: {did_you_mean(named, declared)}",
                why="Its jobs are not run, and the queue that is meant is created anew",
                instead="Name a group and a priority that the app declares; a group that lists no "
                "priorities has those that its types name, with priority= or other_priorities=",
            )


def queue_of_another_account(app: App, _deployment: Deployment) -> Iterator[Fault]:
    """A queue whose metrics are in another account."""
    for spec in app.topology.queues:
        if is_arn(spec.name):
            yield Fault(
                rule="queue-of-another-account",
                where=f"queue {spec.name}",
                what="it is named by its ARN, as another account's",
                why="That account's CloudWatch has its metrics, and that account's policy of the "
                "queue has to admit the app's roles: else alarms don't fire, and jobs are not run",
                instead="Let its account share its metrics with this one (CloudWatch's "
                "cross-account observability) and admit the roles; or name the queue by its name, "
                "if it is the app's own account's",
                severity="warning",
            )


def receives_of_existing(app: App, _deployment: Deployment) -> Iterator[Fault]:
    """An existing queue whose redrive policy takes jobs away that only waited."""
    for spec in app.topology.queues:
        if spec.existing is None or spec.max_receive_count >= _ROOMY:
            continue
        yield Fault(
            rule="receives-of-existing",
            where=f"queue {spec.name}",
            what=f"its redrive policy moves a message away after {spec.max_receive_count} receives",
            why="A job that waits for a limit, a breaker or its group is received again and again, "
            "and ends among the dead letters without having failed",
            instead="Raise maxReceiveCount in the queue's redrive policy, up to SQS's 1,000, and "
            "max_receive_count= with it",
            severity="warning",
        )


_ROOMY = 100
"""Receives that suffice where little has to wait."""
