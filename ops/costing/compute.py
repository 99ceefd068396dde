"""Charges for Fargate tasks and Lambda functions: workers, consumers and the bridge."""

from __future__ import annotations

import math
from collections.abc import Iterator

from headgate.jobs.core.topology import Topology
from headgate.jobs.definitions.app import App
from headgate.jobs.definitions.sealing import has_own_key
from headgate.jobs.deployment.console.web_console import CONSOLE_CPU, CONSOLE_MEMORY_MIB
from headgate.jobs.deployment.deployment import Deployment
from headgate.jobs.deployment.groups.consumer_group import ConsumerGroup
from headgate.jobs.deployment.resource_names import FUNCTION_MEMORY_MB
from headgate.ops.costing.bill import Charge
from headgate.ops.costing.fleet import Crew, Fleet
from headgate.ops.costing.load import Load, Stream, typical_s
from headgate.ops.costing.sqs import jobs_in_message
from headgate.ops.prices import (
    DURATION,
    DURATION_X86,
    FIRINGS,
    FLOW_LOGS,
    IMAGE,
    INTERFACE_ENDPOINT,
    INVOCATIONS,
    KEYS,
    LOAD_BALANCER,
    LOGS_STORED,
    MEMORY,
    MONTH_S,
    POLLERS,
    PUBLIC_ADDRESS,
    SECRETS,
    SPOT_MEMORY,
    SPOT_VCPU,
    VCPU,
)

HOURS = MONTH_S / 3600

IMAGE_GB = 0.2
"""Size of the workers' image in the registry, compressed."""

BRIDGE_S = 0.1
"""Duration of one invocation of the bridge: two writes, a send, and an occasional cold start."""

FLOWS = 40
"""Flows between a task and AWS in ten minutes, both directions counted: its kept connections."""

FLOW_BYTES = 130
"""Bytes of a flow log's record, which each interface at either end writes.
https://docs.aws.amazon.com/vpc/latest/userguide/flow-log-records.html"""

_FLOWS_EVERY_S = 600
_ENDS = 2

_OWN_S = 0.02
"""Duration of a consumer's invocation in addition to its handlers."""


def charges(app: App, deployment: Deployment, fleet: Fleet, load: Load) -> Iterator[Charge]:
    """Yield a month's charges for Fargate, Lambda, EventBridge and the tasks' network."""
    for crew in fleet.crews:
        yield from _tasks(crew, is_public=deployment.network == "public")
    if fleet.crews:
        yield Charge(price=IMAGE, units=IMAGE_GB)
    if deployment.console is not None:
        yield Charge(price=LOAD_BALANCER, units=HOURS)
        yield Charge(price=VCPU, units=CONSOLE_CPU / 1024 * HOURS)
        yield Charge(price=MEMORY, units=CONSOLE_MEMORY_MIB / 1024 * HOURS)
    yield Charge(price=KEYS, units=2 if has_own_key(app) else 1)
    if app.signing is not None and app.signing.secret is None:
        yield Charge(price=SECRETS, units=1)
    yield from _flow_logs(deployment, fleet)
    yield from _pollers(app.topology, deployment)
    endpoints = deployment.interface_endpoints(
        long_delays=app.long_delays,
        seals=app.encryption is not None,
        signing=app.signing is not None,
    )
    yield Charge(price=INTERFACE_ENDPOINT, units=len(endpoints) * deployment.endpoint_zones * HOURS)
    for stream in fleet.streams:
        yield from _bridge(stream)
        for consumer in fleet.consumers[stream.queue.name]:
            together = jobs_in_message(stream, load, app.max_message_bytes)
            yield from _consumer(consumer, stream, fleet, load, together)


def _flow_logs(deployment: Deployment, fleet: Fleet) -> Iterator[Charge]:
    """Yield the charges for the flow logs of the network that is created for workers."""
    if not deployment.hardening.flow_logs or deployment.vpc is not None:
        return
    tasks = sum(crew.tasks for crew in fleet.crews)
    gb = tasks * FLOWS * _ENDS * FLOW_BYTES * MONTH_S / _FLOWS_EVERY_S / 2**30
    yield Charge(price=FLOW_LOGS, units=gb)
    yield Charge(price=LOGS_STORED, units=gb)


def _pollers(topology: Topology, deployment: Deployment) -> Iterator[Charge]:
    """Yield the charges for dedicated pollers: each queue's minimum, which is always there."""
    for group in deployment.consumers:
        if group.pollers is not None:
            queues = len(group.selection.of(topology))
            yield Charge(price=POLLERS, units=queues * group.pollers.minimum * HOURS)


def _tasks(crew: Crew, *, is_public: bool) -> Iterator[Charge]:
    """Yield task hours: busy time charged to the job types, idle time to none."""
    vcpu, gb = crew.group.cpu / 1024, crew.group.memory_mib / 1024
    steady = min(crew.tasks, crew.group.on_demand)
    parts = _parts(crew)
    for job_type, part in parts.items():
        yield Charge(price=VCPU, units=steady * HOURS * vcpu * part, job_type=job_type)
        yield Charge(price=MEMORY, units=steady * HOURS * gb * part, job_type=job_type)
        spare = (crew.tasks - steady) * HOURS * part
        yield Charge(price=SPOT_VCPU, units=spare * vcpu, job_type=job_type)
        yield Charge(price=SPOT_MEMORY, units=spare * gb, job_type=job_type)
    if is_public:
        yield Charge(price=PUBLIC_ADDRESS, units=crew.tasks * HOURS)


def _parts(crew: Crew) -> dict[str | None, float]:
    """Return the fraction of the tasks' time that each job type takes; under None, idle time."""
    if not crew.tasks or not (busy_s := sum(crew.busy_s.values())):
        return {None: 1.0}
    busy = min(1.0, crew.needed / crew.tasks)
    parts: dict[str | None, float] = {
        name: busy * seconds / busy_s for name, seconds in crew.busy_s.items()
    }
    return parts | {None: 1 - busy}


def _bridge(stream: Stream) -> Iterator[Charge]:
    """Yield the charges for what EventBridge delivers, each in an invocation of its own."""
    name = stream.job.name
    invocations = stream.fired + stream.delayed
    gb_s = BRIDGE_S * FUNCTION_MEMORY_MB / 1024
    yield Charge(price=FIRINGS, units=stream.delayed + stream.scheduled, job_type=name)
    yield Charge(price=INVOCATIONS, units=invocations, job_type=name)
    yield Charge(price=DURATION, units=invocations * gb_s, job_type=name)


def _consumer(
    consumer: ConsumerGroup, stream: Stream, fleet: Fleet, load: Load, in_message: float
) -> Iterator[Charge]:
    part = (1 - fleet.part_of_workers(stream.queue)) / len(fleet.consumers[stream.queue.name])
    jobs = batch_of(consumer, stream, load) * in_message
    invocations = stream.runs * part / jobs
    run_s = typical_s(load, [consumer]) * math.ceil(jobs / consumer.concurrency) + _OWN_S
    gb_s = run_s * consumer.memory_mib / 1024
    yield Charge(price=INVOCATIONS, units=invocations, job_type=stream.job.name)
    price = DURATION if consumer.architecture == "arm64" else DURATION_X86
    yield Charge(price=price, units=invocations * gb_s, job_type=stream.job.name)


def batch_of(consumer: ConsumerGroup, stream: Stream, load: Load) -> float:
    """Return the messages per invocation: those that arrive together or within the window."""
    gathered = 1 + stream.runs * load.peak / MONTH_S * consumer.max_batching_window.total_seconds()
    return min(float(consumer.batch_size), max(load.together, gathered))
