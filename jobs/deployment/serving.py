"""The servers of an app's queues: worker groups, Lambda functions, or workers run elsewhere.

SQS hands a message to the first receiver that asks. So worker groups may share a queue, such as one
on spot capacity and one that is not. A function may not: Lambda's pollers would take most of its
messages, whatever the workers are scaled to.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from headgate.jobs.core.topology import QueueSpec, Topology
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.groups.consumer_group import ConsumerGroup
from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from headgate.jobs.errors import ConfigurationError

MOST_FIFO_BATCH = 10
"""Messages that Lambda takes at once from a FIFO queue, at most.
https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-parameters.html"""

Server = WorkerGroup | ConsumerGroup


def serving(topology: Topology, deployment: Deployment) -> Mapping[str, tuple[Server, ...]]:
    """Return the groups and functions that serve each queue, by its physical name.

    None has any if the deployment has neither workers nor consumers: they run elsewhere.

    Raises:
        ConfigurationError: a queue has no server, or a consumer shares one.
        UnknownQueue: a group or a consumer names a queue that the app doesn't have.
    """
    servers: tuple[Server, ...] = (*deployment.workers, *deployment.consumers)
    served: dict[str, tuple[Server, ...]] = {spec.name: () for spec in topology.queues}
    for server in servers:
        for spec in server.selection.of(topology):
            served[spec.name] += (server,)
    for spec in topology.queues if servers else ():
        _check_served(spec, served[spec.name])
    return served


def first_server(topology: Topology, deployment: Deployment, spec: QueueSpec) -> Server | None:
    """Return the first worker group or consumer that serves a queue; None: workers elsewhere do.

    Raises:
        UnknownQueue: a group or a consumer names a queue that the app doesn't have.
    """
    servers: tuple[Server, ...] = (*deployment.workers, *deployment.consumers)
    return next((each for each in servers if spec in each.selection.of(topology)), None)


def groups_elsewhere(deployment: Deployment) -> tuple[WorkerGroup, ...]:
    """Return the groups of workers that run outside of ECS: a deployment's own.

    One that has neither these nor functions says that its workers run elsewhere, which is there:
    then it is one group, of all queues.
    """
    if deployment.workers or deployment.consumers:
        return deployment.workers
    return (WorkerGroup(),)


def consumed(topology: Topology, group: ConsumerGroup) -> tuple[QueueSpec, ...]:
    """Return the queues that a consumer serves, if it suits each of them.

    Raises:
        ConfigurationError: a queue shows its messages again before the function has ended, a batch
            is larger than a FIFO queue allows, or than the function has time for, or
            ``reserved_concurrency`` is less than its queues may use.
        UnknownQueue: the app doesn't have a queue that it names.
    """
    specs = group.selection.of(topology)
    _check_batch(group)
    for spec in specs:
        _check_fit(spec, group)
    most = group.most_invocations * len(specs)
    if group.reserved_concurrency is not None and group.reserved_concurrency < most:
        raise ConfigurationError(
            f"the consumer {group.name!r}: reserved_concurrency={group.reserved_concurrency} is "
            f"less than its {len(specs)} queues may run at once, {group.most_invocations} each: "
            "Lambda would throttle deliveries, and SQS would count them as received. Reserve at "
            f"least {most}, or nothing"
        )
    return specs


def _check_served(spec: QueueSpec, servers: tuple[Server, ...]) -> None:
    if not servers:
        raise ConfigurationError(
            f"no worker group or consumer serves the queue {spec.name}: jobs would wait there "
            f"until SQS deletes them. Give one queues=({spec.group!r},) and the priority "
            f"{str(spec.priority)!r}"
        )
    consumers = [each for each in servers if isinstance(each, ConsumerGroup)]
    if consumers and len(servers) > 1:
        names = " and ".join(_named(each) for each in servers)
        raise ConfigurationError(
            f"the queue {spec.name} is served by {names}: a function can't share a queue. "
            "Exclude it from the queues= or priorities= of the others; None means all of the app's"
        )


def _check_batch(group: ConsumerGroup) -> None:
    if group.typical_batch > group.longest_job:
        raise ConfigurationError(
            f"the consumer {group.name!r}: a batch of {group.batch_size:,} jobs of "
            f"{_seconds(group.typical)}, {group.concurrency} at once, takes "
            f"{_seconds(group.typical_batch)}, and the function has {_seconds(group.longest_job)} "
            "for its jobs: the rest would be given back each time. Lower batch_size=, raise "
            "concurrency= or timeout=, or set typical= to the real duration of such a job"
        )


def _check_fit(spec: QueueSpec, group: ConsumerGroup) -> None:
    visibility = spec.lane.visibility
    if group.hidden > visibility:
        gathers = (
            f"gathers a batch for {_seconds(group.max_batching_window)} and "
            if group.max_batching_window
            else ""
        )
        raise ConfigurationError(
            f"the consumer {group.name!r} {gathers}may run for {_seconds(group.timeout)}, the "
            f"queue {spec.name} shows a message again after {_seconds(visibility)}, and nothing "
            "extends that in a function: lower the consumer's timeout= or max_batching_window=, or "
            "raise the queue's visibility"
        )
    if spec.fifo and (
        group.batch_size > MOST_FIFO_BATCH or group.max_batching_window > timedelta(0)
    ):
        raise ConfigurationError(
            f"the consumer {group.name!r}: from the FIFO queue {spec.name}, Lambda takes batches "
            f"of at most {MOST_FIFO_BATCH}, without a batching window"
        )


def _named(server: Server) -> str:
    kind = "the consumer" if isinstance(server, ConsumerGroup) else "the worker group"
    return f"{kind} {server.name!r}"


def _seconds(span: timedelta) -> str:
    return f"{span.total_seconds():g} s"
