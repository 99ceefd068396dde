"""KEDA's scaling of a worker group: the rules by which it is scaled on ECS.

    wanted = sum of (waiting jobs of a queue / what one pod starts of it in time)
    busy   = jobs in flight / slots of a pod, up to the pods that there are

The group gets the larger number of pods. By itself KEDA would take the largest number that any one
queue asks for, and not their sum; so the queues' numbers are combined in a formula. Each is asked
for twice, with and without the jobs in flight.
https://keda.sh/docs/latest/reference/scaledobject-spec/#scalingmodifiersformula
https://keda.sh/docs/latest/scalers/aws-sqs/
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from headgate.jobs.core.existing.arns import bare_name, owner_of
from headgate.jobs.core.topology import QueueSpec
from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from headgate.jobs.deployment.scaling.backlog import acceptable_backlog

_POLLING_S = 15
_LINGER_S = 300
"""Pause before pods are taken away: a lull may be over within minutes."""

_PODS = "pods"
_ALL = "_all"

Manifest = dict[str, Any]


def scaled_object(
    group: WorkerGroup,
    queues: Sequence[QueueSpec],
    *,
    metadata: Mapping[str, Any],
    selector: Mapping[str, str],
    authentication: str,
    account: str,
    region: str,
) -> Manifest:
    """Return the ScaledObject of a group's Deployment.

    Args:
        group: the worker group.
        queues: its queues.
        metadata: the object's metadata; its name is also the Deployment's.
        selector: the labels of the group's pods.
        authentication: the name of the TriggerAuthentication.
        account: the queues' account; likewise the region.
        region: the region.
    """
    sqs = {"authentication": authentication, "account": account, "region": region}
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": dict(metadata),
        "spec": {
            "scaleTargetRef": {"name": metadata["name"]},
            "pollingInterval": _POLLING_S,
            "cooldownPeriod": _LINGER_S,
            "minReplicaCount": group.min_tasks,
            "maxReplicaCount": group.max_tasks,
            "advanced": {
                "horizontalPodAutoscalerConfig": {
                    "behavior": {"scaleDown": {"stabilizationWindowSeconds": _LINGER_S}}
                },
                "scalingModifiers": {
                    "formula": formula(group, queues),
                    "target": "1",
                    "metricType": "AverageValue",
                },
            },
            "triggers": [
                *(each for queue in queues for each in _counts(group, queue, **sqs)),
                _pods(selector),
            ],
        },
    }


def formula(group: WorkerGroup, queues: Sequence[QueueSpec]) -> str:
    """Return the number of pods that a group's jobs ask for, in KEDA's language.

    https://expr-lang.org/docs/language-definition
    """
    names = [_variable(queue) for queue in queues]
    backlogs = [acceptable_backlog(group, queue) for queue in queues]
    wanted = " + ".join(
        f"{name} / {backlog:.10g}" for name, backlog in zip(names, backlogs, strict=True)
    )
    flying = " + ".join(f"{name}{_ALL} - {name}" for name in names)
    return f"max({wanted}, min(({flying}) / {group.slots}, {_PODS}))"


def queue_url(queue: QueueSpec, account: str, region: str) -> str:
    """Return the URL of a queue in a region and an account, or in that of its ARN."""
    domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    owner, name = owner_of(queue.name) or account, bare_name(queue.name)
    return f"https://sqs.{region}.{domain}/{owner}/{name}"


def _counts(
    group: WorkerGroup, queue: QueueSpec, *, authentication: str, account: str, region: str
) -> list[Manifest]:
    """Return the triggers that count a queue's waiting jobs, and these and those in flight.

    KEDA takes whole numbers for a length alone, and 2.17 and later refuse the whole object for
    another. The formula scales, by exact numbers; the lengths say the same of each queue alone.
    """
    lengths = {"": acceptable_backlog(group, queue), _ALL: group.slots}
    return [
        {
            "type": "aws-sqs-queue",
            "name": f"{_variable(queue)}{suffix}",
            "useCachedMetrics": True,
            "authenticationRef": {"name": authentication},
            "metadata": {
                "queueURL": queue_url(queue, account, region),
                "awsRegion": region,
                "queueLength": str(math.floor(length)),
                "scaleOnInFlight": "true" if suffix else "false",
            },
        }
        for suffix, length in lengths.items()
    ]


def _pods(selector: Mapping[str, str]) -> Manifest:
    labels = ",".join(f"{name}={value}" for name, value in selector.items())
    metadata = {"podSelector": labels, "value": "1"}
    return {"type": "kubernetes-workload", "name": _PODS, "metadata": metadata}


def _variable(queue: QueueSpec) -> str:
    """Return a queue's name in the formula, where hyphens would subtract."""
    return f"{queue.group}-{queue.priority}".replace("-", "_")
