"""An app's workers on Kubernetes, as plain manifests."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from headgate.infra.fargate.worker_command import (
    CHECK_EVERY_S,
    CHECK_PATIENCE_S,
    CHECK_RETRIES,
    HEALTH_PORT,
    STARTING_S,
    USER,
    command,
    health_check,
)
from headgate.jobs.core.naming import MAX_SCHEDULER_NAME, role_in
from headgate.jobs.deployment.groups.worker_group import WorkerGroup
from headgate.jobs.deployment.surroundings import WORKER, Sidecar
from headgate.jobs.errors import ConfigurationError
from headgate.ops.export.policies import partition_of
from headgate.ops.export.scaled_object import Manifest, scaled_object
from headgate.ops.export.target import Target, reachable

_CPU_UNITS = 1024  # of a vCPU
_STARTUP_EVERY_S = 10
_READY_EVERY_S = 10
_PROCESSORS = {"arm64": "arm64", "x86_64": "amd64"}
_INSTANCE = "app.kubernetes.io/instance"
_ROLE = "eks.amazonaws.com/role-arn"
_FILLED_IN = re.compile(r"\$(?=[$(])")


def manifests(target: Target, image: str) -> Iterator[Manifest]:
    """Yield the manifests of an app's workers, without namespaces.

    They need KEDA, and a role for each service account with the policy of its group.

    Args:
        target: the app and its place.
        image: the workers' image.

    Raises:
        ConfigurationError: a name is longer than Kubernetes or IAM allows.
        UnknownQueue: a worker group names a queue that the app doesn't have.
    """
    yield _authentication(target)
    for group in target.groups:
        yield _service_account(target, group)
        yield _deployment(target, group, image)
        yield _disruption_budget(target, group)
        yield scaled_object(
            group,
            group.selection.of(target.app.topology),
            metadata=_metadata(target, group),
            selector=_selector(target, group),
            authentication=target.name,
            account=target.account,
            region=target.region,
        )


def role_arn(target: Target, group: WorkerGroup) -> str:
    """Return the ARN of the role that a group's pods assume: that of its service, and the region.

    https://docs.aws.amazon.com/eks/latest/userguide/associate-service-account-role.html

    Raises:
        ConfigurationError: no role may have so long a name.
    """
    name = role_in(target.service(group), target.region)
    if len(name) > MAX_SCHEDULER_NAME:
        raise ConfigurationError(
            f"the role {name!r} would have {len(name)} characters; IAM allows "
            f"{MAX_SCHEDULER_NAME}: shorten the name of the app, the stage or the group"
        )
    return f"arn:{partition_of(target.region)}:iam::{target.account}:role/{name}"


def _authentication(target: Target) -> Manifest:
    """Return how KEDA asks SQS: as itself, so that its role may read these queues' attributes.

    https://keda.sh/docs/latest/authentication-providers/aws/
    """
    labels = {"app.kubernetes.io/part-of": target.name}
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "TriggerAuthentication",
        "metadata": {"name": target.name, "labels": labels},
        "spec": {"podIdentity": {"provider": "aws"}},
    }


def _service_account(target: Target, group: WorkerGroup) -> Manifest:
    metadata = _metadata(target, group)
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {**metadata, "annotations": {_ROLE: role_arn(target, group)}},
        "automountServiceAccountToken": False,
    }


def _deployment(target: Target, group: WorkerGroup, image: str) -> Manifest:
    """Return a group's Deployment, whose number of pods is KEDA's."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(target, group),
        "spec": {
            "selector": {"matchLabels": _selector(target, group)},
            # New pods start first: jobs never lack a worker, and the overlap does no harm.
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": 0, "maxSurge": "100%"},
            },
            "template": {
                "metadata": {
                    "labels": _labels(target, group),
                    "annotations": {
                        "prometheus.io/scrape": "true",
                        "prometheus.io/port": str(HEALTH_PORT),
                        "prometheus.io/path": "/metrics",
                    },
                },
                "spec": _pod(target, group, image),
            },
        },
    }


def _pod(target: Target, group: WorkerGroup, image: str) -> Manifest:
    spread = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": _selector(target, group)},
    }
    pod: Manifest = {
        "serviceAccountName": target.service(group),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,  # a service called headgate would set HEADGATE_PORT
        # Process 1 is then the pod's own, which reaps the jobs' orphans.
        "shareProcessNamespace": True,
        "terminationGracePeriodSeconds": math.ceil(group.stop_timeout.total_seconds()),
        "nodeSelector": {"kubernetes.io/arch": _PROCESSORS[target.deployment.architecture]},
        "securityContext": {
            "fsGroup": int(USER),  # who may read the role's token
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [spread],
        "containers": [_container(target, group, image)],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
    }
    if group.sidecars:
        # They start before the worker, and end after it.
        # https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/
        pod["initContainers"] = [_sidecar(each) for each in group.sidecars]
    return pod


def _container(target: Target, group: WorkerGroup, image: str) -> Manifest:
    ports = range(HEALTH_PORT, HEALTH_PORT + group.processes)
    cpu_m = 1000 * group.cpu // _CPU_UNITS
    memory = f"{group.memory_mib}Mi"
    return {
        "name": WORKER,
        "image": image,
        "command": ["headgate"],
        "args": [_literal(word) for word in command(reachable(group), emf=False)],
        "env": list(_environment(target, group)),
        "ports": [{"name": f"health-{at}", "containerPort": port} for at, port in enumerate(ports)],
        "startupProbe": {
            **_probe(group, "/startupz"),
            "periodSeconds": _STARTUP_EVERY_S,
            "failureThreshold": (STARTING_S + CHECK_RETRIES * CHECK_EVERY_S) // _STARTUP_EVERY_S,
        },
        "livenessProbe": {
            **_probe(group, "/healthz"),
            "periodSeconds": CHECK_EVERY_S,
            "failureThreshold": CHECK_RETRIES,
        },
        "readinessProbe": {**_probe(group, "/readyz"), "periodSeconds": _READY_EVERY_S},
        # No limit of the CPU, which would slow down what there is room for.
        "resources": {
            "requests": {"cpu": f"{cpu_m}m", "memory": memory},
            "limits": {"memory": memory},
        },
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": int(USER),
            "runAsGroup": int(USER),
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108 - the container's own
    }


def _environment(target: Target, group: WorkerGroup) -> Iterator[Manifest]:
    for name, value in target.variables(group).items():
        yield {"name": name, "value": _literal(value)}
    for name in target.secrets(group):
        reference = {"name": target.service(group), "key": name}
        yield {"name": name, "valueFrom": {"secretKeyRef": reference}}


def _probe(group: WorkerGroup, path: str) -> Manifest:
    """Return how one process is asked, or all of them by a program."""
    if group.processes == 1:
        asked: Manifest = {"httpGet": {"path": path, "port": HEALTH_PORT}}
    else:
        asked = {"exec": {"command": health_check(group, path)}}
    return {**asked, "timeoutSeconds": CHECK_PATIENCE_S}


def _sidecar(sidecar: Sidecar) -> Manifest:
    made: Manifest = {"name": sidecar.name, "image": sidecar.image, "restartPolicy": "Always"}
    if sidecar.command:
        made["args"] = [_literal(word) for word in sidecar.command]
    if sidecar.environment:
        made["env"] = [
            {"name": name, "value": _literal(value)} for name, value in sidecar.environment.items()
        ]
    if sidecar.memory_mib is not None:
        made["resources"] = {"limits": {"memory": f"{sidecar.memory_mib}Mi"}}
    return made


def _disruption_budget(target: Target, group: WorkerGroup) -> Manifest:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _metadata(target, group),
        "spec": {
            "maxUnavailable": "25%",
            # In an outage of SQS no pod is ready, and nodes are drained all the same.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": _selector(target, group)},
        },
    }


def _metadata(target: Target, group: WorkerGroup) -> Mapping[str, Any]:
    return {"name": target.service(group), "labels": _labels(target, group)}


def _labels(target: Target, group: WorkerGroup) -> dict[str, str]:
    return {
        "app.kubernetes.io/name": target.app.name,
        **_selector(target, group),
        "app.kubernetes.io/component": WORKER,
        "app.kubernetes.io/part-of": target.name,
    }


def _selector(target: Target, group: WorkerGroup) -> dict[str, str]:
    return {_INSTANCE: target.service(group)}


def _literal(text: str) -> str:
    """Return a text in which Kubernetes fills in no variables.

    https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
    """
    return _FILLED_IN.sub("$$", text)
